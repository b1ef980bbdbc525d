"""Keeps the head and the tail of an output of any length, in bounded memory, and knows how much is missing."""

from collections import deque

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 32 * 1024


class Clip:
    """Bytes go in; text comes out, whole up to 64 KiB and with its middle left out above."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_length = 0
        self._dropped = 0

    def feed(self, piece: bytes) -> None:
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if not piece:
            return
        self._tail.append(piece)
        self._tail_length += len(piece)
        while self._tail_length - len(self._tail[0]) >= TAIL_BYTES:
            gone = len(self._tail.popleft())
            self._tail_length -= gone
            self._dropped += gone

    @property
    def missing(self) -> int:
        """How many bytes were let go."""
        return self._dropped + max(0, self._tail_length - TAIL_BYTES)

    def text(self, where: str = "") -> str:
        """What was kept, as text: bytes that are no UTF-8 become U+FFFD, and no character is cut in two.
        `where` is added to the words that tell of what is missing."""
        tail = b"".join(self._tail)
        missing = self.missing
        cut = missing - self._dropped
        if missing == 0:
            return (bytes(self._head) + tail).decode(errors="replace")
        head, after = whole_end(bytes(self._head)), whole_start(tail[cut:])
        missing += len(self._head) - len(head) + len(tail) - cut - len(after)
        return (
            f"{head.decode(errors='replace')}\n[… {missing} bytes left out{where} …]\n{after.decode(errors='replace')}"
        )


def whole_end(piece: bytes) -> bytes:
    """Without a character that begins in the last three bytes and does not end there."""
    for back in range(1, min(4, len(piece) + 1)):
        byte = piece[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return piece[:-back] if length > back else piece
    return piece


def whole_start(piece: bytes) -> bytes:
    """Without the up to three bytes that continue a character whose beginning is missing."""
    start = 0
    while start < min(3, len(piece)) and piece[start] & 0xC0 == 0x80:
        start += 1
    return piece[start:]
