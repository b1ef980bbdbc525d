"""Long text to be read whole: wrapped to the screen's width without losing a character, and a window that scrolls."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from rich.cells import get_character_cell_size

from a2a_bridge.console.line import BOLD, PLAIN, Line
from a2a_bridge.console.scrolling import span

# A row on the screen holds no more characters than this, however many of them take no room.
MOST_IN_ROW = 1000


class Kind(Enum):
    """Ours, or quoted. Quoted text has a bar before each of its lines and a broken bar where a line goes on, so that
    nothing in it looks like a heading, and a line that is broken by the screen like no two lines."""

    HEADING = ""
    NOTE = "  "
    QUOTED = "│ "
    GOES_ON = "┆ "


class Part(NamedTuple):
    """A piece of text with all its lines. It has to be safe for a terminal."""

    kind: Kind
    text: str


class Passage:
    """`fit` before `lines`; both are cheap when the width has not changed."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._width = 0
        self._rows: list[tuple[Kind, str]] = []
        self._height = 1
        self.offset = 0

    def fit(self, width: int) -> None:
        if width == self._width:
            return
        self._width = width
        self._rows = [row for part in self._parts for row in _rows(part, width)]

    def lines(self, height: int) -> list[Line]:
        self._height = max(1, height)
        self.scroll(0)
        shown = self._rows[self.offset : self.offset + height]
        lines = [Line(f"{kind.value}{text}", BOLD if kind is Kind.HEADING else PLAIN) for kind, text in shown]
        return [*lines, *[Line("")] * (height - len(lines))]

    def scroll(self, rows: int) -> None:
        self.offset = max(0, min(self.offset + rows, len(self._rows) - self._height))

    def page(self, direction: int) -> None:
        self.scroll(direction * max(1, self._height - 1))

    def home(self) -> None:
        self.offset = 0

    def end(self) -> None:
        self.scroll(len(self._rows))

    @property
    def place(self) -> str:
        """How much of it is in view, in words."""
        shown = span(self.offset, self._height, len(self._rows))
        if not shown:
            return "all shown"
        more = "↓ more below" if self.offset + self._height < len(self._rows) else "the end"
        return f"rows {shown}, {more}"


def _rows(part: Part, width: int) -> Iterator[tuple[Kind, str]]:
    room = max(2, width - len(part.kind.value))
    further = Kind.GOES_ON if part.kind is Kind.QUOTED else part.kind
    for text in part.text.split("\n"):
        if len(text) <= room and text.isascii():
            yield part.kind, text
            continue
        kind = part.kind
        for piece in _pieces(text, room):
            yield kind, piece
            kind = further


def _pieces(text: str, room: int) -> Iterator[str]:
    if text.isascii():
        for start in range(0, len(text), room):
            yield text[start : start + room]
        return
    start = cells = 0
    for index, one in enumerate(text):
        size = get_character_cell_size(one)
        if cells + size > room or index - start >= MOST_IN_ROW:
            yield text[start:index]
            start, cells = index, 0
        cells += size
    yield text[start:]
