"""Exact edits of a text, pure: what is found, what comes of it, the diff, and why nothing was found."""
