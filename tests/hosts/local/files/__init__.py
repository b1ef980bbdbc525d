"""Files: encodings, lines, locks, new content."""
