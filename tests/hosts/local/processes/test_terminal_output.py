"""The reducer: what a person would have before their eyes at the end, in bounded memory, however it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.hosts.local.processes import terminal_output
from a2a_bridge.hosts.local.processes.terminal_output import LINE_BYTES, Reducer

# What programs really print, and what else there is in that direction.
TOKENS = [
    "a", "bc", "é", "世", "🙂", " ", "\t", "\n", "\r\n", "\r", "\b", "10%", "\x1b[31m", "\x1b[0m", "\x1b[K", "\x1b[1K",
    "\x1b[2K", "\x1b[3G", "\x1b[G", "\x1b[2C", "\x1b[D", "\x1b[999C", "\x1b[2J", "\x1b[1P", "\x1b[1A", "\x1b[?25l",
    "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bPq\x1b\\", "\x1b(B", "\x1b7", "\x1b", "\x1b[",
]  # fmt: skip


def reduced(data: bytes, size: int = 1 << 20) -> bytes:
    reducer = Reducer()
    pieces = [reducer.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join(pieces) + reducer.flush(final=True)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("plain\nlines\n", "plain\nlines\n"),
        ("no end", "no end"),
        ("", ""),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m\n", "red and blue\n"),
        ("10%\r20%\r100%\n", "100%\n"),
        ("10%\r20%\r100%", "100%"),
        ("a long line\rshort\n", "short line\n".replace("short line", "shortg line")),
        ("a long line\r\x1b[Kshort\n", "short\n"),
        ("a long line\x1b[2K\rshort\n", "short\n"),
        ("\x1b[2K\x1b[1Gfetching\x1b[2K\x1b[1Gdone\n", "done\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("twice\r\r\n", "twice\n"),
        ("spin |\b/\b-\b\\\bok\n", "spin ok\n"),
        ("\b\bx\n", "x\n"),
        ("ab\x1b[5Gc\n", "ab  c\n"),
        ("ab\x1b[3Cc\n", "ab   c\n"),
        ("abc\x1b[2Dx\n", "axc\n"),
        ("abcdef\x1b[3G\x1b[K\n", "ab\n"),
        ("abcdef\x1b[3G\x1b[1K\n", "   def\n"),
        ("abcdef\r\x1b[2P\n", "cdef\n"),
        ("\x1b]0;a title\x07text\n", "text\n"),
        ("\x1b]8;;http://example\x1b\\a link\x1b]8;;\x1b\\\n", "a link\n"),
        ("\x1b[?25l\x1b[?2004hhidden cursor\x1b[?25h\n", "hidden cursor\n"),
        ("\x1b(B\x1b[mtput\n", "tput\n"),
        ("\x1b7saved\x1b8\n", "saved\n"),
        ("日本\rab\n", "ab\n"),
        ("one\ntwo\x1b[1A\n", "one\ntwo\n"),
        ("cut off \x1b[3", "cut off [3"),
    ],
)
def test_what_is_seen_at_the_end(data: str, shown: str) -> None:
    for size in (1, 2, 3, 1000):
        assert reduced(data.encode(), size).decode() == shown


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=40), size=st.integers(1, 20))
def test_the_pieces_in_which_it_comes_do_not_matter(tokens: list[str], size: int) -> None:
    data = "".join(tokens).encode()
    assert reduced(data, size) == reduced(data)


@given(lines=st.lists(st.lists(st.text("abcé ", max_size=6), max_size=5), max_size=5))
def test_overwriting(lines: list[list[str]]) -> None:
    """Against a screen of cells."""

    def screen(texts: list[str]) -> str:
        cells: list[str] = []
        for text in texts:
            cells[: len(text)] = text
        return "".join(cells)

    data = "\n".join("\r".join(line) for line in lines)
    assert reduced(data.encode()).decode() == "\n".join(map(screen, lines))
    # The other road, which a line takes once it has an escape sequence, ends at the same place.
    marked = "\n".join("\r".join(line) + "\x1b[?7h" for line in lines)
    assert reduced(marked.encode()).decode() == "\n".join(map(screen, lines))


@given(data=st.binary(max_size=200), size=st.integers(1, 50))
def test_bytes_that_are_no_utf8_stay(data: bytes, size: int) -> None:
    clean = bytes(byte for byte in data if byte not in b"\x1b\r\b")
    assert reduced(clean, size) == clean
    reduced(data, size)


@given(
    tokens=st.lists(st.sampled_from([*TOKENS, "x" * 50, "世" * 30]), max_size=60),
    size=st.integers(1, 40),
    bound=st.integers(8, 60),
)
def test_memory_never_exceeds_the_bound(tokens: list[str], size: int, bound: int) -> None:
    """What is held of an unfinished line, whatever it is made of. (And a sequence that restores the cursor.)"""
    data = "".join(tokens).encode().replace(b"\n", b"")
    reducer = Reducer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal_output, "LINE_BYTES", bound)
        patch.setattr(terminal_output, "COLUMNS", 10)
        patch.setattr(terminal_output, "LONGEST_ESCAPE", 8)
        for at in range(0, len(data), size):
            reducer.feed(data[at : at + size])
            assert len(reducer._line) <= bound + 8 + len("\x1b[100000G")


@pytest.mark.parametrize(
    "piece", [b"x" * 10_000, b"\r 45% [====>   ]", b"\x1b]", b"\x1b[31m", b"\x1b[1;", b"\xe4\xb8\x96"]
)
def test_an_endless_line_is_held_in_bounded_memory(piece: bytes) -> None:
    reducer = Reducer()
    for _ in range(1_000_000 // (len(piece) * 100)):
        reducer.feed(piece * 100)
        assert len(reducer._line) <= LINE_BYTES + 2 * terminal_output.LONGEST_ESCAPE


def test_a_bar_of_any_length_shows_its_last_state() -> None:
    data = b"".join(b"\r%3d%% done" % (number % 100) for number in range(100_000)) + b"\r100% done\n"
    assert reduced(data, 4096) == b"100% done\n"


def test_a_look_in_between() -> None:
    """Shows the line as it stands, and only what has come since the next time."""
    reducer = Reducer()
    assert reducer.feed(b"begun\n45%") == b"begun\n"
    assert reducer.flush(final=False) == b"45%"
    assert reducer.feed(b"\r50%\r60%") == b""
    assert reducer.flush(final=False) == b"60%"
    assert reducer.feed(b"\n") == b"\n"


@pytest.mark.parametrize("whole", [b"\xe4\xb8\x96", b"\x1b[31m", b"\x1b]0;title\x07"])
def test_a_look_in_the_middle_of_something(whole: bytes) -> None:
    for cut in range(1, len(whole)):
        reducer = Reducer()
        shown = reducer.feed(b"a" + whole[:cut]) + reducer.flush(final=False)
        assert shown == b"a"
        assert shown + reducer.feed(whole[cut:] + b"b\n") == reduced(b"a" + whole + b"b\n")
