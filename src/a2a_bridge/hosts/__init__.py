"""The hosts: what has tools and runs them. Each knows the words of `tool`, and nothing of HTTP, MCP or sessions."""
