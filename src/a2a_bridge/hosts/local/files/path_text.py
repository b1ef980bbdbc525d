"""File names as a person reads them and a shell takes them."""

import os
import re
from pathlib import Path

_QUOTED = re.compile(r"\$'((?:[^'\\]|\\x[0-9a-f]{2}|\\[\\'])*)'")
_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|([\\']))")


def path_and_target(path: Path) -> str:
    """A path for the owner who approves a change: with the file that its symbolic links lead to."""
    name, target = quote_name(str(path)), os.path.realpath(path)
    return name if target == os.path.normpath(path) else f"{name}, which is {quote_name(target)}"


def quote_name(name: str | bytes) -> str:
    """The name itself where all of it can be read, else quoted as bash's `$'…'`, byte by byte where need be."""
    text = os.fsdecode(name)
    if text.isprintable():
        return text
    return "$'" + "".join(_quoted(character) for character in text) + "'"


def unquote_path(path: str) -> str:
    """A path in which names may stand as `shown` writes them. (It quotes only what it has to write with `\\x`.)"""
    return _QUOTED.sub(lambda found: _unquoted(found[1]) if "\\x" in found[1] else found[0], path)


def _unquoted(text: str) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda one: bytes.fromhex(one[1].decode()) if one[1] else one[2], os.fsencode(text)))


def _quoted(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
