"""Newline framing: bytes in pieces → whole lines. Bounded, and blind to every line mark but `\\n`."""

from a2a_bridge.errors import PeerError


class Lines:
    """Collects pieces and gives back the lines that they complete.

    U+2028 and `\\r` are ordinary characters. A line longer than `longest` bytes raises PeerError.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines, without their `\\n`, that end in this piece. Blank lines are left out."""
        head, *rest = piece.split(b"\n")
        self._pieces.append(head)
        self._held += len(head)
        lines = []
        for part in rest:
            self._check()
            lines.append(b"".join(self._pieces))
            self._pieces = [part]
            self._held = len(part)
        self._check()
        return [line for line in lines if line.strip()]

    def _check(self) -> None:
        if self._held > self._longest:
            raise PeerError(-32600, f"a line is longer than {self._longest} bytes")
