"""Commands, their output and their end."""
