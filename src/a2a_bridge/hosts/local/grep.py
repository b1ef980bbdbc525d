"""The tool `grep`: the lines of files that match a regular expression.

ripgrep finds them in the order in which its threads get there. They are sorted here, by path, and only those
that the answer has room for are held meanwhile.
"""

import heapq
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from a2a_bridge.hosts.local.glob import MOST_LIMIT
from a2a_bridge.hosts.local.processes.head_tail import whole_end, whole_start
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.search.glob_pattern import GlobPattern
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text

DEFAULT_LIMIT = 200
# Then the search ends, and what it has found by chance is shown.
MOST_MATCHES = 50_000
MOST_KEPT_BYTES = 4 * 1024 * 1024
LONGEST_LINE = 400
# So much of a line too long comes before its match.
LEAD = 100
# ripgrep's own cut (it counts a character with all its marks as one), so that it, too, holds little of a file.
MOST_COLUMNS = 1024

_FILE = re.compile(rb"\./(?P<path>[^\0]*)\0(?P<searched>)")
_BINARY = rb"(?:WARNING: stopped searching binary file after match|binary file matches) \(found [^\n]* offset \d+\)"
_LINE = re.compile(
    rb"\./(?P<path>[^\0]*?)(?:\0(?P<number>\d+)(?::(?P<column>\d+):|-)(?P<text>[^\n]*)|: (?P<binary>"
    + _BINARY
    + rb"))\n|(?P<searched>\d+) files searched\n"
)


class Grep(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `grep`."""

    pattern: Annotated[str, msgspec.Meta(description="Regular expression (Rust's); \\n in it makes it span lines.")]
    path: Annotated[str, msgspec.Meta(description="Directory or file; default the host's directory.")] = "."
    glob: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=4096)] | None,
        msgspec.Meta(description="Only these files, such as *.py, src/**/*.ts or !*.md."),
    ] = None
    ignore_case: Annotated[bool, msgspec.Meta(description="Upper and lower case alike.")] = False
    context: Annotated[int, msgspec.Meta(ge=0, le=50, description="Lines around each match.")] = 0
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=MOST_LIMIT, description="Matching lines (or files) to show; default 200.")
    ] = DEFAULT_LIMIT
    hidden: Annotated[bool, msgspec.Meta(description="Also names that begin with a dot.")] = False
    no_ignore: Annotated[bool, msgspec.Meta(description="Also what .gitignore and the like leave out.")] = False
    files_only: Annotated[bool, msgspec.Meta(description="Only the paths of files that match.")] = False


async def _grep(arguments: Grep, place: Workspace) -> Result:
    path = place.path(arguments.path)
    ripgrep.argument(arguments.pattern, "pattern")
    wanted = GlobPattern(arguments.glob or "**", path)

    def take(pieces: Iterator[bytes]) -> "_Found":
        found = _Files(arguments, wanted) if arguments.files_only else _Lines(arguments, wanted)
        found.take(pieces)
        return found

    found = await ripgrep.run(place, path, _options(arguments, wanted), take)
    return text(_told(found, arguments, place))


def _options(arguments: Grep, wanted: GlobPattern) -> list[str]:
    # A file that shrinks while it is mapped into memory would kill ripgrep.
    chosen = [*ripgrep.options(arguments.hidden, arguments.no_ignore), *wanted.options(arguments.hidden), "--no-mmap"]
    chosen += ["--crlf", "--null", f"--regexp={arguments.pattern}"]
    if arguments.ignore_case:
        chosen.append("--ignore-case")
    if "\n" in arguments.pattern or "\\n" in arguments.pattern:
        chosen.append("--multiline")
    if arguments.files_only:
        return [*chosen, "--files-with-matches"]
    chosen += ["--stats", "--with-filename", "--line-number", "--column", "--no-heading", "--no-context-separator"]
    chosen += [f"--max-columns={MOST_COLUMNS}", "--max-columns-preview", f"--max-count={MOST_MATCHES}"]
    return [*chosen, f"--context={arguments.context}"]


class _Found(ABC):
    """What a search has found: how much, and as much of it as may be shown."""

    unit = ""

    def __init__(self, arguments: Grep, wanted: GlobPattern) -> None:
        self.arguments = arguments
        self.wanted = wanted
        self.total = 0
        self.searched: int | None = None  # how many files; it is not known where ripgrep reads on for it
        self.stopped = False

    @abstractmethod
    def take(self, pieces: Iterator[bytes]) -> None:
        """Go through ripgrep's output."""

    @abstractmethod
    def shown(self, name: Callable[[str], str]) -> Iterator[tuple[str, int]]:
        """The lines of the answer, in order, and how many of those that were counted each one is."""

    def records(
        self, pieces: Iterator[bytes], type_name: re.Pattern[bytes], end: bytes
    ) -> Iterator[tuple[str, re.Match[bytes]]]:
        """The records of wanted files."""
        for record in ripgrep.records(pieces, type_name, end):
            if record["searched"]:
                self.searched = int(record["searched"])
                continue
            path = os.fsdecode(record["path"])
            if self.wanted.fits(path):
                yield path, record


class _Files(_Found):
    unit = "files"

    def take(self, pieces: Iterator[bytes]) -> None:
        self._paths = heapq.nsmallest(self.arguments.limit, self._counted(pieces))

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[str]:
        for path, _ in self.records(pieces, _FILE, b"\0"):
            self.total += 1
            yield path

    def shown(self, name: Callable[[str], str]) -> Iterator[tuple[str, int]]:
        for path in self._paths:
            yield name(path), 1


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file; without a number, a remark about the file."""

    number: int
    matches: bool
    text: str


@dataclass(slots=True)
class _File:
    matches: int = 0
    size: int = 0
    lines: list[_Line] = field(default_factory=list)


class _Lines(_Found):
    unit = "matching lines"

    def __init__(self, arguments: Grep, wanted: GlobPattern) -> None:
        super().__init__(arguments, wanted)
        self._files: dict[str, _File] = {}
        self._kept = 0

    def take(self, pieces: Iterator[bytes]) -> None:
        for path, record in self.records(pieces, _LINE, b"\n"):
            self._add(path, record)
            if self.total >= MOST_MATCHES:
                self.stopped = True
                return

    def _add(self, path: str, record: re.Match[bytes]) -> None:
        file = self._files.setdefault(path, _File())
        matches = bool(record["column"]) or (record["binary"] is not None and not file.matches)
        self.total += matches
        file.matches += matches
        if file.matches > self.arguments.limit or file.size > ripgrep.MOST_ANSWER_BYTES:
            return
        line = _line(record, matches)
        file.lines.append(line)
        size = len(path) + len(line.text)
        file.size += size
        self._kept += size
        if self._kept > MOST_KEPT_BYTES:
            self._prune()

    def _prune(self) -> None:
        """Drop the files that the answer has no room for, whatever else comes."""
        matches, size = self.arguments.limit, ripgrep.MOST_ANSWER_BYTES
        kept: dict[str, _File] = {}
        for path in sorted(self._files):
            if matches <= 0 or size <= 0:
                break
            kept[path] = self._files[path]
            matches -= kept[path].matches
            size -= kept[path].size
        self._files = kept
        self._kept = sum(file.size for file in kept.values())

    def shown(self, name: Callable[[str], str]) -> Iterator[tuple[str, int]]:
        room = self.arguments.limit
        separate = False
        for path in sorted(self._files):
            before = None
            for line in _first(self._files[path].lines, room, self.arguments.context):
                if self.arguments.context and separate and (before is None or line.number > before + 1 > 1):
                    yield "--", 0
                mark = ":" if line.matches else "-"
                number = f"{line.number}{mark}" if line.number else " "
                yield f"{name(path)}{mark if line.number else ':'}{number}{line.text}", int(line.matches)
                before, separate = line.number, True
                room -= line.matches
            if room <= 0:
                return


def _first(lines: list[_Line], matches: int, context: int) -> Iterator[_Line]:
    """So many matches with the lines around them."""
    end = None
    for line in lines:
        if matches == 0 and (line.matches or (end is not None and line.number > end)):
            return
        if line.matches:
            matches -= 1
            end = line.number + context
        yield line


def _line(record: re.Match[bytes], matches: bool) -> _Line:
    if record["binary"] is not None:
        return _Line(0, matches, record["binary"].decode())
    return _Line(int(record["number"]), matches, _cut(record["text"].removesuffix(b"\r"), int(record["column"] or 1)))


def _cut(line: bytes, column: int) -> str:
    """The whole line, or the part of it around the match with a note."""
    if len(line) <= LONGEST_LINE:
        return line.decode(errors="replace")
    over = "over " if len(line) > MOST_COLUMNS else ""
    line = line[:MOST_COLUMNS]  # what ripgrep says about its own cut comes after that
    start = column - 1 - LEAD if LONGEST_LINE - LEAD < column <= len(line) else 0
    part = whole_end(line[start : start + LONGEST_LINE])
    if start:
        part = whole_start(part)
    before, after = "…" if start else "", "…" if over or start + LONGEST_LINE < len(line) else ""
    note = f"[line of {over}{len(line):,} bytes cut; column {column:,}]"
    return f"{before}{part.decode(errors='replace')}{after} {note}"


def _told(searched: ripgrep.Searched[_Found], arguments: Grep, place: Workspace) -> str:
    found = searched.value

    def name(path: str) -> str:
        return ripgrep.name(place, searched.directory, path)

    lines: list[str] = []
    count, room = 0, ripgrep.MOST_ANSWER_BYTES
    for line, counted in found.shown(name):
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        lines.append(line)
        count += counted
    if not found.total:
        more = ripgrep.left_out(arguments.hidden, arguments.no_ignore) if searched.whole_directory else ""
        files = "" if found.searched is None else f" in {found.searched:,} file{'' if found.searched == 1 else 's'}"
        lines.append(f"no matches{files}{more}")
    elif found.stopped or count < found.total:
        lines.append(_more(found, count, arguments.limit))
    return "\n".join([*lines, *filter(None, [searched.complaints.note(name)])])


def _more(found: _Found, count: int, limit: int) -> str:
    total = f"{found.total:,}" if not found.stopped else f"{MOST_MATCHES:,} or more"
    chance = ", of those found first" if found.stopped else ""
    advice = "narrow pattern, path or glob" + (", or raise limit" if count == limit < MOST_LIMIT else "")
    return f"[{count:,} of {total} {found.unit}{chance}; {advice}]"


GREP = TypedTool(
    "grep",
    "Search files for a regular expression with ripgrep: path:line:text, sorted by path (path-line-text for context). "
    "Leaves out hidden and binary files and what .gitignore excludes (in git or not); does not follow symlinks. "
    "Paths are relative to the host's directory, or absolute outside it.",
    Grep,
    _grep,
    lambda _, place: place.access("read"),
)
