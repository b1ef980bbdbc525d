"""Whole outputs, for whoever wants more than an answer holds: files that live as long as the bridge."""

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

# Up to here an output stays in memory: an answer holds all of it.
MEMORY_BYTES = 64 * 1024
MOST_FILE_BYTES = 256 * 1024 * 1024
MOST_BYTES = 1024 * 1024 * 1024


class Kept:
    """A directory of outputs, made when the first is too long to stay in memory. `made` is told its path."""

    def __init__(self, made: Callable[[str], None]) -> None:
        self._made = made
        self._directory: Path | None = None
        self._number = 0
        self._bytes = 0
        self._finished: deque[Spool] = deque()

    def open(self) -> tuple[Path, BinaryIO]:
        """A new file for one output. Raises OSError."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="a2a-bridge-"))
            self._made(str(self._directory))
        self._number += 1
        path = self._directory / f"output-{self._number}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return path, os.fdopen(descriptor, "wb", buffering=0)

    def room(self, size: int) -> bool:
        """Whether so many bytes more may be kept; the oldest finished outputs make room for them."""
        while self._bytes + size > MOST_BYTES and self._finished:
            self._finished.popleft().discard()
        if self._bytes + size > MOST_BYTES:
            return False
        self._bytes += size
        return True

    def finished(self, spool: "Spool") -> None:
        self._finished.append(spool)

    def forget(self, spool: "Spool", size: int) -> None:
        self._bytes -= size
        if spool in self._finished:
            self._finished.remove(spool)

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


class Spool:
    """One output from its first byte: in memory, then in a file, up to a bound."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._memory: bytearray | None = bytearray()
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._size = 0
        self._trouble = ""

    @property
    def where(self) -> str:
        """Where the output is, in words; empty while it is nowhere but in memory."""
        if self._path is None or self._size == 0:
            return f"; it could not be kept: {self._trouble}" if self._trouble else ""
        return f"; {f'the first {self._size} bytes are' if self._trouble else 'all of it is'} in {self._path}"

    def write(self, piece: bytes) -> None:
        if self._memory is not None:
            self._memory += piece
            if len(self._memory) <= MEMORY_BYTES:
                return
            piece, self._memory = bytes(self._memory), None
            try:
                self._path, self._file = self._kept.open()
            except OSError as error:
                self._trouble = error.strerror or str(error)
        if self._file is not None:
            self._store(self._file, piece)

    def _store(self, file: BinaryIO, piece: bytes) -> None:
        if self._size + len(piece) > MOST_FILE_BYTES or not self._kept.room(len(piece)):
            self._stop("no room")
            return
        try:
            written = file.write(piece) or 0
        except OSError as error:
            self._stop(error.strerror or str(error))
            return
        self._size += written
        if written < len(piece):
            self._stop("the disk is full")

    def _stop(self, trouble: str) -> None:
        self._trouble = trouble
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self) -> None:
        """The output has ended."""
        self._close()
        self._memory = None
        if self._path is not None:
            self._kept.finished(self)

    def discard(self) -> None:
        """Nobody needs it any more."""
        self._close()
        self._memory = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
            self._kept.forget(self, self._size)
