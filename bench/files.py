"""The files that bench.tools works on: small, large and many. What the answers must hold is known from here."""

import os
from pathlib import Path

MEGABYTE = 1 << 20
TAIL_LINES = 100
TREE_FILES = 100_000
_FOLDER_FILES = 100
_MATCHES = 10
_SPECIAL = 100


class Ground:
    """Makes it all under `root`; takes some ten seconds."""

    pattern = "needle_[0-9]+ = [0-9]+"
    glob = "**/special-*.log"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.small = root / "small.txt"
        self.small_lines = [f"line {number} of a small file" for number in range(1, 11)]
        self.small.write_text("\n".join(self.small_lines) + "\n")
        self.huge = root / "huge.log"
        self.huge_lines = [f"the last lines, {number} to go" for number in range(TAIL_LINES - 1, -1, -1)]
        _fill(self.huge, 1024 * MEGABYTE, ("\n".join(self.huge_lines) + "\n").encode())
        self.tree = root / "tree"
        self.matches = [f"needle_{number} = {number}" for number in range(_MATCHES)]
        self.special = [f"special-{number:03}.log" for number in range(_SPECIAL)]
        self._plant()

    def _plant(self) -> None:
        """Files in folders three deep; every thousandth has a name of its own, every ten-thousandth a match."""
        body = "".join(f"    value_{number} = compute(value_{number - 1})\n" for number in range(1, 25)).encode()
        for number in range(TREE_FILES):
            folder, place = divmod(number, _FOLDER_FILES)
            at = self.tree / f"area-{folder // 10:02}" / f"part-{folder % 10}"
            if not place:
                at.mkdir(parents=True)
            special, rest = divmod(number, TREE_FILES // _SPECIAL)
            name = f"module-{number:05}.py" if rest else self.special[special]
            match, rest = divmod(number, TREE_FILES // _MATCHES)
            content = body if rest else body + f"    {self.matches[match]}\n".encode()
            _write(f"{at}/{name}", content)

    def edited(self, owner: str) -> "Edited":
        return Edited(self._root / f"edited-{owner}.txt")


class Edited:
    """A file of 20 MB, of which one line is changed to and fro."""

    def __init__(self, path: Path) -> None:
        self.path = path
        half = 10 * MEGABYTE
        self._at = half - len(self._line(False))
        _fill(path, half, self._line(False))
        _fill(path, half, b"", "ab")

    @staticmethod
    def _line(turned: bool) -> bytes:
        return b"the marked line says %s\n" % (b"green" if turned else b"white")

    def change(self) -> tuple[str, str]:
        """The line as it is, and as it is to be."""
        turned = self._turned()
        return self._line(turned).decode().rstrip("\n"), self._line(not turned).decode().rstrip("\n")

    def holds(self, line: str) -> bool:
        with self.path.open("rb") as file:
            file.seek(self._at)
            return file.readline() == line.encode() + b"\n"

    def _turned(self) -> bool:
        return self.holds(self._line(True).decode().rstrip("\n"))


def _fill(path: Path, size: int, end: bytes, mode: str = "wb") -> None:
    """So many bytes of numbered lines, the last of which are `end`."""
    block = b"".join(b"%08d a line as logs have them, neither long nor short\n" % number for number in range(18_000))
    with path.open(mode) as file:
        room = size - len(end)
        while room > 0:
            room -= file.write(block[-room:] if room < len(block) else block)
        file.write(end)


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(descriptor, content)
    os.close(descriptor)
