"""What a person types: commands, their output and their exit codes. No logic of the bridge's own."""
