"""Foreign text before a person's eyes: nothing hides in it, and no two texts look the same to a program."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.terminal_text import LONGEST_LINE, MOST_TOLD, beyond_ascii, escape, exact, fields

UNSEEN = ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"]
# Letters, marks and signs that are drawn as nothing.
FILLERS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180e\u180f\u2800\u3164\ufe00\ufe0f\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100\U000e01ef"
)
TRICKY = st.text(
    st.sampled_from(f"\\u{{}}052c {FILLERS}\n\t\r\x00\x1b\x7f\x85\xa0\xad\u200b\u202e\u2028\u2066\ufeff\ud800aа")
)
TEXTS = TRICKY | st.text() | st.text(st.characters())


def from_exact(shown: str) -> str:
    """The text that was shown."""
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), shown)


@given(text=TEXTS)
def test_exact_can_be_read_back_so_no_two_texts_look_the_same(text: str) -> None:
    assert from_exact(exact(text)) == text


@given(text=TEXTS)
def test_exact_hides_nothing(text: str) -> None:
    shown = exact(text)
    for one in shown:
        assert one in "\n " or (unicodedata.category(one) not in UNSEEN and one not in FILLERS)
    assert not re.search(r" $", shown, re.MULTILINE)
    assert not shown.endswith(" ")
    assert shown.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain  text\n\nof lines", "plain  text\n\nof lines"),
        ("a\\b \\n \\u0041", "a\\b \\n \\u0041"),
        ("\x1b[31m", "\\u{1b}[31m"),
        ("a\tb\r\n", "a\\u{9}b\\u{d}\n"),
        ("ab\u202edc", "ab\\u{202e}dc"),
        ("rm\u200b x", "rm\\u{200b} x"),
        ("a\u00a0b", "a\\u{a0}b"),
        ("end ", "end\\u{20}"),
        ("end  \nnext", "end \\u{20}\nnext"),
        ("\\u{202e}", "\\u{5c}u{202e}"),
        ("\\\\u{1b}", "\\\\u{5c}u{1b}"),
        ("\\\u202e", "\\\\u{202e}"),
        ("\ud800", "\\u{d800}"),
        ("жé漢🙂", "жé漢🙂"),
    ],
)
def test_exact_by_examples(text: str, shown: str) -> None:
    assert exact(text) == shown


@pytest.mark.parametrize("one", FILLERS)
def test_what_is_drawn_as_nothing_is_told(one: str) -> None:
    told = f"a\\u{{{ord(one):x}}}b"
    assert exact(f"a{one}b") == told
    assert escape(f"a{one}b") == told


@given(text=TEXTS)
def test_visible_is_one_bounded_line_without_what_cannot_be_seen(text: str) -> None:
    shown = escape(text)
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    assert not set(shown) & set(FILLERS)


def test_visible_is_cut() -> None:
    assert escape("a" * LONGEST_LINE) == "a" * LONGEST_LINE
    assert escape("a" * (LONGEST_LINE + 1)) == "a" * LONGEST_LINE + "…"
    assert len(escape("\u202e" * 10_000_000)) <= LONGEST_LINE * 12


def test_letters_of_other_scripts_are_named() -> None:
    assert beyond_ascii("plain ~ ASCII\n\x7f") == ""
    assert beyond_ascii("pаypаl") == "а U+0430 cyrillic small letter a"
    assert beyond_ascii("é→") == "→ U+2192 rightwards arrow, é U+00E9 latin small letter e with acute"
    many = "".join(chr(0x430 + number) for number in range(MOST_TOLD + 2))
    assert beyond_ascii(many).count("U+") == MOST_TOLD
    assert beyond_ascii(many).endswith(", and 2 more")
    assert beyond_ascii("\u202e") == ""  # it stands in the text itself as \u{202e}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TRICKY,
    lambda one: st.lists(one, max_size=4) | st.dictionaries(TRICKY, one, max_size=4),
)


@given(value=JSON)
def test_fields_hold_the_whole_value(value: object) -> None:
    found = fields(json.dumps(value))
    members = value if isinstance(value, dict) else {"": value}
    assert [from_exact(one.name) for one in found] == list(members)
    for one, member in zip(found, members.values(), strict=True):
        assert one.is_json is not isinstance(member, str)
        assert from_exact(one.text) == one.plain
        assert (json.loads(one.plain) if one.is_json else one.plain) == member


def test_a_field_tells_its_size_and_its_foreign_letters() -> None:
    (one, two) = fields(json.dumps({"a": "x", "b": "é\ny"}))
    assert one.size == "1 character, 1 line"
    assert two.size == "3 characters, 2 lines; not ASCII: é U+00E9 latin small letter e with acute"


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"a": ' * 100_000 + "1" + "}" * 100_000])
def test_what_is_nested_too_deep_to_be_laid_out_is_shown_as_it_came(text: str) -> None:
    (one,) = fields(text)
    assert (one.name, one.text, one.is_json) == ("", text, True)


def test_the_largest_numbers_are_shown() -> None:
    assert fields('{"n": 1e999}')[0].text == "Infinity"
    digits = "9" * 4300
    assert fields(f'{{"n": {digits}}}')[0].text == digits


def test_letters_that_pass_for_latin_ones_are_named_before_accents() -> None:
    assert beyond_ascii("äöüßéèêàâ gіthub").startswith("і U+0456 cyrillic")
