"""Texts from messages: lengths of time, columns, and what is left out where there is no room."""

import msgspec
import pytest
from rich.cells import cell_len

from a2a_bridge.console import formatting
from a2a_bridge.console.formatting import Piece
from tests.console.fake import STATUS, FakeBridge, asked, ended, live


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0004, "0 ms"),
        (0.004, "4 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (1.2, "1.2 s"),
        (59.94, "59.9 s"),
        (59.96, "00:59"),
        (75, "01:15"),
        (8049, "2:14:09"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert formatting.duration(seconds) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(-1, "00:00"), (31.4, "00:31"), (3600, "1:00:00"), (2 * 86400 + 8049, "2 d 02:14")]
)
def test_ages(seconds: float, told: str) -> None:
    assert formatting.age(seconds) == told


@pytest.mark.parametrize("text", ["short", "x" * 50, "漢字" * 20, "ab漢", "\x1b[2J\u202e" * 9, ""])
@pytest.mark.parametrize("width", [1, 2, 5, 8, 20])
def test_a_filled_text_is_as_wide_as_it_should_be_and_safe(text: str, width: int) -> None:
    filled = formatting.filled(text, width)
    assert cell_len(filled) == width
    assert filled.isprintable()


def test_what_is_cut_says_so() -> None:
    assert formatting.cut("abcdef", 6) == "abcdef"
    assert formatting.cut("abcdefg", 6) == "abcde…"


def test_where_room_is_short_the_least_is_left_out() -> None:
    pieces = [Piece(1, "least"), Piece(9, "most"), Piece(5, "middle"), Piece(7, "")]
    assert formatting.fitted(pieces, 80) == "least   most   middle"
    assert formatting.fitted(pieces, 15) == "most   middle"
    assert formatting.fitted(pieces, 4) == "most"


def test_a_row_fills_its_width() -> None:
    for width in (80, 81, 120, 200):
        wide = formatting.columns(width, ["bash", "mcp__github_create_an_issue_comment"])
        rows = [
            formatting.asked_row(asked(), wide),
            formatting.live_row(live(1), 0.0, False, wide),
            formatting.ended_row(ended(1, "mcp__github_create_an_issue_comment", "x" * 300), wide),
        ]
        assert {cell_len(row) for row in rows} == {width - 2}


def test_a_tool_column_does_not_shrink() -> None:
    first = formatting.columns(80, ["a_longer_tool"])
    assert formatting.columns(80, ["bash"], first.tool) == first


def test_marks_and_words_tell_every_outcome_without_colour() -> None:
    wide = formatting.columns(80, ["read"])
    outcomes = {outcome: formatting.ended_row(ended(1, outcome=outcome), wide)[-1] for outcome in formatting.MARKS}  # type: ignore[arg-type]
    assert outcomes == {"done": "✓", "failed": "✗", "abandoned": "⊘", "withdrawn": "⊘"}
    assert formatting.live_row(live(1), 0.0, False, wide).endswith("00:31 …")
    assert formatting.live_row(live(1), 0.0, True, wide).endswith("ended ?")
    one = asked()
    assert formatting.asked_row(one, wide).startswith("● WAITING")
    gone = msgspec.structs.replace(one, withdrawn="its session ended")
    assert formatting.asked_row(gone, wide).startswith("○ EARLIER")
    assert formatting.asked_row(msgspec.structs.replace(gone, granted=True), wide).startswith("○ GRANTED")


def test_a_client_without_a_name_is_told_by_its_session() -> None:
    assert formatting.who("", "7f3a0000-1111") == "session 7f3a0000"


def test_the_address_and_the_token_stay_where_a_host_has_a_long_name() -> None:
    status = msgspec.structs.replace(STATUS, host="local: " + "verylong" * 20)
    line = formatting.where(status, 78)
    assert line.startswith("http://127.0.0.1:43817/   token q7Wm2x…   host local:")
    assert line.endswith("up 2:14:09")
    assert "…   up" in line
    assert cell_len(line) <= 78
    assert formatting.where(STATUS, 100).startswith("a2a-bridge   http://127.0.0.1:43817/")


async def test_what_is_wrong_stays_where_room_is_short(bridge: FakeBridge) -> None:
    bridge.done, bridge.failed = 12_345_678, 123_456
    bridge.status = msgspec.structs.replace(bridge.status, paused=True, audit_failed=12)
    line = formatting.how(bridge.overview(), "the bridge does not answer", 78)
    assert "✗ the bridge does not answer   PAUSED" in line
    assert "audit FAILED 12" in line
    bridge.request(msgspec.structs.replace(asked(), withdrawn="its session ended"))
    wide = formatting.how(bridge.overview(), "", 150)
    assert wide.startswith("PAUSED   sessions 2   calls 0 running, 0 waiting, 12,345,678 done, 123,456 failed")
    assert wide.endswith("audit FAILED 12   1 asked earlier")
