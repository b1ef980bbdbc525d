"""Patterns and ripgrep."""
