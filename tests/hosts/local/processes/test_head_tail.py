"""The clip: the head and the tail of any output, and an exact count of what lies between."""

import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.hosts.local.processes import head_tail
from a2a_bridge.hosts.local.processes.head_tail import HEAD_BYTES, TAIL_BYTES, Clip

MARK = re.compile(r"\n\[… (\d+) bytes left out …]\n")
WHOLE = HEAD_BYTES + TAIL_BYTES
# Small bounds, so that examples of a few bytes lie on every side of them.
HEAD, TAIL = 11, 13
# One, two, three and four bytes long, and nothing that is in the mark.
CHARACTERS = "aZ\té߿ࠀ€\uffff𐀀🙂\U0010ffff"

Pieces = list[int]
pieces = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@contextmanager
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_tail, "HEAD_BYTES", HEAD)
        patch.setattr(head_tail, "TAIL_BYTES", TAIL)
        yield


def clipped(data: bytes, sizes: Pieces) -> str:
    """The data through a head_tail, in pieces of these sizes over and over."""
    one = Clip()
    at = turn = 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        one.feed(data[at : at + size])
        at += size
        turn += 1
    return one.text()


def parts(shown: str) -> tuple[str, int, str]:
    """Head, missing bytes and tail of a text that was cut."""
    head, missing, tail = MARK.split(shown)
    return head, int(missing), tail


def check_characters(data: bytes, shown: str, head_bytes: int, tail_bytes: int) -> None:
    """Valid UTF-8 was cut between characters only, as late and as early as can be, and counted right."""
    assert "\ufffd" not in shown
    if len(data) <= head_bytes + tail_bytes:
        assert shown == data.decode()
        return
    head, missing, tail = parts(shown)
    assert data.startswith(head.encode())
    assert data.endswith(tail.encode())
    assert head_bytes - 3 <= len(head.encode()) <= head_bytes
    assert tail_bytes - 3 <= len(tail.encode()) <= tail_bytes
    assert len(head.encode()) + missing + len(tail.encode()) == len(data)
    # The next character would have been too much on either side.
    rest = data[len(head.encode()) : len(data) - len(tail.encode())].decode()
    assert len((head + rest[0]).encode()) > head_bytes
    assert len((rest[-1] + tail).encode()) > tail_bytes


@given(words=st.text(CHARACTERS, max_size=60), sizes=pieces)
@example(words="a" * (HEAD + TAIL), sizes=[1])
@example(words="a" * (HEAD + TAIL + 1), sizes=[HEAD + TAIL + 1])
@example(words="a" * (HEAD - 1) + "🙂" * 9, sizes=[HEAD])
@example(words="🙂" * 9 + "a" * (TAIL - 1), sizes=[3])
def test_no_character_is_cut(words: str, sizes: Pieces) -> None:
    with small():
        check_characters(words.encode(), clipped(words.encode(), sizes), HEAD, TAIL)


@pytest.mark.parametrize("character", CHARACTERS)
def test_a_character_at_each_place(character: str) -> None:
    with small():
        for shift in range(HEAD + 1):
            for words in ("a" * shift + character * 30, character * 30 + "a" * shift):
                check_characters(words.encode(), clipped(words.encode(), [7]), HEAD, TAIL)


@given(data=st.binary(max_size=80), sizes=pieces)
def test_any_bytes(data: bytes, sizes: Pieces) -> None:
    with small():
        shown = clipped(data, sizes)
    if len(data) <= HEAD + TAIL:
        assert shown == data.decode(errors="replace")
        return
    # What was kept is one of the few ways to cut at the bounds, with up to three bytes of a character given up.
    assert shown in {
        f"{data[:head].decode(errors='replace')}"
        f"\n[… {len(data) - head - tail} bytes left out …]\n"
        f"{data[len(data) - tail :].decode(errors='replace')}"
        for head in range(HEAD - 3, HEAD + 1)
        for tail in range(TAIL - 3, TAIL + 1)
    }


@given(
    runs=st.lists(st.tuples(st.sampled_from(CHARACTERS), st.integers(1, 20_000)), max_size=8),
    sizes=st.lists(st.integers(1000, 70_000), min_size=1, max_size=4),
)
def test_with_the_real_bounds(runs: list[tuple[str, int]], sizes: Pieces) -> None:
    data = "".join(character * count for character, count in runs).encode()
    check_characters(data, clipped(data, sizes), 32 * 1024, 32 * 1024)


@pytest.mark.parametrize("over", [-1, 0, 1, 2, 1_000_000])
@pytest.mark.parametrize("size", [1, 4096, 65_536, 2_000_000])
def test_at_the_edge(over: int, size: int) -> None:
    data = b"h" * HEAD_BYTES + b"m" * max(over, 0) + b"t" * (TAIL_BYTES + min(over, 0))
    shown = clipped(data, [size])
    if over <= 0:
        assert shown == data.decode()
    else:
        assert shown == f"{'h' * HEAD_BYTES}\n[… {over} bytes left out …]\n{'t' * TAIL_BYTES}"


def test_nothing_at_all() -> None:
    assert Clip().text() == ""


def test_the_text_may_be_asked_for_in_between() -> None:
    one = Clip()
    one.feed(b"a")
    assert one.text() == "a"
    one.feed(b"b" * WHOLE)
    assert parts(one.text())[1] == 1
    one.feed(b"c")
    assert parts(one.text())[1] == 2


def test_memory_stays_bounded() -> None:
    one = Clip()
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1000):
            one.feed(bytes(piece))
            one.feed(piece[:1000])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert parts(one.text())[1] == 1000 * 66_536 - WHOLE
