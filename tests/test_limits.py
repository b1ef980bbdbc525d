"""The owner's bounds on calls: off unless set, counted right, and a result is never more, nor broken, by one."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.limits import Limits
from a2a_bridge.tool import Content, Image, Result, Text

NOTE = re.compile(
    r"\n\[cut: \d+ of \d+ bytes are left out; the limit is maxResultBytes, \d+\. Ask for less at a time\]\Z"
)
LEFT_OUT = re.compile(r"\[left out: an image of \d+ bytes \([^)]*\); the limit is maxResultBytes, \d+\]\Z")
PNG = Image(base64.b64encode(bytes(300)).decode(), "image/png")


def sent(text: str) -> bytes:
    """As UTF-8 on the wire, where half a surrogate pair is U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def size(block: Content) -> int:
    return len(block.data) if isinstance(block, Image) else len(sent(block.text))


def kept(block: Content) -> int:
    """How much of it is not a note."""
    if isinstance(block, Image):
        return len(block.data)
    return len(sent(NOTE.sub("", LEFT_OUT.sub("", block.text))))


def test_without_limits_nothing_is_refused_or_cut() -> None:
    result = Result((Text("x" * 10_000_000), PNG))
    assert Limits().within(result) is result
    assert Limits().too_many(10**9, 10**9) == ""


@pytest.mark.parametrize(
    ("limits", "calls", "of_session", "begins"),
    [
        (Limits(calls=2), 2, 2, ""),
        (
            Limits(calls=2),
            3,
            1,
            "limit: maxConcurrentCalls: this bridge may have 2 calls in flight at once; nothing ran",
        ),
        (Limits(calls=1), 2, 1, "limit: maxConcurrentCalls: this bridge may have 1 call in flight"),
        (Limits(session_calls=2), 99, 2, ""),
        (Limits(session_calls=2), 99, 3, "limit: maxConcurrentCallsPerSession: a session may have 2 calls in flight"),
        (Limits(calls=1, session_calls=1), 2, 2, "limit: maxConcurrentCalls: "),
    ],
)
def test_one_call_too_many(limits: Limits, calls: int, of_session: int, begins: str) -> None:
    said = limits.too_many(calls, of_session)
    assert said.startswith(begins)
    assert bool(said) is bool(begins)


def test_overtime_names_the_limit_and_its_value() -> None:
    assert str(Limits(seconds=1.5).overtime()).startswith("limit: callTimeout: the call was ended after 1.5 s; ")


BLOCKS = st.lists(
    st.builds(Text, st.text(st.characters() | st.sampled_from("aé漢🙂\ud800\udc00"), max_size=60))
    | st.builds(Image, st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode()), st.just("image/png")),
    max_size=5,
)


@given(blocks=BLOCKS, most=st.integers(1, 120), is_error=st.booleans())
def test_a_result_is_within_the_limit_and_whole_at_its_edges(blocks: list[Content], most: int, is_error: bool) -> None:
    result = Result(tuple(blocks), is_error)
    limited = Limits(result_bytes=most).within(result)
    if sum(map(size, blocks)) <= most:
        assert limited is result
        return
    assert limited.is_error is is_error
    assert len(limited.content) == len(blocks)
    assert sum(map(kept, limited.content)) <= most
    for before, after in zip(blocks, limited.content, strict=True):
        if isinstance(after, Image):
            assert after == before
        elif isinstance(before, Image):
            assert LEFT_OUT.fullmatch(after.text)
        elif after != before:
            assert NOTE.search(after.text)
            assert sent(before.text).startswith(NOTE.sub("", after.text).encode())


def test_text_is_cut_between_characters_and_says_how_much_is_missing() -> None:
    (block,) = Limits(result_bytes=4).within(Result((Text("ab漢字"),))).content
    assert block == Text("ab\n[cut: 6 of 8 bytes are left out; the limit is maxResultBytes, 4. Ask for less at a time]")
    (block,) = Limits(result_bytes=5).within(Result((Text("ab漢字"),))).content
    assert isinstance(block, Text)
    assert block.text.startswith("ab漢\n[cut: 3 of 8 bytes")


def test_at_the_limit_nothing_is_cut() -> None:
    result = Result((Text("漢" * 100), PNG))
    assert Limits(result_bytes=700).within(result) is result
    assert Limits(result_bytes=699).within(result) != result


def test_an_image_that_is_left_out_leaves_its_room_to_the_text_behind_it() -> None:
    limited = Limits(result_bytes=100).within(Result((PNG, Text("a pixel"))))
    assert limited.content == (
        Text("[left out: an image of 400 bytes (image/png); the limit is maxResultBytes, 100]"),
        Text("a pixel"),
    )


def test_behind_a_text_that_is_cut_there_is_no_room() -> None:
    limited = Limits(result_bytes=10).within(Result((Text("x" * 11), Text("y"), PNG)))
    first, second, third = (block.text for block in limited.content if isinstance(block, Text))
    assert first.startswith("x" * 10 + "\n[cut: 1 of 11")
    assert second.startswith("\n[cut: 1 of 1 ")
    assert third.startswith("[left out: an image of 400 bytes")
