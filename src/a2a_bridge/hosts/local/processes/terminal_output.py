"""A command's output as a person would have it before their eyes at the end: without colours, and with each
line as it was when its last word was written (progress bars write a line many times over).

It works line by line: a movement of the cursor to another line is dropped.
"""

import re

from a2a_bridge.hosts.local.processes.head_tail import whole_end

# An unfinished line is held until its end, for what follows may write over it; of a longer one the
# beginning is let go as it is.
LINE_BYTES = 16 * 1024
# Where a cursor that is sent to the right stops, as at a screen's edge.
COLUMNS = 250
LONGEST_ESCAPE = 4096

_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
# The line is cleared and written from its beginning: what was there before does not matter.
_RESTART = re.compile(rb"\r\x1b\[[02]?K|\x1b\[2K(?:\r|\x1b\[1?G)")
_TOKENS = re.compile(
    r"(?P<text>[^\x1b\r\b]+)|(?P<move>[\r\b])"
    r"|\x1b\[(?P<arguments>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a title, a link
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-OQ-WYZ`-~]|\x1b",
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z")


class Reducer:
    """Bytes go in as they come; those of finished lines come out."""

    def __init__(self) -> None:
        self._line = b""

    def feed(self, piece: bytes) -> bytes:
        """What is settled now."""
        data = self._line + piece
        end = data.rfind(b"\n") + 1
        self._line = data[end:]
        settled = _reduced(data[:end])
        return settled + self._overlong() if len(self._line) > LINE_BYTES else settled

    def flush(self, final: bool) -> bytes:
        """The unfinished line as it stands; what comes next begins a new one. Unless this is the end,
        a character or an escape sequence that has only begun is kept back."""
        line, self._line = self._line, b""
        if not final:
            whole = whole_end(line)
            held = _UNFINISHED.search(line, max(0, len(line) - LONGEST_ESCAPE))
            shown = line[: held.start()] if held else whole
            self._line = line[len(shown) :]
            line = shown
        return line if _plain(line) else _line(line)

    def _overlong(self) -> bytes:
        """Of an unfinished line that is too long: what is shown of it, if that is what makes it long."""
        line, self._line = self._line, b""
        if _plain(line):
            whole = whole_end(line)
            self._line = line[len(whole) :]
            return whole
        held = _UNFINISHED.search(line, max(0, len(line) - LONGEST_ESCAPE))
        rest = line[held.start() :] if held else b""
        cells, column = _drawn(line[: len(line) - len(rest)])
        shown = "".join(cells).encode(errors="surrogateescape")
        if len(shown) > LINE_BYTES // 2:
            self._line = rest
            return shown
        self._line = shown + b"\x1b[%dG" % (column + 1) + rest
        return b""


def _plain(data: bytes) -> bool:
    return b"\x1b" not in data and b"\r" not in data and b"\b" not in data


def _reduced(data: bytes) -> bytes:
    """Finished lines."""
    if _plain(data):
        return data
    data = _COLOUR.sub(b"", data.replace(b"\r\n", b"\n"))
    if _plain(data):
        return data
    return b"\n".join(line if _plain(line) else _line(line) for line in data.split(b"\n"))


def _line(line: bytes) -> bytes:
    line = _RESTART.split(line)[-1]
    if b"\x1b" in line or b"\b" in line:
        return "".join(_drawn(line)[0]).encode(errors="surrogateescape")
    shown = ""
    for text in reversed(line.decode(errors="surrogateescape").split("\r")):
        shown += text[len(shown) :]
    return shown.encode(errors="surrogateescape")


def _drawn(line: bytes) -> tuple[list[str], int]:
    """One line's cells after everything was written into it, and where the cursor stands."""
    cells: list[str] = []
    column = 0
    for token in _TOKENS.finditer(line.decode(errors="surrogateescape")):
        if (text := token["text"]) is not None:
            cells.extend(" " * (column - len(cells)))
            cells[column : column + len(text)] = text
            column += len(text)
        elif token["move"] is not None:
            column = 0 if token["move"] == "\r" else max(0, column - 1)
        elif token["final"] is not None:
            column = _control(token["final"], token["arguments"], cells, column)
    return cells, column


def _control(final: str, arguments: str, cells: list[str], column: int) -> int:
    """Do what a control sequence says to this line; where the cursor is then."""
    number = int(arguments[:4]) if arguments.isdecimal() else 0
    edge = max(len(cells), COLUMNS)
    match final:
        case "C":
            return min(column + max(number, 1), edge)
        case "D":
            return max(column - max(number, 1), 0)
        case "G":
            return min(max(number, 1) - 1, edge)
        case "K" if number == 0:
            del cells[column:]
        case "K" if number == 1:
            cells[: column + 1] = " " * min(column + 1, len(cells))
        case "K" | "J" if number == 2:
            cells.clear()
        case "P":
            del cells[column : column + max(number, 1)]
    return column
