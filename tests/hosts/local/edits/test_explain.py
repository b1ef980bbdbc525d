"""Why nothing matched: what differs is named, the nearest lines are shown, and neither takes long."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.hosts.local.edits import closest_match, invisible_characters, normalized_text
from a2a_bridge.hosts.local.edits.explain import explain_mismatch
from a2a_bridge.hosts.local.edits.normalized_text import PIECE, NormalizedText, normalize
from a2a_bridge.hosts.local.edits.normalized_text import tokens as normalized_tokens


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        ("x\n\tfoo bar\n", "    foo bar", "line 2 has a tab where old has 4 spaces"),
        ("x\n    foo bar\n", "\tfoo bar", "line 2 has 4 spaces where old has a tab"),
        ("x\nfoo bar\n", "  foo bar", "line 2 has nothing where old has 2 spaces"),
        ("if a:\n\t\tb()\n", "if a:\n    b()\n", "line 2 begins with 2 tabs where old has 4 spaces"),
        ("if a:\n \tb()\n", "if a:\n\tb()\n", "line 2 begins with a space and a tab where old has a tab"),
        ("a\nfoo\u00a0bar\n", "foo bar", "line 2 has a no-break space (U+00A0) where old has a space"),
        ("a b\n", "a\u2003b\n", "line 1 has a space where old has EM SPACE (U+2003)"),
        ("a  b\n", "a b\n", "line 1 has 2 spaces where old has a space"),
        ("a  \nb\n", "a\nb\n", "line 1 has 2 spaces at its end where old has nothing"),
        ("a\nb\n", "a \nb\n", "line 1 has nothing at its end where old has a space"),
        ("a \r\nb\n", "a\nb\n", "line 1 has a space at its end where old has nothing"),
        ("a\nb\n", "b  ", "line 2 has nothing where old has 2 spaces"),
        ("a\n   \nb\n", "a\n\nb\n", "line 2 begins with 3 spaces where old has nothing"),
        ("s\u0430y\n", "say", "CYRILLIC SMALL LETTER A (U+0430) where old has LATIN SMALL LETTER A (U+0061)"),
        ("say\n", "s\u0430y", "LATIN SMALL LETTER A (U+0061) where old has CYRILLIC SMALL LETTER A (U+0430)"),
        ("\u0391\u0392\n", "AB", "GREEK CAPITAL LETTER ALPHA (U+0391) where old has LATIN CAPITAL LETTER A (U+0041)"),
        ("it\u2019s\n", "it's", "RIGHT SINGLE QUOTATION MARK (U+2019) where old has APOSTROPHE (U+0027)"),
        ('"a"\n', "\u201ca\u201d", "QUOTATION MARK (U+0022) where old has LEFT DOUBLE QUOTATION MARK (U+201C)"),
        ("1\u20132\n", "1-2", "EN DASH (U+2013) where old has HYPHEN-MINUS (U+002D)"),
        ("wait\u2026\n", "wait...", "HORIZONTAL ELLIPSIS (U+2026) where old has 3 times FULL STOP (U+002E)"),
        ("\ufb01n\n", "fin", "LATIN SMALL LIGATURE FI (U+FB01) where old has LATIN SMALL LETTER F (U+0066)"),
        ("cafe\u0301\n", "caf\u00e9", "COMBINING ACUTE ACCENT (U+0301) where old has LATIN SMALL LETTER E WITH ACUTE"),
        ("a\u200bb\n", "ab", "line 1 has ZERO WIDTH SPACE (U+200B) where old has nothing"),
        ("ab\n", "\ufeffab", "where old has ZERO WIDTH NO-BREAK SPACE (U+FEFF)"),
        ("caf\udce9 au lait\n", "caf\ufffd au", "the byte 0xE9, which does not decode, where old has REPLACEMENT CHAR"),
        ("Foo Bar\n", "foo Bar", "line 1 has 'F' where old has 'f' (letter case)"),
        ("a\nb\n", "a\r\nb", "line 1 ends in LF (\\n) where old has CR LF (\\r\\n)"),
        ("a\nb", "b\n", "old ends with a line end, which the file does not have there (its last line has no line end)"),
        ("a\nb\n", "b\n\n\n", "old ends with 3 line ends, which the file does not have there"),
        ("a\nb\n", "\na\n", "old begins with a line end and ends with a line end, which the file does not have there"),
    ],
)
def test_what_cannot_be_seen_is_named(text: str, old: str, expected: str) -> None:
    message = explain_mismatch(text, old)
    assert message.startswith("nearly the same is at line ")
    assert expected in message


def test_the_line_is_shown_and_only_what_differs_is_told() -> None:
    text = "one\r\n\ttwo\r\n  three\r\nfour\r\n"
    assert explain_mismatch(text, "one\n\ttwo\n\tthree\nfour\n") == (
        "nearly the same is at line 2, but line 3 begins with 2 spaces where old has a tab:\n     2\t\ttwo"
    )
    assert explain_mismatch("a\u00a0b\n\t\tc\n", "a b\n").startswith(
        "nearly the same is at line 1, but line 1 has a no-break space (U+00A0) where old has a space:"
    )
    assert "line 9 has a tab where old has a space" in explain_mismatch("x\r\n" * 8 + "a\tb\r\n", "x\n" * 8 + "a b\n")
    assert "; " in explain_mismatch("a b\u00a0c\u00a0d\n", "a\tb c d")
    assert explain_mismatch("a a a a a a\n", "a\ta\ta\ta\ta\ta").count("where") == 3


def test_a_place_behind_much_is_found() -> None:
    text = "  much that is before\t\n" * 30_000 + "foo\u00a0bar\n" + "x\n" * 30_000
    expected = "line 30001 has a no-break space (U+00A0) where old has a space:\n 30001\tfoo"
    assert expected in explain_mismatch(text, "foo bar")
    one = "word  " * 50_000 + "foo\tbar" + " word" * 50_000
    message = explain_mismatch(one, "foo bar")
    assert "line 1 has a tab where old has a space" in message
    assert "foo\tbar" in message
    assert len(message) < 500


@pytest.mark.parametrize("old", ["     1\tone\n     2\ttwo\n", "     1\tone", "123456\tone\n"])
def test_line_numbers_of_read(old: str) -> None:
    message = explain_mismatch("zero\none\ntwo\n", old)
    assert message == "old has the line numbers that read shows; without them it is there, in line 2"


def test_line_numbers_of_read_and_more() -> None:
    message = explain_mismatch("zero\r\none\r\n\ttwo\r\n", "     1\tone\n     2\t  two\n")
    assert message.startswith("old has the line numbers that read shows; leave them out. Besides, nearly the same")
    assert "line 3 begins with a tab where old has 2 spaces" in message
    assert "line numbers" not in explain_mismatch("a\tb\n", "c\td")
    assert "line numbers" not in explain_mismatch("1 x\n", "     1\ta\nb\n")


def test_the_nearest_lines() -> None:
    text = "def one(first):\n    pass\n\ndef two(second, third):\n    pass\n\ndef three(other):\n"
    assert explain_mismatch(text, "def two(second, fourth):") == (
        "the nearest lines are:\n     1\tdef one(first):\n     4\tdef two(second, third):"
    )
    assert explain_mismatch(text, "pass()\n").startswith("the nearest lines are:\n     2\t    pass\n     5\t    pass")
    assert explain_mismatch("abc def\nxyz\n", "abc dez") == "the nearest line is:\n     1\tabc def"
    many = "".join(f"value_{number} = compute(number, {number})\n" for number in range(100))
    rows = explain_mismatch(many, "value_50 = compute(number, other, 50)").split("\n")
    assert rows[0] == "the nearest lines are:"
    assert "    51\tvalue_50 = compute(number, 50)" in rows
    assert len(rows) == 1 + closest_match.MAX_ROWS
    long = "x" * 500 + " a word that is known " + "y" * 500
    (row,) = explain_mismatch("a\nb\n" + long, "a word that was known").split("\n")[1:]
    assert row.startswith("     3\t")
    assert "a word that is known" in row
    assert len(row) < 2 * closest_match.MAX_ROW_LENGTH


def test_the_line_that_differs_within_a_passage() -> None:
    text = "def f(a):\n    b = a + 1\n    c = b * 2\n    return c\n"
    assert explain_mismatch(text, "def f(a):\n    b = a + 1\n    c = b * 3\n    return c\n") == (
        "nearly the same is there, but this line:\n     3\t    c = b * 2\nis in old:\n      \t    c = b * 3"
    )
    message = explain_mismatch(text, "def f(a):\n\tb = a + 1\n    c = b * 3\n    return c\n")
    assert "     3\t    c = b * 2\nis in old:\n      \t    c = b * 3" in message
    assert message.endswith("besides, line 2 has 4 spaces where old has a tab")
    wide = "x" * 1000
    message = explain_mismatch(f"one\n{wide} here\n", f"one\n{wide} there\n")
    assert re.fullmatch(r"nearly .*:\n     2\tx{49} here\nis in old:\n      \tx{49} there", message)
    twice = "def g(a):\n    c = b * 2\n    return a\n" + text
    assert "     6\t    c = b * 2\nis in old" in explain_mismatch(twice, "    b = a + 1\n    c = b * 3\n    return c\n")
    message = explain_mismatch(text, "    c = b * 2\n    return c\nmore\n")
    assert message == "nearly the same is there, but the file ends before old does:\n     4\t    return c"


def test_nothing_is_like_it() -> None:
    assert explain_mismatch("abc def\n", "zzz qqq") == "nothing like it is in the file"
    assert explain_mismatch("", "a") == "the file is empty"
    assert "white space" in explain_mismatch("abc\n", " \t\n")
    assert explain_mismatch("\n\n", "a\n") == "nothing like it is in the file"


PART = st.sampled_from(
    ["a", "B", "\u0430", " ", "\t", "\u00a0", "\n", "\r\n", "\u200b", "\ufb01", "\u2026", "\u00e9", "\u0301", "\udce9"]
)
ODD = st.lists(PART | st.characters(), max_size=40).map("".join)
SPACE = st.sampled_from([" ", "  ", "\t", "\u00a0", " \t", "\u2003"])


@given(text=ODD, old=ODD.filter(bool))
def test_something_is_said_of_anything(text: str, old: str) -> None:
    if old not in text:
        assert explain_mismatch(text, old).strip()


@given(words=st.lists(st.sampled_from(["a", "be", "\n", "\u00e9"]), min_size=2), data=st.data())
def test_other_white_space_is_always_found_and_named(words: list[str], data: st.DataObject) -> None:
    spaces = st.lists(SPACE, min_size=len(words), max_size=len(words))
    text, old = ("".join(map("".join, zip(words, data.draw(spaces), strict=True))) + "end" for _ in range(2))
    if old not in text:
        assert " where old has " in explain_mismatch(f"first\n{text}\n", old)


@given(text=ODD)
def test_every_place_of_a_folded_text_leads_back(text: str) -> None:
    whole = NormalizedText(text)
    spans = [whole.real(place) for place in range(len(whole.text))]
    assert spans == sorted(spans)
    assert all(0 <= place < len(text) or not text for place in spans)
    assert whole.text.count("\n") == text.count("\n")


@given(text=st.text(st.sampled_from(["a", " ", "\t", "\n"]), min_size=20, max_size=60), piece=st.integers(1, 7))
def test_pieces_do_not_show(text: str, piece: int) -> None:
    """As long as lines fit into them. White space that is cut in two stays two."""
    with pytest.MonkeyPatch.context() as patch:
        expected = NormalizedText(text)
        patch.setattr(normalized_text, "PIECE", max(piece, 1 + max(map(len, text.split("\n")))))
        found = NormalizedText(text)
        assert found.text == expected.text
        for place, character in enumerate(found.text):
            token = text[found.real(place) :]
            assert normalize(token[:1]).strip(" ") == character.strip(" ") or character == "\n"


class Counted:
    """How much was done, at most so much."""

    def __init__(self, most: int) -> None:
        self.left = most

    def tokens(self, real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def counted(*arguments: Any) -> Iterator[Any]:
            for token in real(*arguments):
                self.left -= 1
                assert self.left >= 0, "too many tokens were looked at"
                yield token

        return counted


def test_pieces_are_short_and_a_common_word_is_not_looked_up_everywhere() -> None:
    for text in ("ab\n" * PIECE, "a" * 3 * PIECE):
        assert max(end - start for start, end in pairwise(normalized_text._bounds(text))) <= PIECE
    assert len(closest_match._places("a " * 1000, "a")) == closest_match.MAX_WORD_MATCHES


WIDE = 20_000_000


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("ab cd " * (WIDE // 6), "ab  cd " * 150_000),
        ("ab cd " * (WIDE // 6), "cd ab " * 150_000 + "!"),
        ("ab cd " * (WIDE // 6), "ab cd " * 150_000 + "\tab"),
        ("a" * WIDE, "a" * 1_000_000 + "b"),
        ("a" * WIDE, "A" * 1_000_000),
        (" " * WIDE + "b", "  \t" * 300_000 + "b"),
        ("\n" * WIDE, "\n" * 1_000_000 + "b"),
        ("word\n" * (WIDE // 5), "word\n" * 200_000 + "wort\n"),
        ("word\n" * (WIDE // 5), "word \n" * 150_000),
        ("\u00e9 " * (WIDE // 4), "e\u0301\u00a0" * 300_000 + "!"),
        ("\u200b" * (WIDE // 4) + "a", "a\u200b" * 300_000),
    ],
)
def test_large_texts_take_bounded_work(text: str, old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    back = Counted(4 * PIECE)
    monkeypatch.setattr(normalized_text, "tokens", back.tokens(normalized_tokens))
    along = Counted(
        2 * invisible_characters.MAX_TOKENS + 2 * invisible_characters.MAX_JOINED * invisible_characters.MAX_DIFFERENCES
    )
    monkeypatch.setattr(invisible_characters, "tokens", along.tokens(normalized_tokens))
    compared = []

    class Matcher(SequenceMatcher[str]):
        def __init__(self, isjunk: None, a: str, b: str, autojunk: bool) -> None:
            compared.append(max(len(a), len(b)))
            super().__init__(isjunk, a, b, autojunk)

    monkeypatch.setattr(closest_match, "SequenceMatcher", Matcher)
    message = explain_mismatch(text, old)
    assert 0 < len(message) < 5_000
    assert len(compared) <= closest_match.PROBES * closest_match.MAX_COMPARED
    assert max(compared, default=0) <= 2 * closest_match.MAX_ROW_LENGTH


def test_an_accent_is_something_to_look_for() -> None:
    assert explain_mismatch("one\n# caf\u00e9\n", "# cafe") == (
        "nearly the same is at line 2, but not every character is the same "
        "(look for accents, letter case, white space):\n     2\t# caf\u00e9"
    )


def test_marks_without_end_are_folded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting those of one letter takes the square of their number."""
    longest = 0
    normalize = unicodedata.normalize

    def watched(form: Any, text: str) -> str:
        nonlocal longest
        longest = max(longest, len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", watched)
    assert "nothing like it" in explain_mismatch("e" + "\u0301\u0316" * 50_000, "something else")
    assert 0 < longest <= 1024


def test_only_what_is_short_is_folded_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may be as long as the file."""
    normalized_lengths: list[int] = []

    def watched(text: str) -> str:
        normalized_lengths.append(len(text))
        return normalize(text)

    monkeypatch.setattr(closest_match, "normalize", watched)
    line = "lorem ipsum dolor sit amet über " * 10_000
    explain_mismatch(line + "\n" + line, "lorem ipsum Dolor sit\namet  amet zzz")
    assert max(normalized_lengths, default=0) <= closest_match.MAX_NORMALIZED_LENGTH < len(line)
