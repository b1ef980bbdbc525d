"""The tool `glob`: the paths of files, the newest first."""

import heapq
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.search.glob_pattern import GlobPattern
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text

DEFAULT_LIMIT = 200
MOST_LIMIT = 10_000
_FILE = re.compile(rb"\./([^\0]*)\0")


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


async def _glob(arguments: Glob, place: Workspace) -> Result:
    path = place.path(arguments.path)
    wanted = GlobPattern(arguments.pattern, path)
    options = [*ripgrep.options(arguments.hidden, arguments.no_ignore), "--files", "--null"]
    options += wanted.options(arguments.hidden)
    found = await ripgrep.run(
        place, path, options, lambda pieces: _newest(_paths(pieces, wanted), path, arguments.limit)
    )
    return text(_told(found, arguments, place))


def _paths(pieces: Iterator[bytes], wanted: GlobPattern) -> Iterator[str]:
    for record in ripgrep.records(pieces, _FILE, b"\0"):
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


def _told(found: ripgrep.Searched[tuple[int, list[str]]], arguments: Glob, place: Workspace) -> str:
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
        anchored = "; the first / of the pattern stands for path" if arguments.pattern.startswith("/") else ""
        left_out = ripgrep.left_out(arguments.hidden, arguments.no_ignore)
        lines.append(f"no files match (directories are not listed{anchored}){left_out}")
    elif len(lines) < count:
        advice = "narrow pattern or path" + (", or raise limit" if len(lines) == arguments.limit < MOST_LIMIT else "")
        lines.append(f"[{len(lines):,} of {count:,} files, newest first; {advice}]")
    return "\n".join([*lines, *filter(None, [found.complaints.note(name)])])


GLOB = TypedTool(
    "glob",
    "List files by name, newest first. A pattern without / matches names at any depth, with / paths from `path` on. "
    "Leaves out hidden files and what .gitignore excludes (in git or not); does not follow symlinks. "
    "Paths are relative to the host's directory, or absolute outside it.",
    Glob,
    _glob,
    lambda _, place: place.access("read"),
)
