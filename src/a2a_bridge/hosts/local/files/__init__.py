"""Files as they are: what they hold, their lines, and new content for them."""
