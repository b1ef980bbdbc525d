"""The lines of a text that are most like a passage's, found by words that they share."""

import heapq
import re
from collections import defaultdict
from difflib import SequenceMatcher
from typing import NamedTuple

from a2a_bridge.hosts.local.edits.diff import common_prefix_length
from a2a_bridge.hosts.local.edits.invisible_characters import differences
from a2a_bridge.hosts.local.edits.normalized_text import NormalizedText, normalize

# A line is compared beyond what is seen of it only when it is no longer than this.
MAX_NORMALIZED_LENGTH = 64 * 1024
MAX_ROW_LENGTH = 200
MAX_ROWS = 5
# Lines are looked up by some words of some lines of the passage; of what is found so, the best are compared.
PROBES = 3
WORDS = 6
MAX_WORD_MATCHES = 100
MAX_COMPARED = 20
MIN_LIKENESS = 0.5
# From here on, the lines around are taken for those that the passage means, and the first that differs is shown.
SURE_LIKENESS = 0.75

_WORD = re.compile(r"\w+")


class Near(NamedTuple):
    """How like a line of the passage (`number`, from 0) what is at that place of the folded text is."""

    likeness: float
    place: int
    number: int


def closest_lines(text: str, normalized: NormalizedText, old: str, expected: str) -> str:
    """The nearest lines and their numbers, in words. `wanted` is the passage, folded."""
    found = _closest(normalized.text, expected)
    if not found:
        return "nothing like it is in the file"
    if old.strip().count("\n"):
        sure = [near for near in found if near.likeness >= SURE_LIKENESS]
        beside = [_compare_lines(text, normalized.real(near.place), old.split("\n"), near.number) for near in sure]
        _, message = max(beside, key=lambda fits: fits[0], default=(0, ""))
        if message:
            return message
    spans = sorted({_start(text, normalized.real(near.place)) for near in found})
    return "\n".join([f"the nearest line{'s are' if len(spans) > 1 else ' is'}:", *(row(text, at) for at in spans)])


def row(text: str, at: int) -> str:
    """The line that has that place, with its number; a long one from near that place on."""
    start = _start(text, at)
    end = text.find("\n", at, at + 2 * MAX_ROW_LENGTH)
    line = text[start : end if end >= 0 else at + 2 * MAX_ROW_LENGTH].removesuffix("\r")
    return f"{text.count(chr(10), 0, at) + 1:>6}\t{_shortened(line)}"


def _start(text: str, at: int) -> int:
    """Where the line begins, or where it is to be shown from."""
    start = text.rfind("\n", max(0, at - MAX_ROW_LENGTH), at) + 1
    return start or max(0, at - MAX_ROW_LENGTH // 4 if at > MAX_ROW_LENGTH else 0)


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_ROW_LENGTH else f"{line[:MAX_ROW_LENGTH]}… [line cut]"


def _closest(text: str, expected: str) -> list[Near]:
    lines = [(line, index) for index, line in enumerate(expected.split("\n")) if line]
    found: list[Near] = []
    for line, index in heapq.nlargest(PROBES, lines, key=lambda probe: len(probe[0])):
        found += _like(text, line[:MAX_ROW_LENGTH], index)
    selected: list[Near] = []
    for near in sorted(found, key=lambda near: (-near.likeness, near.place)):
        beside = (_beside_each_other(text, near.place, other.place) for other in selected)
        if len(selected) < MAX_ROWS and not any(beside):
            selected.append(near)
    return selected


def _beside_each_other(text: str, one: int, other: int) -> bool:
    """Whether one row shows both."""
    start, end = min(one, other), max(one, other)
    return end - start <= MAX_ROW_LENGTH and "\n" not in text[start:end]


def _like(text: str, probe: str, index: int) -> list[Near]:
    shared: defaultdict[int, float] = defaultdict(float)
    for word, offset in _words(probe):
        spans = _places(text, word)
        for at in spans:  # a word that few lines have tells more
            shared[_likely_start(text, at, offset)] += len(word) / len(spans)
    likely = heapq.nlargest(MAX_COMPARED, shared, key=lambda place: (shared[place], -place))
    compared = [Near(_likeness(text, place, probe), place, index) for place in likely]
    return [near for near in compared if near.likeness >= MIN_LIKENESS]


def _places(text: str, word: str) -> list[int]:
    spans: list[int] = []
    at = text.find(word)
    while at >= 0 and len(spans) < MAX_WORD_MATCHES:
        spans.append(at)
        at = text.find(word, at + len(word))
    return spans


def _words(probe: str) -> list[tuple[str, int]]:
    """The longest, each with where it is in the probe."""
    words = {found[0]: found.start() for found in _WORD.finditer(probe)}
    return heapq.nlargest(WORDS, words.items(), key=lambda word: len(word[0]))


def _likely_start(text: str, at: int, offset: int) -> int:
    """Where a line with a word at that place begins; in a long one, where what is like the probe would."""
    start = text.rfind("\n", max(0, at - MAX_ROW_LENGTH), at) + 1
    return start or (max(0, at - offset) if at > MAX_ROW_LENGTH else 0)


def _likeness(text: str, place: int, probe: str) -> float:
    end = text.find("\n", place, place + 2 * len(probe))
    actual = text[place : end if end >= 0 else place + len(probe)]
    return SequenceMatcher(None, actual, probe, autojunk=False).ratio()


def _compare_lines(text: str, at: int, lines: list[str], number: int) -> tuple[int, str]:
    """The passage's lines beside the text's, of which one at that place is like the one with that number.

    Says how many fit, and in words which is the first that does not.
    """
    start = text.rfind("\n", 0, at) + 1
    for _ in range(number):
        if start == 0:
            return 0, ""
        start = text.rfind("\n", 0, start - 1) + 1
    fitting, message, unseen = 0, "", ""
    for place, line in enumerate(lines):
        if start >= len(text) and lines[place:] != [""]:
            ended = f"nearly the same is there, but the file ends before old does:\n{row(text, len(text) - 1)}"
            message = message or ended
            break
        end = text.find("\n", start)
        actual = text[start : end if end >= 0 else len(text)]
        if _fits(actual.removesuffix("\r"), line.removesuffix("\r"), place == 0, place == len(lines) - 1):
            fitting += 1
        elif _same_normalized(actual, line):
            unseen = unseen or _invisible_differences(text, start, line)
        elif not message:
            near = common_prefix_length(actual, line)
            what = f"{row(text, start + near)}\nis in old:\n      \t{_shortened(line[_start(line, near) :])}"
            message = f"nearly the same is there, but this line:\n{what}"
        start = end + 1 if end >= 0 else len(text)
    return fitting, message and message + unseen


def _same_normalized(one: str, other: str) -> bool:
    return len(one) <= MAX_NORMALIZED_LENGTH and normalize(one).strip() == normalize(other).strip()


def _invisible_differences(text: str, at: int, line: str) -> str:
    message = differences(text, at, line)
    return f"\nbesides, {message[0].words}" if message else ""


def _fits(actual: str, line: str, first: bool, last: bool) -> bool:
    if first and last:
        return line in actual
    if first:
        return actual.endswith(line)
    return actual.startswith(line) if last else actual == line
