"""A text without what is hard to see: white space is one space, look-alike letters and both cases are one.

Places in it lead back to places in the real text. All of it takes linear time, in pieces between which others run.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

PIECE = 64 * 1024
_SLICE = 1024

# What compatibility decomposition leaves apart though it looks the same, before letter case is folded.
_ALIKE = (
    ("АВЕЗКМНОРСТУХІЈЅԌԚԜ", "ABE3KMHOPCTYXIJSGQW"),
    ("аеорсухіјѕԁһӏԛԝ", "aeopcyxijsdhlqw"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX"),
    ("αονιρ", "aovip"),
    ("‘’‚‛′ʹʼ", "'" * 7),
    ("“”„‟", '"' * 4),
    ("‐‑‒–—―−⁃", "-" * 8),
    ("⁄∕∖∶∗", "//\\:*"),
)
# Zero width, direction marks, variation selectors, a byte order mark within the text.
_UNSEEN = (0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFE0E, 0xFE0F, 0xFEFF)
_LOOKS: dict[int, str | None] = {
    **{ord(odd): plain for row in _ALIKE for odd, plain in zip(*row, strict=True)},
    **dict.fromkeys(_UNSEEN, None),
    **dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd"),  # bytes that do not decode, as `read` shows them
}
_SPACES = re.compile(r"[^\S\n]+")
_TOKEN = re.compile(r"[^\S\n]+(?:\n[^\S\n]*)?|\n[^\S\n]*|\S")


def normalize(text: str) -> str:
    """Its line feeds stay, white space beside them goes."""
    if not text.isascii():
        # In slices: sorting very many marks on one letter takes the square of their number, and holds up all others.
        slices = (text[at : at + _SLICE] for at in range(0, len(text), _SLICE))
        text = "".join(unicodedata.normalize("NFKD", part).translate(_LOOKS) for part in slices)
    return _SPACES.sub(" ", text.casefold()).replace(" \n", "\n").replace("\n ", "\n")


def tokens(text: str, at: int = 0) -> Iterator[tuple[int, str]]:
    """Characters, each with its place; white space up to a line feed and after it is one token."""
    return ((found.start(), found[0]) for found in _TOKEN.finditer(text, at))


class NormalizedText:
    """A text, folded, and the way back."""

    def __init__(self, text: str) -> None:
        self._real = text
        self._starts: list[int] = []
        self._places: list[int] = []
        parts: list[str] = []
        place = 0
        for start, end in pairwise(_bounds(text)):
            part = normalize(text[start:end])
            if self._begins_line(start):
                part = part.removeprefix(" ")
            self._starts.append(start)
            self._places.append(place)
            parts.append(part)
            place += len(part)
        self.text = "".join(parts)

    def real(self, place: int) -> int:
        """Where in the real text that place is. Not to the character where unseen ones are among white space."""
        piece = bisect_right(self._places, place) - 1
        start, passed = self._starts[piece], self._places[piece]
        for at, token in tokens(self._real, start):
            # White space that begins a line was dropped.
            dropped = at == start and self._begins_line(start) and token.isspace() and "\n" not in token
            passed += 0 if dropped else len(normalize(token))
            if passed > place:
                return at
        return len(self._real)

    def _begins_line(self, at: int) -> bool:
        return at == 0 or self._real[at - 1] == "\n"


def _bounds(text: str) -> Iterator[int]:
    """Where pieces begin, and the end. They begin with a line unless lines are very long."""
    at = 0
    while at < len(text):
        yield at
        end = at + PIECE
        at = text.rfind("\n", at, end) + 1 or end if end < len(text) else len(text)
    yield len(text)
