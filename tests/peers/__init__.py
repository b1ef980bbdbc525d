"""Real clients against a real bridge."""
