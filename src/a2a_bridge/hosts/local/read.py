"""The tool `read`: a text file's lines with their numbers, a directory's entries, or an image."""

import base64
import errno
import os
import stat
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES, UTF8, Binary, Encoding, detect_encoding
from a2a_bridge.hosts.local.files.file_type import type_name
from a2a_bridge.hosts.local.files.line_reader import MAX_LINE_LENGTH, LineReader, seek_from_end
from a2a_bridge.hosts.local.files.listing import describe, list_entries
from a2a_bridge.hosts.local.files.path_text import quote_name
from a2a_bridge.hosts.local.workspace import Stopped, Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Image, Result, text

DEFAULT_LINES = 2000
MAX_BYTES = 256 * 1024
# What clients take as one image; larger ones they drop, or fail on.
MAX_IMAGE_BASE64 = 4_000_000
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
HEX_BYTES = 64
ALL_LINES = 1 << 62
_CUT = f" [line cut after {MAX_LINE_LENGTH} bytes]"


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `read`."""

    path: Annotated[str, msgspec.Meta(description="File or directory; relative to the host's directory, ~ expands.")]
    offset: Annotated[int, msgspec.Meta(description="First line, from 1; -N: the Nth from the end.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="Lines to show; default 2000.")] = DEFAULT_LINES


async def _read(arguments: Read, workspace: Workspace) -> Result:
    path = workspace.path(arguments.path)
    if arguments.offset == 0:
        raise ToolError(f"{path}: offset 0 is no line; the first is 1, the last is -1")
    return await workspace.in_thread(lambda stopped: _content(path, arguments, stopped))


def _content(path: Path, arguments: Read, stopped: Stopped) -> Result:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return text(_entries(path, arguments))
        _expect_regular(path, mode)  # before it is opened: opening a device can do things, a FIFO waits
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _expect_regular(path, status.st_mode)
            sample = file.read(SAMPLE_BYTES)
            found = detect_encoding(sample)
            if isinstance(found, Binary):
                return _binary(path, found, file, sample, status.st_size)
            return text(_text(path, file, found, arguments, stopped))
    except OSError as error:
        words = _WORDS.get(error.errno or 0, error.strerror or str(error))
        raise ToolError(f"{path}: {words}{_link_target(path)}") from None


_WORDS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
}


def _link_target(path: Path) -> str:
    """Of a link that leads nowhere: where to."""
    try:
        return f" (a symbolic link to {quote_name(os.readlink(path))})"
    except (OSError, ValueError):
        return ""


def _expect_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ToolError(f"{path}: not a regular file but a {type_name(mode)}; it was not opened (bash can)")


def _text(path: Path, file: BinaryIO, encoding: Encoding, arguments: Read, stopped: Stopped) -> str:
    lines, first, passed = _start(file, encoding, arguments.offset, stopped)
    rows: list[str] = []
    ends: list[bytes] = []
    damaged = 0
    size, number = 0, first
    while line := lines.next():
        if len(rows) == arguments.limit or size >= MAX_BYTES:
            more = f"[more lines follow; continue with offset {number}]"
            return "\n".join([*rows, *_notes(encoding, ends, damaged), more])
        rows.append(f"{number:>6}\t{line.text}{_CUT if line.cut else ''}")
        ends.append(line.end)
        damaged += line.damaged
        size += len(rows[-1].encode())
        number += 1
    if not rows:
        return f"[no line {first}: the file has {passed} lines]" if passed else f"[empty file: {path}]"
    total = [f"[end of the file: {number - 1} lines]"] if first > 1 else []
    return "\n".join([*rows, *_notes(encoding, ends, damaged), *total])


def _start(file: BinaryIO, encoding: Encoding, offset: int, stopped: Stopped) -> tuple[LineReader, int, int]:
    """The lines from the offset on, the first one's number, and how many were passed on the way.

    Numbers from the end stay negative, so that nobody has to count a large file to see its last lines.
    """
    start = len(encoding.mark)

    def lines(size: int | None = None) -> LineReader:
        file.seek(max(start, file.tell()))
        return LineReader(file, encoding, stopped, size)

    file.seek(start)
    if offset > 0:
        forward = lines()
        return forward, offset, forward.skip(offset - 1)
    size = os.fstat(file.fileno()).st_size
    if size > start and not encoding.wide:
        count = seek_from_end(file, -offset, size, stopped)
        return lines(size - max(start, file.tell())), -count, 0
    # No way back: /proc tells no sizes, and bytes do not show where a wide line feed is.
    total = lines().skip(ALL_LINES)
    file.seek(start)
    last = lines()
    count = min(total, -offset)
    last.skip(total - count)
    return last, -count, 0


def _notes(encoding: Encoding, ends: list[bytes], damaged: int) -> list[str]:
    """What the lines do not show, and whoever edits them may need to know."""
    notes = [] if encoding == UTF8 else [f"encoding {encoding}"]
    if crlf := ends.count(b"\r\n"):
        every = crlf + ends.count(b"") == len(ends)
        notes.append("lines end in CRLF" if every else f"{crlf} of these lines end in CRLF, the others in LF")
    if damaged:
        lines = "1 of these lines has" if damaged == 1 else f"{damaged} of these lines have"
        notes.append(f"{lines} bytes that do not decode, shown as \ufffd")
    return [f"[{'; '.join(notes)}]"] if notes else []


def _binary(path: Path, found: Binary, file: BinaryIO, sample: bytes, size: int) -> Result:
    if found.mime not in IMAGES:
        return text(f"[binary file {path}: {found.mime}, {size} bytes; it begins {sample[:HEX_BYTES].hex(' ')}]")
    room = MAX_IMAGE_BASE64 // 4 * 3
    file.seek(0)
    content = file.read(room + 1)
    if len(content) > room:
        raise ToolError(
            f"{path}: {found.mime} of {size} bytes; at most {room} can be sent: scale a copy down and read it"
        )
    return Result((Image(base64.b64encode(content).decode(), found.mime),))


def _entries(path: Path, arguments: Read) -> str:
    found = list_entries(path)
    first = arguments.offset if arguments.offset > 0 else max(1, len(found) + arguments.offset + 1)
    lines: list[str] = []
    size = 0
    for number, entry in enumerate(found[first - 1 :], first):
        if len(lines) == arguments.limit or size >= MAX_BYTES:
            lines.append(f"[{len(found) - number + 1} more entries; continue with offset {number}]")
            break
        lines.append(describe(entry))
        size += len(lines[-1].encode(errors="replace"))
    if not lines:
        return f"[no entry {first}: the directory has {len(found)}]" if found else f"[empty directory: {path}]"
    return "\n".join(lines)


READ = TypedTool(
    "read",
    "Read a text file: lines with their numbers, at most `limit` from `offset` on (and 256 KiB); notes in [brackets] "
    "tell of more lines, CRLF and encodings. A directory gives its entries with sizes, PNG/JPEG/GIF/WebP the image.",
    Read,
    _read,
    lambda _, workspace: workspace.access("read"),
)
