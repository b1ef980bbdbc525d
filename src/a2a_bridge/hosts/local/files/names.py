"""File names as a person reads them and a shell takes them."""

import os


def shown(name: str | bytes) -> str:
    """The name itself where all of it can be read, else quoted as bash's `$'…'`, byte by byte where need be."""
    text = os.fsdecode(name)
    if text.isprintable():
        return text
    return "$'" + "".join(_quoted(character) for character in text) + "'"


def _quoted(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
