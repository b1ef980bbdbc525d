"""Commands: started, read, kept, ended."""
