"""Long text: nothing of it is lost, whatever the width, and quoted text looks like nothing of ours."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from a2a_bridge.console.details import argument_parts, call_parts, request_parts
from a2a_bridge.console.wrapped_text import MOST_IN_ROW, Kind, Part, Passage
from a2a_bridge.control.messages import AskedWhole, CallWhole
from a2a_bridge.terminal_text import exact
from tests.console.fake import asked, ended


def shown(parts: list[Part], width: int = 78) -> list[str]:
    passage = Passage(parts)
    passage.fit(width)
    return [line.text for line in passage.lines(5000)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(4, 60))
def test_every_character_is_shown_once_and_in_order(text: str, width: int) -> None:
    passage = Passage([Part(Kind.QUOTED, exact(text))])
    passage.fit(width)
    rows = [line.text for line in passage.lines(3000) if line.text]
    assert all(cell_len(row) <= width for row in rows)
    again = "".join(("\n" if row[0] == "│" else "") + row[2:] for row in rows)
    assert again[1:] == exact(text)


def test_a_line_that_goes_on_looks_like_no_two_lines() -> None:
    assert shown([Part(Kind.QUOTED, "abcdefgh\nij")], 6)[:4] == ["│ abcd", "┆ efgh", "│ ij", ""]


def test_characters_that_take_no_room_do_not_make_an_endless_row() -> None:
    rows = shown([Part(Kind.QUOTED, "a" + "\u0301" * 5000)])
    assert max(map(len, rows)) <= MOST_IN_ROW + 2
    assert sum(row.count("\u0301") for row in rows) == 5000


def test_quoted_text_cannot_pass_for_a_heading() -> None:
    parts = argument_parts(json.dumps({"a": "x\nb: 3 characters, 1 line\n│ y"}))
    assert shown(parts)[:4] == ["a: 29 characters, 3 lines", "│ x", "│ b: 3 characters, 1 line", "│ │ y"]


def test_a_name_of_an_argument_cannot_begin_a_line() -> None:
    assert shown(argument_parts(json.dumps({"a\nb": "x"})))[0] == "a\\u{a}b: 1 character, 1 line"


def test_lengths_are_those_of_what_is_passed() -> None:
    assert shown(argument_parts('{"a":"\\t\\u001b"}'))[:2] == ["a: 2 characters, 1 line", "│ \\u{9}\\u{1b}"]


def test_numbers_and_text_do_not_look_the_same() -> None:
    assert shown(argument_parts('{"a":5,"b":"5"}'))[:4] == ["a: JSON", "│ 5", "b: 1 character, 1 line", "│ 5"]


def test_characters_that_look_familiar_are_named() -> None:
    assert "  not ASCII: а U+0430 cyrillic small letter a" in shown(argument_parts('{"path":"а"}'))
    assert "not ASCII" not in "".join(shown(argument_parts('{"path":"a"}')))


@pytest.mark.parametrize("arguments", ["{not json", "[" * 100_000 + "]" * 100_000])
def test_arguments_that_cannot_be_read_are_shown_as_they_are(arguments: str) -> None:
    rows = shown(argument_parts(arguments))
    assert rows[0].startswith("arguments as JSON: ")
    assert "".join(row[2:] for row in rows[1:]) == arguments


def test_no_arguments_are_said() -> None:
    assert shown(argument_parts("{}"))[0] == "  no arguments"


def test_a_question_tells_all() -> None:
    whole = AskedWhole(asked(), '{"command":"make"}', "--- a\n+++ b\n-x\n+y\u202e")
    text = "\n".join(shown(request_parts(whole)))
    for part in ("│ make", "│ -x", "│ +y\\u{202e}", "claude-code 3.4.1", asked().session, "127.0.0.1:50000", "~/lab"):
        assert part in text


def test_a_call_that_the_bridge_does_not_know_is_said() -> None:
    assert "nothing" in shown(call_parts(CallWhole(None, None, "{}", ""), 0.0))[0]


def test_a_call_tells_all() -> None:
    whole = CallWhole(None, ended(7, "bash", "x", "abandoned", 1.2), '{"command":"[red]x[/]"}', "a\x1b\nb")
    text = "\n".join(shown(call_parts(whole, 0.0)))
    for part in ("abandoned: its caller hung up", "after 1.2 s", "c0ffee-000007", "mode always-ask", "│ [red]x[/]"):
        assert part in text
    assert "result: 4 characters, 2 lines\n│ a\\u{1b}\n│ b" in text


def test_scrolling_stays_inside() -> None:
    passage = Passage([Part(Kind.QUOTED, "\n".join(map(str, range(100))))])
    passage.fit(20)
    assert [line.text for line in passage.lines(3)] == ["│ 0", "│ 1", "│ 2"]
    assert passage.place == "rows 1–3 of 100, ↓ more below"
    passage.scroll(-5)
    passage.page(1)
    assert passage.offset == 2
    passage.end()
    assert [line.text for line in passage.lines(3)] == ["│ 97", "│ 98", "│ 99"]
    assert passage.place == "rows 98–100 of 100, the end"
    passage.home()
    assert passage.offset == 0
    assert [line.text for line in passage.lines(200)][99:101] == ["│ 99", ""]
    assert passage.place == "all shown"


@pytest.mark.parametrize("text", ["x" * 1_000_000, "x\n" * 500_000, "а" * 1_000_000])
def test_a_megabyte_is_ready_soon(text: str) -> None:
    began = time.process_time()
    passage = Passage(argument_parts(json.dumps({"command": text})))
    passage.fit(78)
    # Of one core. Some tenths of a second on a machine of 2020; this only tells seconds from minutes.
    assert time.process_time() - began < 5
