"""A passage that is to be found in a text exactly, and another in its place. Only the ends of lines may differ.

A `\\n` in the old passage stands for either end of a line, LF or CR LF, and a `\\r\\n` for CR LF only. The new
passage's lines get the ends of the lines in whose place they are. A lone carriage return is a character like others.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.edits.diff import differing_runs

# An old passage that holds both `\n` and `\r\n` is tried where only the ends are wrong, until so much was tried.
MAX_MISSED = 4 * 1024 * 1024

Span = tuple[int, int]


class Search(ABC):
    """An old passage in one text, and the new one for it."""

    @abstractmethod
    def spans(self, disjoint: bool = True) -> Iterator[Span]:
        """Where it is, in order: each place after the one before, or also overlapping ones."""

    @abstractmethod
    def new(self, place: Span) -> str:
        """What is to be in that place. To be asked for one place after the other."""


def find_text(text: str, old: str, new: str) -> Search:
    """`old` must not be empty."""
    if "\n" not in old + new:
        return LiteralSearch(text, old, new)
    pairs = crlf(text)
    if pairs == 0:
        return LiteralSearch(text, old, new)
    if pairs == text.count("\n"):
        return LiteralSearch(text, _with_crlf(old), _with_crlf(new))
    return MixedEndsSearch(text, old, new)


def crlf(text: str) -> int:
    """How many of a text's lines end in CR LF."""
    return text.count("\r\n") if "\r" in text else 0


class LiteralSearch(Search):
    """Where all lines end alike, old and new are taken literally once they have those ends too."""

    def __init__(self, text: str, old: str, new: str) -> None:
        self._text, self._old, self._new = text, old, new

    def spans(self, disjoint: bool = True) -> Iterator[Span]:
        return _found(self._text, self._old, disjoint)

    def new(self, place: Span) -> str:
        return self._new


class MixedEndsSearch(Search):
    """Where some lines end in LF and others in CR LF."""

    def __init__(self, text: str, old: str, new: str) -> None:
        self._text, self._old = text, old
        self._lines = _lines(new)
        self._sources = _sources(_lines(old), self._lines)
        self._following = _Following(text)

    def spans(self, disjoint: bool = True) -> Iterator[Span]:
        if "\n" not in self._old.replace("\r\n", ""):
            return _found(self._text, self._old, disjoint)
        return self._unfolded(disjoint)

    def _unfolded(self, disjoint: bool) -> Iterator[Span]:
        """Looked for in a text with LF only, which takes linear time; a pattern with `\\r?\\n` might not."""
        normalized, old = self._text.replace("\r\n", "\n"), self._old.replace("\r\n", "\n")
        picky = len(old) < len(self._old)
        missed = at = raw = 0
        start = normalized.find(old)
        while start >= 0:
            raw = self._after(raw, start - at)
            at = start
            end = self._after(raw, len(old))
            fits = not picky or self._fits(raw, end)
            if fits:
                yield raw, end
            else:
                missed += len(old)
                if missed > MAX_MISSED:
                    raise ToolError("old has both \\n and \\r\\n, which fits too few places; write it with \\n only")
            start = normalized.find(old, start + (len(old) if disjoint and fits else 1))

    def _after(self, start: int, length: int) -> int:
        """Where as many characters of the folded text end, counted from there in the real one."""
        end = start + length
        while (stretched := start + length + self._text.count("\r\n", start, end)) > end:
            end = stretched
        return end + (length > 0 and self._text[end - 1 : end + 1] == "\r\n")

    def _fits(self, start: int, end: int) -> bool:
        here = _lines(self._text[start:end])
        expected = _lines(self._old)
        return all(crlf or not wants_crlf for (_, wants_crlf), (_, crlf) in zip(expected, here, strict=True))

    def new(self, place: Span) -> str:
        start, end = place
        ends = ["\r\n" if returns else "\n" for _, returns in _lines(self._text[start:end])]
        ends[-1] = self._following.end(end)
        lines = zip(self._lines, self._sources, strict=False)
        last, _ = self._lines[-1]
        return "".join(line + ("\r\n" if returns else ends[source]) for (line, returns), source in lines) + last


class _Following:
    """The ends of the lines that places are in. Looked up once for each line: a long one may have many places."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._feed = -2  # not yet known; -1 when no line ends any more
        self._end = "\n"

    def end(self, stop: int) -> str:
        """That of the line where the place stops; where it has none, that of the line before."""
        if self._feed != -1 and self._feed < stop:
            self._feed = self._text.find("\n", stop)
            feed = self._feed if self._feed != -1 else self._text.rfind("\n", 0, stop)
            self._end = "\r\n" if feed > 0 and self._text[feed - 1] == "\r" else "\n"
        return self._end


def _found(text: str, old: str, disjoint: bool) -> Iterator[Span]:
    start = text.find(old)
    while start >= 0:
        yield start, start + len(old)
        start = text.find(old, start + (len(old) if disjoint else 1))


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines(text: str) -> list[tuple[str, bool]]:
    """Each line, and whether it ends in an explicit CR LF. The last is what follows the last end."""
    *whole, last = text.split("\n")
    return [(line.removesuffix("\r"), line.endswith("\r")) for line in whole] + [(last, False)]


def _sources(old: list[tuple[str, bool]], new: list[tuple[str, bool]]) -> list[int]:
    """For each new line but the last: which old line gives it its end. The last old one's is what follows the place.

    A line that stays has its own end; one in an old one's place, the end of that; further ones, the end before theirs.
    """
    was, now = [line for line, _ in old], [line for line, _ in new]
    last = max(len(was) - 2, 0)
    sources: list[int] = []
    at = 0
    for a, b, c, d in [*differing_runs(was, now), (len(was), len(was), len(now), len(now))]:
        sources += range(at, a)
        sources += [min(i, last) for i in range(a, min(b, a + d - c))]
        more = c + len(sources[c:])
        sources += [sources[-1] if sources else min(a, last)] * (d - more)
        at = b
    return sources[: len(now) - 1]
