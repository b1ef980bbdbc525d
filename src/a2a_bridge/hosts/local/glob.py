"""The tool `glob`, and what a glob pattern means.

ripgrep lists the files, but its own patterns also list what is ignored or hidden, so names are matched here.
"""

import fnmatch
import heapq
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local import ripgrep
from a2a_bridge.hosts.local.place import Place
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text

DEFAULT_LIMIT = 200
MOST_LIMIT = 10_000
MOST_ALTERNATIVES = 200
MOST_NESTED = 8
_FILE = re.compile(rb"\./([^\0]*)\0")
_CLASS = r"\[[!^]?\]?[^\]/]*\]"
_PIECES = re.compile(rf"\\.|{_CLASS}|.", re.DOTALL)
# What means itself in every glob language. Anything else of a name is left open when ripgrep chooses by it.
_PLAIN = re.compile(rf"{_CLASS}|[^A-Za-z0-9_.-]")


class Glob(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `glob`."""

    pattern: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=4096, description="Such as *.py, src/**/*.{ts,tsx} or !*.md."),
    ]
    path: Annotated[str, msgspec.Meta(description="Directory; default the host's.")] = "."
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LIMIT, description="Files to list; default 200.")] = DEFAULT_LIMIT
    hidden: Annotated[bool, msgspec.Meta(description="Also names that begin with a dot.")] = False
    no_ignore: Annotated[bool, msgspec.Meta(description="Also what .gitignore and the like leave out.")] = False


async def _glob(arguments: Glob, place: Place) -> Result:
    path = place.path(arguments.path)
    wanted = Wanted(arguments.pattern, path)
    options = [*ripgrep.options(arguments.hidden, arguments.no_ignore), "--files", "--null", *wanted.excluding]
    found = await ripgrep.run(
        place, path, options, lambda pieces: _newest(_paths(pieces, wanted), path, arguments.limit)
    )
    return text(_told(found, arguments, place))


def _paths(pieces: Iterator[bytes], wanted: "Wanted") -> Iterator[str]:
    for record in ripgrep.records(pieces, _FILE):
        path = os.fsdecode(record[1])
        if wanted.fits(path):
            yield path


def _newest(paths: Iterator[str], top: Path, limit: int) -> tuple[int, list[str]]:
    """How many there are, and the newest of them: never more than those are held."""
    count = 0

    def dated() -> Iterator[tuple[int, str]]:
        nonlocal count
        for path in paths:
            count += 1
            yield -_modified(f"{top}/{path}"), path

    newest = heapq.nsmallest(limit, dated())
    return count, [path for _, path in newest]


def _modified(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except OSError:  # gone by now, or its path is too long to be asked about
        return 0


def _told(found: ripgrep.Searched[tuple[int, list[str]]], arguments: Glob, place: Place) -> str:
    count, newest = found.value

    def name(path: str) -> str:
        return ripgrep.name(place, found.directory, path)

    lines: list[str] = []
    room = ripgrep.MOST_ANSWER_BYTES
    for path in newest:
        line = name(path)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    if not count:
        lines.append(f"no files match{ripgrep.left_out(arguments.hidden, arguments.no_ignore)}")
    elif len(lines) < count:
        advice = "narrow pattern or path" + (", or raise limit" if len(lines) == arguments.limit < MOST_LIMIT else "")
        lines.append(f"[{len(lines):,} of {count:,} files, newest first; {advice}]")
    return "\n".join([*lines, *filter(None, [found.complaints.note(name)])])


class Wanted:
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

    def names(self) -> list[str]:
        """Globs of file names, in any glob language: no path that fits has another name. None: any name may fit."""
        names = [_PLAIN.sub("*", each.name) for each in self._paths]
        return [] if "*" in names else names


def _alternatives(pattern: str, top: Path) -> list[str]:
    """The patterns, as fnmatch takes them part by part, that the braces of one stand for."""
    for start in (f"{top}/", "./"):
        if pattern.startswith(start):
            pattern = pattern[len(start) - 1 :]
            break
    return _expanded((_piece(piece, pattern) for piece in _PIECES.findall(pattern)), pattern, 0)


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


GLOB = TypedTool(
    "glob",
    "List files by name, newest first. A pattern without / matches names at any depth, with / paths from `path` on. "
    "Leaves out hidden files and what .gitignore excludes (in git or not); does not follow symlinks. "
    "Paths are relative to the host's directory, or absolute outside it.",
    Glob,
    _glob,
)
