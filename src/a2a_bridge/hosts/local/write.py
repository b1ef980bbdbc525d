"""The tool `write`: a file's whole content, or more at its end."""

import os
import re
from pathlib import Path
from typing import Annotated

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.replace import regular, replace
from a2a_bridge.hosts.local.place import Place
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, text


class Write(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `write`."""

    path: Annotated[str, msgspec.Meta(description="File; relative to the host's directory, ~ expands.")]
    content: Annotated[str, msgspec.Meta(description="Its text, written as UTF-8.")]
    append: Annotated[bool, msgspec.Meta(description="Add to the end instead of replacing.")] = False


async def _write(arguments: Write, place: Place) -> Result:
    path = place.path(arguments.path)
    if half := re.search("[\ud800-\udfff]", arguments.content):
        raise ToolError(
            f"{path}: nothing was written; content holds half a character (the lone surrogate U+{ord(half[0]):04X})"
        )
    return text(await place.in_thread(lambda _: _written(path, arguments)))


def _written(path: Path, arguments: Write) -> str:
    content = arguments.content.encode()
    lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and bool(content))
    size = f"{lines} line{'' if lines == 1 else 's'}, {len(content)} byte{'' if len(content) == 1 else 's'}"
    try:
        status = regular(path)
        if status is None:
            Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        if arguments.append:
            whole = _append(path, content)
            return f"appended to {path}: {size}; it has {whole} bytes now"
        replace(path, content, status)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}; nothing was written") from None
    return f"{'created' if status is None else 'replaced'} {path}: {size}"


def _append(path: Path, content: bytes) -> int:
    """Add all of it or nothing; the file's size afterwards. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        before = os.fstat(descriptor).st_size
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        return os.fstat(descriptor).st_size


WRITE = TypedTool(
    "write",
    "Write a text file whole, or append to it. Makes missing directories; keeps mode and owner; follows a symlink.",
    Write,
    _write,
)
