"""The tool `read`: a text file's lines with their numbers, or a directory's entries."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.clip import whole_end
from a2a_bridge.hosts.local.kinds import kind
from a2a_bridge.hosts.local.place import Place, Stopped
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text

DEFAULT_LINES = 2000
MOST_BYTES = 256 * 1024
LONGEST_LINE = 16 * 1024
_CUT = f" [line cut after {LONGEST_LINE} bytes]"
SKIP_BYTES = 256 * 1024
_SNIFFED = 8192


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `read`."""

    path: Annotated[str, msgspec.Meta(description="File or directory; relative to the host's directory, ~ expands.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="First line to show, from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="Lines to show; default 2000.")] = DEFAULT_LINES


async def _read(arguments: Read, place: Place) -> Result:
    path = place.path(arguments.path)
    return text(await place.in_thread(lambda stopped: _content(path, arguments, stopped)))


def _content(path: Path, arguments: Read, stopped: Stopped) -> str:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return _entries(path)
        _expect_regular(path, mode)  # before it is opened: opening a device can do things, a FIFO waits
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return _text(path, file, arguments, stopped)
    except OSError as error:
        raise ToolError(f"{path}: {_WORDS.get(error.errno or 0, error.strerror or str(error))}") from None


_WORDS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
}


def _text(path: Path, file: BinaryIO, arguments: Read, stopped: Stopped) -> str:
    status = os.fstat(file.fileno())
    _expect_regular(path, status.st_mode)
    if b"\0" in file.read(_SNIFFED):
        raise ToolError(f"{path}: a binary file of {status.st_size} bytes; read shows text only")
    file.seek(0)
    shown: list[str] = []
    size = 0
    number = _skip(file, arguments.offset - 1, stopped)
    for line, cut in _lines(file, stopped) if number == arguments.offset - 1 else ():
        number += 1
        if len(shown) == arguments.limit or size >= MOST_BYTES:
            return "\n".join([*shown, f"[more lines follow; continue with offset {number}]"])
        shown.append(f"{number:>6}\t{line.decode(errors='replace')}{_CUT if cut else ''}")
        size += len(shown[-1].encode())
    if not shown:
        return f"[empty file: {path}]" if number == 0 else f"[no line {arguments.offset}: the file has {number} lines]"
    return "\n".join(shown)


def _skip(file: BinaryIO, lines: int, stopped: Stopped) -> int:
    """Go past that many lines; how many there were. Counts in large pieces, for the event loop's sake too."""
    passed, whole = 0, True
    while passed < lines and not stopped():
        piece = file.read(SKIP_BYTES)
        if not piece:
            return passed if whole else passed + 1
        found = piece.count(b"\n")
        if passed + found >= lines:
            end = 0
            for _ in range(lines - passed):
                end = piece.index(b"\n", end) + 1
            file.seek(end - len(piece), os.SEEK_CUR)
            return lines
        passed += found
        whole = piece.endswith(b"\n")
    return passed


def _expect_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ToolError(f"{path}: not a regular file but a {kind(mode)}; it was not opened")


def _lines(file: BinaryIO, stopped: Stopped) -> Iterator[tuple[bytes, bool]]:
    """Lines without their end, and whether they were cut: the rest of one too long is passed over, not held."""
    while (line := file.readline(LONGEST_LINE + 2)) and not stopped():
        whole = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
        if len(whole) <= LONGEST_LINE:
            yield whole, False
            continue
        if not line.endswith(b"\n"):
            _skip(file, 1, stopped)
        yield whole_end(whole[:LONGEST_LINE]), True


def _entries(path: Path) -> str:
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    lines: list[str] = []
    size = 0
    for entry in found:
        if size >= MOST_BYTES:
            lines.append(f"[{len(found) - len(lines)} more entries, left out]")
            break
        lines.append(_entry(entry))
        size += len(lines[-1].encode())
    return "\n".join(lines) if lines else f"[empty directory: {path}]"


def _entry(entry: os.DirEntry[str]) -> str:
    name = os.fsencode(entry.name).decode(errors="replace")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return f"{name}  ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/"
    if stat.S_ISREG(status.st_mode):
        return f"{name}  {status.st_size} bytes"
    return f"{name}  ({kind(status.st_mode)})"


READ = TypedTool(
    "read",
    "Read a text file: lines with their numbers, at most `limit` from `offset` on (and 256 KiB). "
    "A directory gives its entries.",
    Read,
    _read,
)
