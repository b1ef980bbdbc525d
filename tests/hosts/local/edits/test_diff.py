"""Diffs that are made from the places of changes."""

import re
from difflib import SequenceMatcher

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_bridge.hosts.local.edits import diff
from a2a_bridge.hosts.local.edits.diff import (
    MAX_CHARACTERS,
    MAX_LINE_LENGTH,
    Change,
    combine,
    differing_runs,
    split,
    unified,
)

Replaced = tuple[str, list[Change]]

TEXT = st.lists(st.sampled_from(["a", "b", "\n", "a\n", "b\n", "c\nd\n"]), max_size=40).map("".join)


def changed(text: str, spans: list[tuple[int, int]], new: str) -> Replaced:
    """Those places in order, as far as they are apart, replaced."""
    parts, changes, at, shift = [], [], 0, 0
    for start, end in sorted(spans):
        if at <= start <= end <= len(text):
            parts += [text[at:start], new]
            changes.append(Change(start, end, start + shift, start + shift + len(new)))
            shift += len(new) - (end - start)
            at = end
    return "".join([*parts, text[at:]]), changes


def patched(old: str, diff: str) -> str:
    """What the diff makes of the old text; it checks every line that it passes."""
    lines, made, at = split(old), [], 0
    rows = diff.split("\n")[2:]
    while rows:
        start, count, new_start, new_count = map(int, re.findall(r"\d+", rows.pop(0)))
        start -= count > 0
        made += lines[at:start]
        at = start
        assert len(made) == new_start - (new_count > 0)
        had, before = 0, len(made)
        while had < count or len(made) - before < new_count:
            row = rows.pop(0)
            line = row[1:] + "\n"
            if rows and rows[0].startswith("\\"):
                rows.pop(0)
                line = row[1:]
            if row[0] in " -":
                assert lines[at] == line
                at += 1
                had += 1
            if row[0] in " +":
                made.append(line)
    made += lines[at:]
    assert all(line.endswith("\n") for line in made[:-1])
    return "".join(made)


PLACES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)).map(lambda p: (p[0], p[0] + p[1])), max_size=5)


@given(text=TEXT, steps=st.lists(st.tuples(PLACES, TEXT), max_size=4))
@example(text="a\nc\n", steps=[([(2, 2)], "b")])
def test_the_diff_of_any_changes_makes_the_new_text_of_the_old(
    text: str, steps: list[tuple[list[tuple[int, int]], str]]
) -> None:
    now, changes = text, list[Change]()
    for spans, new in steps:
        now, step = changed(now, spans, new)
        changes = combine(changes, step)
    assert patched(text, unified(text, now, changes, "f", plain_ends=False)) == now


@given(text=TEXT, steps=st.lists(st.tuples(PLACES, TEXT), max_size=4))
def test_between_changes_both_texts_are_the_same(text: str, steps: list[tuple[list[tuple[int, int]], str]]) -> None:
    now, changes = text, list[Change]()
    for spans, new in steps:
        now, step = changed(now, spans, new)
        changes = combine(changes, step)
    at = new_at = 0
    for start, end, new_start, new_end in [*changes, Change(len(text), len(text), len(now), len(now))]:
        assert text[at:start] == now[new_at:new_start]
        at, new_at = end, new_end


@given(old=st.lists(st.sampled_from("abc")), new=st.lists(st.sampled_from("abc")), few=st.sampled_from([0, 100]))
def test_runs_that_differ(old: list[str], new: list[str], few: int) -> None:
    made, at = [], 0
    for a, b, c, d in differing_runs(old, new, few):
        assert a < b or c < d
        assert old[a:b] != new[c:d]
        made += old[at:a] + new[c:d]
        at = b
    assert made + old[at:] == new


def diff_of(old: str, place: str, new: str, plain_ends: bool = False) -> list[str]:
    start = old.index(place)
    now, changes = changed(old, [(start, start + len(place))], new)
    return unified(old, now, changes, "f", plain_ends).split("\n")[2:]


def test_three_lines_around() -> None:
    text = "".join(f"{number}\n" for number in range(1, 21))
    assert diff_of(text, "10\n", "x\n") == ["@@ -7,7 +7,7 @@", " 7", " 8", " 9", "-10", "+x", " 11", " 12", " 13"]
    assert diff_of(text, "10\n", "") == ["@@ -7,7 +7,6 @@", " 7", " 8", " 9", "-10", " 11", " 12", " 13"]
    assert diff_of("a\n", "a\n", "") == ["@@ -1,1 +0,0 @@", "-a"]
    assert diff_of("a", "a", "b") == [
        "@@ -1,1 +1,1 @@", "-a", "\\ No newline at end of file", "+b", "\\ No newline at end of file",
    ]  # fmt: skip


def test_far_changes_have_hunks_of_their_own() -> None:
    text = "".join(f"{number}\n" for number in range(100, 200))
    spans = [(start, start + 3) for start in map(text.index, ("110", "117", "125"))]
    now, changes = changed(text, spans, "x")
    rows = unified(text, now, changes, "f", plain_ends=False).split("\n")
    assert [row for row in rows if row.startswith("@@")] == ["@@ -8,14 +8,14 @@", "@@ -23,7 +23,7 @@"]


def test_lines_that_stay_within_a_change_are_not_shown_as_new() -> None:
    assert diff_of("a\nb\nc\nd\n", "a\nb\nc\nd\n", "a\nx\nc\ny\n")[1:] == [" a", "-b", "+x", " c", "-d", "+y"]


def test_returns_are_left_out_where_all_lines_have_one() -> None:
    assert diff_of("a\r\nb\r\n", "b", "x", plain_ends=True)[1:] == [" a", "-b", "+x"]
    assert diff_of("a\r\nb\n", "b", "x")[1:] == [" a\r", "-b", "+x"]


def test_a_long_line_is_shown_near_its_change() -> None:
    rows = diff_of("x" * 1_000_000 + "old" + "y" * 1_000_000 + "\n", "old", "NEW")
    assert "xxxold" not in rows[2]
    assert "xxxNEWyyy" in rows[2]
    assert "xxxoldyyy" in rows[1]
    assert all(len(row) < MAX_LINE_LENGTH + 50 for row in rows)
    assert rows[1].endswith("… [2000003 characters]")


def test_of_a_long_diff_the_middle_is_left_out() -> None:
    old = "".join(f"{number}\n" for number in range(10_000))
    now, changes = changed(old, [(0, len(old))], old.replace("\n", "!\n"))
    text = unified(old, now, changes, "f", plain_ends=False)
    rows = text.split("\n")
    assert rows[2:4] == ["@@ -1,10000 +1,10000 @@", "-0"]
    assert rows[-1] == "+9999!"
    (cut,) = [place for place, row in enumerate(rows) if row.startswith("[…")]
    missing = int(re.findall(r"\d+", rows[cut])[0])
    assert len(rows) - 1 + missing == 3 + 20_000
    assert MAX_CHARACTERS - 100 < len(text) < MAX_CHARACTERS + 100


def test_lines_are_compared_closely_only_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    class Counted(SequenceMatcher[str]):
        def __init__(self, isjunk: None, a: list[str], b: list[str], autojunk: bool) -> None:
            compared.append(max(len(a), len(b)))
            super().__init__(isjunk, a, b, autojunk)

    monkeypatch.setattr(diff, "SequenceMatcher", Counted)
    old = "".join(f"{number}\n" for number in range(100_000))
    now, changes = changed(old, [(0, len(old))], old.replace("5", "6"))
    unified(old, now, changes, "f", plain_ends=False)
    spans = [(found.start(), found.end()) for found in re.finditer("1\n2\n", old * 200)]
    unified(old * 200, *changed(old * 200, spans, "1\n3\n"), "f", plain_ends=False)
    assert compared == []
    unified(old, *changed(old, [(0, 12)], "0\nx\n2\ny\n4\n5\n"), "f", plain_ends=False)
    assert compared == [3]
