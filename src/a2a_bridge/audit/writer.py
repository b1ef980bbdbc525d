"""The audit log: two JSON lines for each call, in a file that only its owner reads (rules L1 to L5).

Several bridges may append to one file. A line goes out in one `write` on an O_APPEND descriptor, so
lines never mix; only the rename of a full file needs a lock. A line that is written to a file which
another process has just renamed stands in `<path>.1`, and so is not lost.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from a2a_bridge.audit.redaction import shown_string

ROTATE_BYTES = 512 * 1024
REPORT_EVERY = 100
MAX_GATHERED_BYTES = 64 * 1024
# How old the knowledge may be that the path still names the open file. Far below the time that any
# number of bridges need to fill a file, and it spares a busy bridge one look-up a record.
_CHECK_SECONDS = 0.005


class Start(msgspec.Struct, frozen=True, gc=False):
    """Written before the tool is dispatched. The order of the fields is the order in the file."""

    ts: str
    id: str
    sid: str
    phase: Literal["start"]
    tool: str
    args: str


class Done(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Written when the call has settled. `decided` is what let it run, where the owner's rules had a say."""

    ts: str
    id: str
    sid: str
    phase: Literal["done"]
    tool: str
    is_error: bool
    args: str
    decided: str = ""


Record = Start | Done


def timestamp(milliseconds: int) -> str:
    """Milliseconds since the epoch as ISO 8601 UTC."""
    whole = time.gmtime(milliseconds // 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', whole)}.{milliseconds % 1000:03d}Z"


class AuditWriter:
    """Appends records to one path. A failing write is counted and reported, and never reaches the call (L4).

    Records are gathered until `flush`, so that those of calls that come together go out in one write. `later` gets
    `flush` with the first of them, to be called at the end of the event loop's turn; by default it is called at once.
    """

    def __init__(
        self,
        path: Path,
        report: Callable[[str], None],
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        later: Callable[[Callable[[], None]], object] = lambda flush: flush(),
    ) -> None:
        self.path = path
        self.failed = 0
        self._report = report
        self._now = now
        self._clock = clock
        self._later = later
        self._file: _LogFile | None = None
        self._checked = 0.0
        self._encode = msgspec.json.Encoder().encode_into
        self._gathered = bytearray()
        self._starts = False  # whether a start is among what is gathered
        self._stuck = False
        self._millisecond = -1
        self._shown = ""

    def start(self, call_id: str, session: str, tool: str, args: str) -> None:
        self._starts = True
        self._write(Start(self._timestamp(), call_id, session, "start", shown_string(tool), args))

    def done(self, call_id: str, session: str, tool: str, args: str, is_error: bool, decided: str = "") -> None:
        self._write(Done(self._timestamp(), call_id, session, "done", shown_string(tool), is_error, args, decided))

    def close(self) -> None:
        """Writes what is gathered and closes the file."""
        self.flush()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _timestamp(self) -> str:
        """`timestamp` of now, made once a millisecond."""
        now = int(self._now() * 1000)
        if now != self._millisecond:
            self._millisecond = now
            self._shown = timestamp(now)
        return self._shown

    def _write(self, record: Record) -> None:
        gathered = self._gathered
        first = not gathered
        length = len(gathered)
        try:
            self._encode(record, gathered, -1)
        except ValueError as error:
            del gathered[length:]
            self._failed(1, error)
            return
        gathered += b"\n"
        if first:
            self._later(self.flush)
        elif len(gathered) > MAX_GATHERED_BYTES:
            self.flush()

    def flush_starts(self) -> None:
        """Writes the gathered records if a start is among them; ends alone may wait for each other."""
        if self._starts:
            self.flush()

    def flush(self) -> None:
        """Writes the gathered records."""
        self._starts = False
        gathered = self._gathered
        if not gathered:
            return
        try:
            file = self._file
            if file is None or self._clock() - self._checked >= _CHECK_SECONDS or not self._has_room(file):
                file = self._current()
            file.append(gathered)
        except OSError as error:
            self._failed(gathered.count(b"\n"), error)
        gathered.clear()

    def _failed(self, records: int, error: Exception) -> None:
        for _ in range(records):
            self.failed += 1
            if self.failed == 1 or self.failed % REPORT_EVERY == 0:
                self._report(
                    f"audit log {self.path}: a record could not be written: {_words(error)} "
                    f"({self.failed} so far; the calls go on)"
                )

    def _has_room(self, file: "_LogFile") -> bool:
        return file.size + len(self._gathered) <= ROTATE_BYTES

    def _current(self) -> "_LogFile":
        """The file that the path names now, with room for more."""
        if self._file is not None:
            self._checked = self._clock()
            if self._file.is_at(self.path) and (self._has_room(self._file) or not self._rotated(self._file)):
                return self._file
            self._close_file()
        self._file = _LogFile.open(self.path)
        return self._file

    def _rotated(self, file: "_LogFile") -> bool:
        """Whether it was moved away. A log that cannot be rotated grows: no record is lost for that (L3)."""
        try:
            return file.rotate(self.path)
        except OSError as error:
            if not self._stuck:
                self._stuck = True
                self._report(f"audit log {self.path}: it cannot be rotated and goes on growing: {_words(error)}")
            return False


class _LogFile:
    """One open file. `size` is what is known of its length: other writers may have made it longer."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    @classmethod
    def open(cls, path: Path) -> "_LogFile":
        """Opens or creates it, readable for its owner only. Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block us
        descriptor = os.open(path, flags, 0o600)
        status = os.fstat(descriptor)
        # A device such as /dev/null may stand in for the log; its mode is none of our business.
        if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) != 0o600:
            with suppress(OSError):
                os.fchmod(descriptor, 0o600)
        return cls(descriptor, status.st_size)

    def close(self) -> None:
        os.close(self._descriptor)

    def append(self, lines: bytearray) -> None:
        """Writes whole lines. Raises OSError when not all fit; `lines` then holds those that are not written."""
        written = os.write(self._descriptor, lines)
        self.size += written
        if written == len(lines):
            return
        # A full disk took a line's beginning. It is ours and the last: take it back.
        whole = lines.rfind(b"\n", 0, written) + 1
        end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        if os.fstat(self._descriptor).st_size == end:
            os.ftruncate(self._descriptor, end - written + whole)
        del lines[:whole]
        raise OSError(f"only {written} of {len(lines) + whole} bytes could be written")

    def is_at(self, path: Path) -> bool:
        """Whether the path still names this file; learns its size on the way."""
        mine = os.fstat(self._descriptor)
        self.size = mine.st_size if stat.S_ISREG(mine.st_mode) else 0
        return _same_file(mine, path)

    def rotate(self, path: Path) -> bool:
        """Moves the file to `<path>.1`. False when another process is about to do it: then appending is safe."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            if _same_file(os.fstat(self._descriptor), path):
                target = Path(os.path.realpath(path))
                os.replace(target, target.with_name(f"{target.name}.1"))
            return True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _same_file(mine: os.stat_result, path: Path) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
