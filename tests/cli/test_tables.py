"""Lines of commands on a terminal: text from elsewhere begins none of its own."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.cli import tables


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_columns", lambda: 40)


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("letter", ["x", "漢", "я", " "])
def test_what_a_terminal_would_wrap_stands_behind_a_bar(letter: str) -> None:
    text = f"{letter * 100}request 9  waiting\nb"
    lines = list(tables.boxed(text))
    assert all(line.startswith(("  │ ", "  ┆ ")) and columns(line) <= 40 for line in lines)
    first = [number for number, line in enumerate(lines) if line.startswith("  │ ")]
    assert (len(first), first[0]) == (2, 0)
    assert "".join(line[4:] for line in lines) == text.replace("\n", "")


@pytest.mark.usefixtures("terminal")
def test_a_row_is_cut_at_the_terminals_width() -> None:
    assert tables.cut("x" * 40) == "x" * 40
    assert tables.cut("x" * 41) == "x" * 39 + "…"
    assert columns(tables.cut("漢" * 30)) <= 40


def test_without_a_terminal_lines_are_whole() -> None:
    assert list(tables.boxed("x" * 1000)) == [f"  │ {'x' * 1000}"]
    assert tables.cut("x" * 1000) == "x" * 1000


@given(st.text())
def test_json_is_ascii_and_printable(text: str) -> None:
    shown = tables.as_json({"text": text})
    assert shown.isascii()
    assert shown.isprintable()
