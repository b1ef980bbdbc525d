"""What a glob pattern means.

ripgrep's own patterns also list what is ignored or hidden, and its `?` is a byte, so names are matched here;
it only chooses beforehand.
"""

import fnmatch
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.search import ripgrep

MOST_ALTERNATIVES = 200
MOST_NESTED = 8
# Of all alternatives together: compiling them holds up everything else.
MOST_CHARACTERS = 16 * 1024
# More names than these cost ripgrep more than they spare it, and it refuses very many.
MOST_CHOSEN_CHARACTERS = 1024
_CLASS = r"\[[!^]?+(?:\][^\]/]*|[^\]/]+)\]"
_PIECES = re.compile(rf"\\.|{_CLASS}|.", re.DOTALL)
# What means itself in every glob language. Anything else of a name is left open when ripgrep chooses by it.
_PLAIN = re.compile(rf"{_CLASS}|[^A-Za-z0-9_.-]")


class GlobPattern:
    """A glob pattern. Without a slash it is about names at any depth, else about paths from `top` on.

    `*`, `?` and `[…]` stay within a name, `**` stands for any directories, `{a,b}` for either, a backslash
    takes the next character as it is. A pattern that begins with `!` is ripgrep's to exclude by. Raises ToolError.
    """

    def __init__(self, pattern: str, top: Path) -> None:
        ripgrep.argument(pattern, f"pattern {pattern!r}")
        self.excluding = [f"--glob={pattern}"] if pattern.startswith("!") else []
        self._paths = [] if self.excluding else [_Path(each) for each in _alternatives(pattern, top)]

    def fits(self, path: str) -> bool:
        return bool(self.excluding) or any(each.fits(path) for each in self._paths)

    def options(self, hidden: bool) -> list[str]:
        """What lets ripgrep leave out by itself much of what does not fit, and nothing else."""
        names = self._names()
        if self.excluding or not names or sum(map(len, names)) > MOST_CHOSEN_CHARACTERS:
            return self.excluding
        chosen = [*(f"--type-add=wanted:{name}" for name in names), "--type=wanted"]
        return chosen if hidden else [*chosen, "--glob=!.*"]  # what is of a chosen type counts though it is hidden

    def _names(self) -> list[str]:
        """Globs of file names, in any glob language: no path that fits has another name. None: any name may fit."""
        names = [_PLAIN.sub("*", each.name) for each in self._paths]
        return [] if "*" in names else names


def _alternatives(pattern: str, top: Path) -> list[str]:
    """The patterns, as fnmatch takes them part by part, that the braces of one stand for."""
    for start in (f"{top}/", "./"):
        if pattern.startswith(start):
            pattern = pattern[len(start) - 1 :]
            break
    if pattern.startswith("~/") or ".." in pattern.split("/"):
        raise ToolError(f"pattern {pattern!r} leads out of {top}; give the directory as path, and the rest as pattern")
    expanded = _expanded((_piece(piece, pattern) for piece in _PIECES.findall(pattern)), pattern, 0)
    if sum(map(len, expanded)) > MOST_CHARACTERS:
        raise ToolError(f"pattern {pattern!r}: its braces stand for too much")
    return expanded


def _piece(piece: str, pattern: str) -> str:
    if piece in ("[", "\\"):
        raise ToolError(
            f"pattern {pattern!r}: {'an unclosed [' if piece == '[' else 'nothing follows its last backslash'}"
        )
    if piece[0] == "\\":
        return f"[{piece[1]}]" if piece[1] in "*?[{,}" else piece[1]
    return piece.replace("[^", "[!", 1)


def _expanded(pieces: Iterator[str], pattern: str, depth: int) -> list[str]:
    done: list[str] = []
    heads = [""]
    for piece in pieces:
        if piece == "{":
            inner = _expanded(pieces, pattern, depth + 1) if depth < MOST_NESTED else []
            if not 0 < len(heads) * len(inner) <= MOST_ALTERNATIVES:
                raise ToolError(f"pattern {pattern!r}: its braces stand for too many patterns")
            heads = [head + each for head in heads for each in inner]
        elif depth and piece == ",":
            done += heads
            heads = [""]
        elif depth and piece == "}":
            return done + heads
        else:
            heads = [head + piece for head in heads]
    if depth:
        raise ToolError(f"pattern {pattern!r}: an unclosed {{")
    return heads


class _Path:
    """One pattern without braces."""

    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part]
        if pattern.endswith("/") or not parts:
            parts.append("**")
        if parts[-1] == "**":
            parts.append("*")
        self.name = parts[-1]
        anywhere = parts[:-1] == ["**"] or "/" not in pattern
        self._start = "" if anywhere else _literal(parts[:-1])
        self._fits_name = _part(self.name)
        self._parts = None if anywhere else [None if part == "**" else _part(part) for part in parts]

    def fits(self, path: str) -> bool:
        """Cheap refusals first: there are many paths, and few fit."""
        if not path.startswith(self._start) or not self._fits_name.match(path.rpartition("/")[2]):
            return False
        return self._parts is None or _walk(path.split("/"), self._parts)


def _literal(directories: list[str]) -> str:
    """The beginning that all paths share which fit."""
    return "".join(f"{part}/" for part in itertools.takewhile(lambda part: not set(part) & set("*?["), directories))


def _part(part: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(part))


def _walk(names: list[str], parts: list[re.Pattern[str] | None]) -> bool:
    """Whether the parts lead along all the names. All ways are gone at once, so that no pattern takes for ever."""
    ways = _past({0}, parts)
    for name in names:
        onward = {way + 1 for way in ways if way < len(parts) and (part := parts[way]) and part.match(name)}
        ways = _past(onward | {way for way in ways if way < len(parts) and parts[way] is None}, parts)
    return len(parts) in ways


def _past(ways: set[int], parts: list[re.Pattern[str] | None]) -> set[int]:
    """A `**` may stand for no directory."""
    for way in sorted(ways):
        while way < len(parts) and parts[way] is None:
            way += 1
            ways.add(way)
    return ways
