"""What was changed in a text, as a unified diff. It is made from where the changes are: the rest is not compared."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

CONTEXT = 3
# Of a diff that is longer, the middle is left out; of a line, all but what is near the change.
MAX_CHARACTERS = 8 * 1024
MAX_LINE_LENGTH = 400
# Lines are matched to lines, which takes more than linear time, only in so few of them, and for so few changes.
MAX_ALIGNED_LINES = 100
MAX_ALIGNED_CHANGES = 100


class Change(NamedTuple):
    """What was from `start` to `end` in the old text is from `new_start` to `new_end` in the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


class LineChange(NamedTuple):
    """Whole lines `gone` from `start` to `end` of the old text, and those that came; with their numbers from 0."""

    start: int
    end: int
    number: int
    new_number: int
    gone: list[str]
    come: list[str]


def single_change(old: str, new: str) -> Change | None:
    """All that differs, as one change; None when nothing does."""
    if old == new:
        return None
    start = _alike(old, new)
    end = min(_alike(reversed(old), reversed(new)), min(len(old), len(new)) - start)
    return Change(start, len(old) - end, start, len(new) - end)


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """With how many equal characters they begin."""
    return sum(1 for _ in takewhile(bool, map(str.__eq__, one, other)))


def combine(first: list[Change], second: list[Change]) -> list[Change]:
    """Both, the second made in what the first had left. Each list is in order and without overlaps, so is this."""
    steps = sorted(
        [(c.new_start, c.new_end, (c.end - c.start) - (c.new_end - c.new_start), 0) for c in first]
        + [(c.start, c.end, 0, (c.new_end - c.new_start) - (c.end - c.start)) for c in second]
    )
    whole: list[Change] = []
    behind = ahead = at = 0
    while at < len(steps):
        start, end, back, forth = steps[at]
        at += 1
        while at < len(steps) and steps[at][0] <= end:
            end = max(end, steps[at][1])
            back += steps[at][2]
            forth += steps[at][3]
            at += 1
        whole.append(Change(start + behind, end + behind + back, start + ahead, end + ahead + forth))
        behind += back
        ahead += forth
    return whole


def differing_runs(
    old: Sequence[str], new: Sequence[str], few: int = MAX_ALIGNED_LINES
) -> list[tuple[int, int, int, int]]:
    """Which lines differ: runs of `old[a:b]` in whose place is `new[c:d]`. Not minimal when there are many lines."""
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - start
    tail = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    a, b, c, d = start, len(old) - tail, start, len(new) - tail
    if a == b and c == d:
        return []
    if a == b or c == d or max(b - a, d - c) > few:
        return [(a, b, c, d)]
    found = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False).get_opcodes()
    return [(a + i, a + j, c + k, c + m) for tag, i, j, k, m in found if tag != "equal"]


def unified(old: str, new: str, changes: list[Change], name: str, plain_ends: bool) -> str:
    """The diff. With `plain_ends` a carriage return before a line feed is not shown."""
    rows = [f"--- {name}", f"+++ {name}"]
    for hunk in _hunks(old, _changed_lines(old, new, changes)):
        rows += _rows(old, hunk, plain_ends)
    return "\n".join(_cut(rows))


def split(text: str) -> list[str]:
    """Lines with their ends. Only a line feed ends a line."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _changed_lines(old: str, new: str, changes: list[Change]) -> Iterator[LineChange]:
    few = MAX_ALIGNED_LINES if len(changes) <= MAX_ALIGNED_CHANGES else 0
    at = index = shift = 0
    for block in _blocks(old, new, changes):
        index += old.count("\n", at, block.start)
        gone, come = split(old[block.start : block.end]), split(new[block.new_start : block.new_end])
        start, passed = block.start, 0
        for a, b, c, d in differing_runs(gone, come, few):
            start += sum(map(len, gone[passed:a]))
            end = start + sum(map(len, gone[a:b]))
            yield LineChange(start, end, index + a, index + shift + c, gone[a:b], come[c:d])
            start, passed = end, b
        index += len(gone)
        shift += len(come) - len(gone)
        at = block.end


def _blocks(old: str, new: str, changes: list[Change]) -> list[Change]:
    """The changes, made larger so that each is of whole lines."""
    blocks: list[Change] = []
    for start, end, new_start, new_end in changes:
        before = start - (old.rfind("\n", 0, start) + 1)
        if not (_begins_line(old, end) and _begins_line(new, new_end)):
            stop = old.find("\n", end) + 1 or len(old)
            end, new_end = stop, new_end + stop - end
        block = Change(start - before, end, new_start - before, new_end)
        if blocks and block.start < blocks[-1].end:
            last = blocks.pop()
            block = Change(last.start, end, last.new_start, new_end)
        blocks.append(block)
    return blocks


def _begins_line(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _hunks(old: str, changed: Iterator[LineChange]) -> Iterator[list[LineChange]]:
    hunk: list[LineChange] = []
    for lines in changed:
        if hunk and old.count("\n", hunk[-1].end, lines.start) > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(lines)
    if hunk:
        yield hunk


def _rows(old: str, hunk: list[LineChange], plain_ends: bool) -> list[str]:
    first = hunk[0]
    before = _before(old, first.start)
    body = [(" ", line, 0) for line in before]
    at = first.start
    for lines in hunk:
        body += [(" ", line, 0) for line in split(old[at : lines.start])]
        body += _replaced(lines)
        at = lines.end
    body += [(" ", line, 0) for line in _after(old, at)]
    was = _range(first.number - len(before), sum(mark != "+" for mark, _, _ in body))
    now = _range(first.new_number - len(before), sum(mark != "-" for mark, _, _ in body))
    return [f"@@ -{was} +{now} @@", *(_row(mark, line, near, plain_ends) for mark, line, near in body)]


def _before(old: str, start: int) -> list[str]:
    at = start
    for _ in range(CONTEXT):
        at = old.rfind("\n", 0, max(at - 1, 0)) + 1
    return split(old[at:start])


def _after(old: str, end: int) -> list[str]:
    at = end
    for _ in range(CONTEXT):
        at = old.find("\n", at) + 1 or len(old)
    return split(old[end:at])


def _range(index: int, count: int) -> str:
    return f"{index + (count > 0)},{count}"


def _replaced(lines: LineChange) -> list[tuple[str, str, int]]:
    """Marked lines, each with where in it the change begins, which only long ones need to know."""
    near = [
        common_prefix_length(gone, come) if max(len(gone), len(come)) > MAX_LINE_LENGTH else 0
        for gone, come in zip(lines.gone, lines.come, strict=False)
    ]
    near += [0] * (max(len(lines.gone), len(lines.come)) - len(near))
    gone = [("-", line, at) for line, at in zip(lines.gone, near, strict=False)]
    return gone + [("+", line, at) for line, at in zip(lines.come, near, strict=False)]


def common_prefix_length(one: str, other: str) -> int:
    """How many characters both begin with: halved again and again, since lines may be very long."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _row(mark: str, line: str, near: int, plain_ends: bool) -> str:
    content = line.removesuffix("\n")
    ended = "" if len(content) < len(line) else "\n\\ No newline at end of file"
    if plain_ends and not ended:
        content = content.removesuffix("\r")
    if len(content) > MAX_LINE_LENGTH:
        start = max(0, min(near - MAX_LINE_LENGTH // 4, len(content) - MAX_LINE_LENGTH))
        piece = content[start : start + MAX_LINE_LENGTH]
        after = "…" if start + MAX_LINE_LENGTH < len(content) else ""
        content = f"{'…' if start else ''}{piece}{after} [{len(content)} characters]"
    return f"{mark}{content}{ended}"


def _cut(rows: list[str]) -> list[str]:
    if sum(map(len, rows)) + len(rows) <= MAX_CHARACTERS:
        return rows
    head = _within(rows, MAX_CHARACTERS // 2)
    tail = _within(rows[:head:-1], MAX_CHARACTERS // 2)
    missing = len(rows) - head - tail
    return [*rows[:head], f"[… {missing} lines of the diff left out …]", *rows[len(rows) - tail :]]


def _within(rows: list[str], most: int) -> int:
    """How many rows fit."""
    size = 0
    for number, row in enumerate(rows):
        size += len(row) + 1
        if size > most:
            return number
    return len(rows)
