"""The local host's tools."""
