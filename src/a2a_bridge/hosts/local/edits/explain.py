"""Why a passage is not in a text: what is nearly it, where, and what differs although it cannot be seen.

Only words for the caller come from here; nothing that is nearly the passage is ever taken for it. The work is
bounded: linear in the text, and whatever compares more closely gets little to compare.
"""

import re

from a2a_bridge.hosts.local.edits.closest_match import closest_lines, row
from a2a_bridge.hosts.local.edits.invisible_characters import differences
from a2a_bridge.hosts.local.edits.normalized_text import NormalizedText

_NUMBERED = re.compile(r" {0,5}\d+\t")
_NUMBERS = re.compile(r"^ {0,5}\d+\t", re.MULTILINE)


def explain_mismatch(text: str, old: str) -> str:
    """Some lines of explanation. `old` is not in `text`."""
    if not text:
        return "the file is empty"
    if not old.strip():
        return "old is nothing but white space, and the file has none that is the same"
    bare = _without_numbers(old)
    if bare is None or not bare.strip():
        return _explain(text, old)
    if bare in text:
        return f"old has the line numbers that read shows; without them it is there, in line {_line(text, bare)}"
    return f"old has the line numbers that read shows; leave them out. Besides, {_explain(text, bare)}"


def _without_numbers(old: str) -> str | None:
    """Without the numbers that `read` puts before lines, if every line has one."""
    lines = old.removesuffix("\n").split("\n")
    return _NUMBERS.sub("", old) if all(_NUMBERED.match(line) for line in lines) else None


def _line(text: str, old: str) -> int:
    return text.count("\n", 0, text.find(old)) + 1


def _explain(text: str, old: str) -> str:
    normalized, expected = NormalizedText(text), NormalizedText(old).text.strip(" ")
    place = normalized.text.find(expected)
    if place >= 0:
        return _alike(text, normalized.real(place), old)
    inner = expected.strip("\n")
    place = normalized.text.find(inner)
    if place >= 0:
        return _but_ends(text, normalized.real(place), expected)
    return closest_lines(text, normalized, old, expected)


def _alike(text: str, at: int, old: str) -> str:
    found = differences(text, at, old)
    first = found[0].at if found else at
    what = (
        "; ".join(d.words for d in found)
        or "not every character is the same (look for accents, letter case, white space)"
    )
    return f"nearly the same is at line {text.count(chr(10), 0, first) + 1}, but {what}:\n{row(text, first)}"


def _but_ends(text: str, at: int, expected: str) -> str:
    """What is there but for line feeds around it."""
    number = text.count("\n", 0, at) + 1
    ending = len(expected) - len(expected.rstrip("\n"))
    beginning = len(expected) - len(expected.lstrip("\n"))
    message = [f"begins with {_ends(beginning)}"] if beginning else []
    message += [f"ends with {_ends(ending)}"] if ending else []
    last = "" if text.endswith("\n") else " (its last line has no line end)"
    return (
        f"nearly the same is at line {number}, but old {' and '.join(message)}, "
        f"which the file does not have there{last}:\n{row(text, at)}"
    )


def _ends(count: int) -> str:
    return "a line end" if count == 1 else f"{count} line ends"
