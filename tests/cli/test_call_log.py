"""Lines for the owner: a terminal that stands still stops nobody, and what is left out is told."""

import io
import os
import threading

from a2a_bridge.calls import FinishedCall, Outcome
from a2a_bridge.cli.call_log import MOST_WAITING_LINES, Printer
from a2a_bridge.cli.durations import span
from a2a_bridge.cli.serve_loop import call_line
from a2a_bridge.tool import Call


class Gate(io.StringIO):
    """A stream whose writes wait until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        self.open = threading.Event()

    def write(self, text: str) -> int:
        self.waiting.set()
        self.open.wait()
        return super().write(text)


def test_lines_come_in_order() -> None:
    stream = io.StringIO()
    printer = Printer[int](stream, str)
    for number in range(100):
        printer.put(number)
    printer.close()
    assert stream.getvalue().split() == [str(number) for number in range(100)]


def test_a_stream_that_stands_still_stops_nobody_and_the_dropped_are_counted() -> None:
    stream = Gate()
    printer = Printer[int](stream, str)
    printer.put(-1)
    stream.waiting.wait()
    for number in range(MOST_WAITING_LINES + 1000):
        printer.put(number)
    stream.open.set()
    printer.close()
    first, told, *rest = stream.getvalue().splitlines()
    assert (first, told) == ("-1", "… 1000 lines left out")
    assert rest == [str(number) for number in range(1000, MOST_WAITING_LINES + 1000)]


def test_what_came_from_elsewhere_forges_no_line_and_moves_no_cursor() -> None:
    stream = io.StringIO()
    printer = Printer[str](stream, str)
    printer.put("x\n00:00:00  bash \x1b]0;title\x07\x1b[2J\u202e\x9b" + "y" * 5000)
    printer.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(r"x\u{a}00:00:00  bash \u{1b}]0;title\u{7}\u{1b}[2J\u{202e}\u{9b}yyy")
    assert len(line) < 2200


def test_a_reader_that_has_gone_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as stream:
        printer = Printer[str](stream, str)
        printer.put("nobody reads this")
        printer.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def test_a_call_as_a_line() -> None:
    call, arguments = Call("id", "0123456789", ""), {"command": "x" * 500}
    settled = FinishedCall(call, "bash", arguments, "as in the audit log", 0.25, Outcome.FAILED, "", None)
    line = call_line(settled, "12:00:00")
    assert line.startswith("12:00:00  bash  xxx")
    assert line.endswith("…  01234567  250 ms ✗")
    assert len(line) < 300
    named = FinishedCall(Call("id", "sid", "omp 1.0"), "read", {"path": "a"}, "", 75, Outcome.ABANDONED, "", None)
    assert call_line(named, "12:00:00") == "12:00:00  read  a  omp 1.0  1:15 min ⊘ caller hung up"


def test_durations() -> None:
    assert [span(seconds) for seconds in (0.0004, 0.25, 5.25, 75, 3661)] == [
        "0 ms",
        "250 ms",
        "5.2 s",
        "1:15 min",
        "1:01:01",
    ]
