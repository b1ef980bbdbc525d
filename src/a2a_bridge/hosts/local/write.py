"""The tool `write`: a file's whole content, or more at its end."""

import os
import re
from io import FileIO
from pathlib import Path
from typing import Annotated

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.edits.diff import single_change, unified
from a2a_bridge.hosts.local.files.atomic_write import regular_status, replace
from a2a_bridge.hosts.local.files.encoding import SAMPLE_BYTES, UTF8, Binary, detect_encoding
from a2a_bridge.hosts.local.files.lock import exclusive
from a2a_bridge.hosts.local.files.path_text import path_and_target
from a2a_bridge.hosts.local.files.text_codec import MAX_BYTES, decode_text, encoding_for
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Access, Result, text

# Larger files are not compared for a person, who would not read the difference either.
_MAX_COMPARED_BYTES = 1024 * 1024
_HALVES = re.compile("[\ud800-\udfff]")


class Write(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `write`."""

    path: Annotated[str, msgspec.Meta(description="File; relative to the host's directory, ~ expands.")]
    content: Annotated[str, msgspec.Meta(description="Its text, as UTF-8; appended in the file's own encoding.")]
    append: Annotated[bool, msgspec.Meta(description="Add to the end instead of replacing.")] = False


async def _write(arguments: Write, workspace: Workspace) -> Result:
    path = _path(arguments, workspace)
    return text(await workspace.in_thread(lambda _: _written(path, arguments)))


def _path(arguments: Write, workspace: Workspace) -> Path:
    """Where it would write. Raises ToolError for what cannot be written at all."""
    path = workspace.path(arguments.path)
    if arguments.path.endswith("/"):
        raise ToolError(f"{path}: nothing was written; {arguments.path!r} ends like a directory; leave the last / out")
    if half := _HALVES.search(arguments.content):
        raise ToolError(
            f"{path}: nothing was written; content holds half a character (the lone surrogate U+{ord(half[0]):04X})"
        )
    return path


def _written(path: Path, arguments: Write) -> str:
    content = arguments.content
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    try:
        with exclusive(path) as status:
            if status is None:
                Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
            if arguments.append and status is not None:
                added, whole, notes = _append(path, content)
                return (
                    f"appended to {path}: {_count(lines, 'line')}, {_count(added, 'byte')}; it has {whole} now{notes}"
                )
            replace(path, content.encode(), status)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}; nothing was written") from None
    size = _count(len(content.encode()), "byte")
    return f"{'created' if status is None else 'replaced'} {path}: {_count(lines, 'line')}, {size}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _append(path: Path, added: str) -> tuple[int, str, str]:
    """Add all of it or nothing, in the file's own encoding. How many bytes it was, how many there are now, and what
    the caller may not expect. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        before = os.fstat(descriptor).st_size
        content, notes = _fitting(path, file, before, added)
        _add(file, content)
        return len(content), _count(os.fstat(descriptor).st_size, "byte"), notes


def _add(file: FileIO, content: bytes) -> None:
    """All of it or nothing, unless another program has appended meanwhile: what is its is not cut off."""
    before, added = os.fstat(file.fileno()).st_size, 0
    try:
        while added < len(content):
            added += file.write(memoryview(content)[added:])
    except OSError:
        if os.fstat(file.fileno()).st_size == before + added:
            os.ftruncate(file.fileno(), before)
        raise


def _fitting(path: Path, file: FileIO, size: int, added: str) -> tuple[bytes, str]:
    """The bytes to add, and notes. Raises ToolError when the file is no text, or has no bytes for such characters."""
    sample = os.pread(file.fileno(), SAMPLE_BYTES, 0)
    encoding = detect_encoding(sample)
    if isinstance(encoding, Binary):
        raise ToolError(f"{path}: nothing was written; it is not text ({encoding.mime}); append with bash")
    try:
        encoding = encoding_for([added], encoding, lambda: os.pread(file.fileno(), min(size, MAX_BYTES), 0))
    except ToolError as error:
        raise ToolError(f"{path}: nothing was written; {error}") from None
    content = added.encode(encoding.codec)
    notes = [] if encoding == UTF8 else [f"encoding {encoding}"]
    feed = "\n".encode(encoding.codec)
    if size > len(encoding.mark) and added and os.pread(file.fileno(), len(feed), size - len(feed)) != feed:
        notes.append("its last line had no end, and goes on with what was appended")
    if b"\r" in sample and "\n" in added.replace("\r\n", "") and "\r\n".encode(encoding.codec) in sample:
        notes.append("it has lines that end in CRLF; what was appended ends in LF")
    return content, f"\n[{'; '.join(notes)}]" if notes else ""


def _access(arguments: Write, workspace: Workspace) -> Access:
    _path(arguments, workspace)
    return workspace.access("write")


async def _preview(arguments: Write, workspace: Workspace) -> str:
    path = _path(arguments, workspace)
    return await workspace.in_thread(lambda _: _changes(path, arguments))


def _changes(path: Path, arguments: Write) -> str:
    """What the write would change, told from the file as it is now."""
    name = path_and_target(path)
    try:
        status = regular_status(path)
        if status is None:
            return f"{name} does not exist yet"
        if arguments.append:
            return f"added to the end of {name}, which has {_count(status.st_size, 'byte')} now"
        data = _beginning(path)
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror or error}") from None
    if len(data) > _MAX_COMPARED_BYTES or len(arguments.content) > _MAX_COMPARED_BYTES:
        return f"put in the place of {name}, which has {_count(status.st_size, 'byte')} now"
    try:
        encoding, before = decode_text(data)
    except ToolError as error:
        return f"put in the place of {name}: {error}"
    note = "" if encoding == UTF8 else f"[it is {encoding} now, and will be UTF-8]\n"
    change = single_change(before, arguments.content)
    changed = unified(before, arguments.content, [change], name, False) if change else "[no change]"
    return _HALVES.sub("\ufffd", f"{note}{changed}")


def _beginning(path: Path) -> bytes:
    """No more of the file than is compared, however long it is, and without waiting for it."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return file.read(_MAX_COMPARED_BYTES + 1) or b""


WRITE = TypedTool(
    "write",
    "Write a text file whole, or append to it. Makes missing directories; keeps mode and owner; follows a symlink.",
    Write,
    _write,
    _access,
    _preview,
)
