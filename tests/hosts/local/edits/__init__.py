"""Exact edits of texts."""
