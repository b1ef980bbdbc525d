"""The audit log read back: starts and dones paired across both files, and what never settled."""

from collections.abc import Iterable, Iterator
from pathlib import Path

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


def lines(path: Path) -> Iterator[bytes]:
    """The lines of the log, the rotated file first. A missing file has none. Raises OSError."""
    for part in (path.with_name(f"{path.name}.1"), path):
        try:
            with part.open("rb") as file:
                yield from file
        except FileNotFoundError:
            continue


def entries(log: Iterable[bytes]) -> list[Entry]:
    """The calls in the order of their first record. Lines that are no records are passed over: another program
    may have written them, and a call whose start was rotated away is still worth showing."""
    calls: dict[str, Entry] = {}
    for line in log:
        take(calls, line)
    return list(calls.values())


def take(calls: dict[str, Entry], line: bytes) -> Entry | None:
    """Enter one line into `calls`; the call that it belongs to, or None when it is no record."""
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
