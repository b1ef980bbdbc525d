"""The audit log read back: starts and dones paired across both files, and what never settled."""

import os
from collections.abc import Callable, Iterator
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


def tail(path: Path, on_gap: Callable[[], None]) -> Iterator[bytes | None]:
    """Yields the log's lines, the rotated file first, and then those that are added; None each time that there is
    nothing new. Missing files have no lines. Raises OSError.

    Follows a rotation by renaming, and one that copies the log to `<name>.1` and truncates it in place (logrotate's
    `copytruncate`). `on_gap` is called when the log was truncated and no such copy holds what was not read yet.
    """
    target = Path(os.path.realpath(path))  # a rotation happens beside a symlink's target
    rotated = target.with_name(f"{target.name}.1")
    with suppress(FileNotFoundError), rotated.open("rb") as old:
        yield from old
    log: _OpenLog | None = None
    try:
        while True:
            if log is None and (file := _open(target)) is not None:
                log = _OpenLog(file)
            if log is None:
                yield None
                continue
            if log.truncated():
                copy = log.continued_in(rotated)
                if copy is None:
                    on_gap()
                else:
                    with copy.file:
                        yield from copy.lines()
                log.restart()
            moved = not log.is_at(target)
            yield from log.lines()
            if moved:
                log.file.close()
                log = None
            else:
                yield None
    finally:
        if log is not None:
            log.file.close()


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


class _OpenLog:
    """A log file that is read while it grows. The last line that was read shows whether it is still the same text."""

    def __init__(self, file: BinaryIO, position: int = 0, last: bytes = b"") -> None:
        self.file = file
        self._position = position
        self._last = last

    def lines(self) -> Iterator[bytes]:
        """The complete lines that were not read yet."""
        self.file.seek(self._position)
        while (line := self.file.readline()).endswith(b"\n"):
            self._position += len(line)
            self._last = line
            yield line

    def truncated(self) -> bool:
        """Whether what was read is no longer there, also when the file has grown again since."""
        size = len(self._last)
        return os.pread(self.file.fileno(), size, self._position - size) != self._last

    def continued_in(self, path: Path) -> "_OpenLog | None":
        """The copy at `path`, to be read from here on; None where it does not hold what was read."""
        file = _open(path)
        if file is None:
            return None
        copy = _OpenLog(file, self._position, self._last)
        if copy.truncated():
            file.close()
            return None
        return copy

    def restart(self) -> None:
        """Read from the start again."""
        self._position, self._last = 0, b""

    def is_at(self, path: Path) -> bool:
        """Whether `path` is still this file."""
        try:
            return os.path.samestat(os.fstat(self.file.fileno()), path.stat())
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
