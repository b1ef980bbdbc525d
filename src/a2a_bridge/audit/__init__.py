"""The audit log: what its records look like, how arguments are shown in them, writing it and reading it back."""
