"""Text that came from elsewhere, made safe for a terminal: nothing in it can move the cursor, forge a line or hide."""

import json
import re
import unicodedata
from typing import NamedTuple

LONGEST_LINE = 2000

# Characters that count as printable and are not seen: fillers, blanks of other scripts, variation selectors.
_UNSEEN = r"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b-\u180f\ufe00-\ufe0f\U00013441\U00013442"
_UNSEEN += r"\U00016fe4\U0001d159\U000e0100-\U000e01ef"
_HIDDEN = re.compile(f"[{_UNSEEN}]")
# How an escape begins, where the text itself says so.
_ESCAPE = re.compile(r"\\(?=u\{)")
_LINE_END_BLANK = re.compile(r" (?=\n|\Z)")
MOST_TOLD = 8


def escape(text: str) -> str:
    """One line of bounded length; control, bidirectional and other characters that cannot be seen as `\\u{1b}`."""
    cut = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    if cut.isprintable() and (cut.isascii() or not _HIDDEN.search(cut)):
        return cut
    return "".join(map(_seen, cut))


def exact(text: str) -> str:
    """All of a text, its lines as lines, such that no two texts look the same to a program and nothing hides from a
    person: what cannot be seen is `\\u{1b}`, also a blank at a line's end, and a `\\` that would look like one."""
    if text.isascii() and text.isprintable() and "\\u{" not in text and not text.endswith(" "):
        return text
    marked = _LINE_END_BLANK.sub(r"\\u{20}", _ESCAPE.sub(r"\\u{5c}", text))
    return "".join(one if one == "\n" else _seen(one) for one in marked)


def beyond_ascii(text: str) -> str:
    """Which characters of other scripts a text holds, by number and name: an `а` may be no `a`. Empty for none."""
    found = {one: unicodedata.name(one, "unnamed") for one in text if ord(one) > 126 and one.isprintable()}
    # Those that may pass for Latin letters come first: accents in front must not push them from the list.
    order = sorted(found, key=lambda one: found[one].startswith("LATIN"))
    told = [f"{one} U+{ord(one):04X} {found[one].lower()}" for one in order[:MOST_TOLD]]
    more = len(found) - len(told)
    return ", ".join([*told, *([f"and {more} more"] if more > 0 else [])])


class Field(NamedTuple):
    """One argument as a person reads it. `text` is exact; for a string it is the string, else it is JSON. `plain` is
    the same before anything was made visible, to be measured, not to be shown."""

    name: str
    text: str
    is_json: bool
    plain: str

    @property
    def size(self) -> str:
        """How long it is, and which characters it has that may not be what they look like."""
        lines = self.plain.count("\n") + (not self.plain.endswith("\n"))
        foreign = beyond_ascii(self.plain)
        counted = f"{_count(len(self.plain), 'character')}, {_count(lines, 'line')}"
        return f"{counted}; not ASCII: {foreign}" if foreign else counted


def fields(arguments: str) -> list[Field]:
    """Arguments (JSON text) as fields to read: the members of an object, or one field without a name. What is nested
    too deep to be laid out is one field too, as it came."""
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict):
            return [_field("", value)]
        return [_field(exact(name), member) for name, member in value.items()]
    except RecursionError:
        return [Field("", exact(arguments), True, arguments)]


def _field(name: str, value: object) -> Field:
    if isinstance(value, str):
        return Field(name, exact(value), False, value)
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return Field(name, exact(text), True, text)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _seen(one: str) -> str:
    return one if one.isprintable() and not _HIDDEN.match(one) else f"\\u{{{ord(one):x}}}"
