"""ripgrep, and what a glob pattern means."""
