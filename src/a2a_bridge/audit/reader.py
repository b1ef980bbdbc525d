"""The audit log read back: starts and dones paired across both files, and what never settled."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec


class Entry(msgspec.Struct, rename="camel"):
    """One call. `done` is the time of its done record, None while there is none; `is_error` likewise."""

    id: str
    sid: str
    tool: str
    args: str
    start: str | None = None
    done: str | None = None
    is_error: bool | None = None


class _Line(msgspec.Struct, rename="camel"):
    """Either record, with what a log of another version may lack filled in."""

    ts: str
    id: str
    phase: str
    sid: str = ""
    tool: str = ""
    args: str = ""
    is_error: bool | None = None


def tail(path: Path) -> Iterator[bytes | None]:
    """The log's lines, the rotated file first, and then those that are added, through rotations; None
    each time that there is nothing new. Missing files have no lines. Raises OSError."""
    target = Path(os.path.realpath(path))  # a rotation happens beside a symlink's target
    with suppress(FileNotFoundError), target.with_name(f"{target.name}.1").open("rb") as old:
        yield from old
    file: BinaryIO | None = None
    try:
        while True:
            with suppress(FileNotFoundError):
                file = file or target.open("rb")
            moved = file is not None and not _is_at(file, target)
            yield from file or ()
            if file is not None and moved:
                file.close()
                file = None
            else:
                yield None
    finally:
        if file is not None:
            file.close()


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def take(calls: dict[str, Entry], line: bytes) -> Entry | None:
    """Enter one line into `calls`; the call that it belongs to, or None when it is no record.

    Another program may have written lines of its own, and a call whose start was rotated away is worth showing.
    """
    try:
        record = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, RecursionError):
        return None
    entry = calls.setdefault(record.id, Entry(record.id, record.sid, record.tool, record.args))
    if record.phase == "start":
        entry.start = record.ts
    else:
        entry.done = record.ts
        entry.is_error = record.is_error
    return entry
