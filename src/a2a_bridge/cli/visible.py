"""Text that came from elsewhere, made safe for a terminal: nothing in it can move the cursor or forge a line."""

LONGEST_LINE = 2000


def visible(text: str) -> str:
    """One line of bounded length; control, bidirectional and other characters that cannot be seen as `\\u{1b}`."""
    cut = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else f"\\u{{{ord(one):x}}}" for one in cut)
