"""A file as lines, in pieces of bounded size: however long the file is, and however long a line."""

import codecs
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from a2a_bridge.hosts.local.files.encoding import Encoding
from a2a_bridge.hosts.local.workspace import Stopped

MAX_LINE_LENGTH = 16 * 1024
PIECE_BYTES = 256 * 1024
_REPLACEMENT = "\ufffd".encode()


class Line(NamedTuple):
    """One line: its text without its end, the end that it has (LF, CR LF or none), whether it was cut, and
    whether some of its bytes did not decode."""

    text: str
    end: bytes
    cut: bool
    damaged: bool


class LineReader:
    """The lines of an open file, forward. Stops early, as if the file ended, once `stopped` says so."""

    def __init__(self, file: BinaryIO, encoding: Encoding, stopped: Stopped, size: int | None = None) -> None:
        """From where `file` stands, at most `size` bytes of it."""
        self._fetch = _transcoded(file, encoding) if encoding.wide else file.read
        self._codec = "utf-8" if encoding.wide else encoding.codec
        self._wide = encoding.wide
        self._left = size
        self._stopped = stopped
        self._piece = b""
        self._at = 0

    def skip(self, lines: int) -> int:
        """Go past that many lines; how many there were. Counts piece by piece: the event loop waits for no loop."""
        passed, whole = 0, True
        while passed < lines and self._fill():
            found = self._piece.count(b"\n", self._at)
            if passed + found >= lines:
                for _ in range(lines - passed):
                    self._at = self._piece.index(b"\n", self._at) + 1
                return lines
            passed += found
            whole = self._piece.endswith(b"\n")
            self._at = len(self._piece)
        return passed if whole else passed + 1

    def next(self) -> Line | None:
        """The next line; None at the end."""
        line = self._line()
        if not line:
            return None
        end = b"\r\n" if line.endswith(b"\r\n") else b"\n" if line.endswith(b"\n") else b""
        content = line.removesuffix(end)
        if len(content) <= MAX_LINE_LENGTH:
            return self._line_of(content.decode(self._codec, "replace"), content, end, cut=False)
        if not end:
            self.skip(1)
        # An incremental decoder keeps back a character that the cut goes through.
        decoder = codecs.getincrementaldecoder(self._codec)("replace")
        return self._line_of(decoder.decode(content[:MAX_LINE_LENGTH]), content, end, cut=True)

    def _line_of(self, text: str, content: bytes, end: bytes, cut: bool) -> Line:
        """In UTF-8 the replacement character may be in the file itself."""
        own = content.count(_REPLACEMENT) if self._codec == "utf-8" and not self._wide else 0
        return Line(text, end, cut, damaged="\ufffd" in text and text.count("\ufffd") > own)

    def _line(self) -> bytes:
        """A line with its end, or as much of a long one as tells that it is too long."""
        most = MAX_LINE_LENGTH + 2
        parts = b""
        while len(parts) < most and self._fill():
            end = self._piece.find(b"\n", self._at, self._at + most - len(parts)) + 1
            stop = end or min(len(self._piece), self._at + most - len(parts))
            parts += self._piece[self._at : stop]
            self._at = stop
            if end:
                break
        return parts

    def _fill(self) -> bool:
        """Have something to take from the piece. False at the end."""
        if self._at < len(self._piece):
            return True
        if self._stopped():
            return False
        self._piece, self._at = self._fetch(PIECE_BYTES if self._left is None else min(PIECE_BYTES, self._left)), 0
        if self._left is not None:
            self._left -= len(self._piece)
        return bool(self._piece)


def _transcoded(file: BinaryIO, encoding: Encoding) -> Callable[[int], bytes]:
    """Reads of an encoding whose line feed is more than one byte, as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding.codec)("replace")

    def fetch(size: int) -> bytes:
        while piece := file.read(size):
            if text := decoder.decode(piece):
                return text.encode()
        return decoder.decode(b"", final=True).encode()

    return fetch


def seek_from_end(file: BinaryIO, lines: int, size: int, stopped: Stopped) -> int:
    """Go to where a file of that size has its last `lines` lines, reading backwards; how many there are."""
    position, found = size, 0
    while position > 0 and not stopped():
        start = max(0, position - PIECE_BYTES)
        file.seek(start)
        piece = file.read(position - start)
        # The last byte of the file ends the last line, and parts nothing.
        end = len(piece) - 1 if position == size else len(piece)
        ends = piece.count(b"\n", 0, end)
        if found + ends >= lines:
            for _ in range(lines - found):
                end = piece.rindex(b"\n", 0, end)
            file.seek(start + end + 1)
            return lines
        found += ends
        position = start
    file.seek(0)
    return found + (size > 0)
