"""Lines that commands print about text from elsewhere: none of it can begin a line of its own, not by a terminal's
wrapping either, and none of it reaches a terminal raw."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterator

import msgspec


def as_json(value: object) -> str:
    """One line of ASCII: a terminal does with it what it does with letters."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def cut(line: str) -> str:
    """A line no wider than the terminal; whole where there is none."""
    width = _columns()
    if not width or _cells(line) <= width:
        return line
    kept, used = "", 0
    for one in line:
        used += _cells(one)
        if used > width - 1:
            break
        kept += one
    return f"{kept}…"


def boxed(text: str) -> Iterator[str]:
    """Each line behind a bar, what does not fit on it behind another."""
    width = _columns()
    for line in text.split("\n"):
        for number, piece in enumerate(_pieces(line, width - 4 if width else 0)):
            yield f"  {'┆' if number else '│'} {piece}"


def _pieces(line: str, width: int) -> Iterator[str]:
    if width < 1 or (line.isascii() and len(line) <= width):
        yield line
        return
    begin, used = 0, 0
    for at, one in enumerate(line):
        cells = _cells(one)
        if used + cells > width and at > begin:
            yield line[begin:at]
            begin, used = at, 0
        used += cells
    yield line[begin:]


def _cells(text: str) -> int:
    """How many columns it takes; of what is in doubt, the more."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(one) in "WFA" else 1 for one in text)


def _columns() -> int:
    """The terminal's; 0 where stdout is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        return 0
