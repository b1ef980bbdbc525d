"""What differs though it cannot be seen, in words: white space, line ends, and characters that look like others."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby, islice
from typing import NamedTuple

from a2a_bridge.hosts.local.edits.normalized_text import normalize, tokens

MAX_DIFFERENCES = 3
# How far a passage is followed in search of what differs; how many tokens of one may stand for one of the other.
MAX_TOKENS = 100_000
MAX_JOINED = 16
# So much white space before a passage is looked at.
MAX_SPACE = 1000
# Of one difference, so many unlike characters are named.
MAX_GROUPS = 4

_SPACES = {" ": ("a space", "spaces"), "\t": ("a tab", "tabs"), "\u00a0": ("a no-break space", "no-break spaces")}
_SPACE = re.compile(r"[^\S\n]*")

Tokens = Iterator[tuple[int, str]]


class Difference(NamedTuple):
    """From a place of the text on: what it has there, and what the passage has instead."""

    at: int
    has: str
    wants: str


class Explanation(NamedTuple):
    """The same in words."""

    at: int
    words: str


def differences(text: str, at: int, old: str) -> list[Explanation]:
    """What differs between the passage and what is at that place of the text, the first few."""
    lead = _space(old, 0)
    trail = old[len(old.rstrip()) :].rpartition("\n")[2]
    core = old[len(lead) : len(old) - len(trail)]
    start = at + len(_space(text, at))
    before = text[max(0, start - MAX_SPACE) : start]
    before = before[len(before.rstrip()) :].rpartition("\n")[2]
    found = [] if before.endswith(lead) else [Difference(start - len(before), before, lead)]
    end = _follow(text, start, core, found)
    if end is not None and not (after := _space(text, end)).startswith(trail):
        found.append(Difference(end, after, trail))
    message = [(d.at, _phrases(text.count("\n", 0, d.at) + 1, d.has, d.wants)) for d in found[:MAX_DIFFERENCES]]
    return [Explanation(at, "; ".join(words)) for at, words in message if words]


def _space(text: str, at: int) -> str:
    found = _SPACE.match(text, at)
    return found[0] if found else ""


def _follow(text: str, start: int, core: str, found: list[Difference]) -> int | None:
    """Go through both side by side, and note what differs. Gives the end in the text if all was passed."""
    theirs, ours = tokens(text, start), tokens(core)
    end = start
    for at, wants in islice(ours, MAX_TOKENS):
        whole = at + len(wants) == len(core)
        place, has = next(theirs, (len(text), ""))
        if whole and wants.endswith("\n"):  # what follows the passage's last line end is not part of it
            has = has[: has.find("\n") + 1 or len(has)]
        if wants not in (has, has.replace("\r\n", "\n")):
            has, wants = _level(has, wants, theirs, ours)
            if normalize(has) != normalize(wants):
                return None
            found.append(Difference(place, has, wants))
            if len(found) >= MAX_DIFFERENCES:
                return None
        end = place + len(has)
    return end


def _level(has: str, wants: str, theirs: Tokens, ours: Tokens) -> tuple[str, str]:
    """More of either, until both fold to the same: one character may look like several, or like none."""
    for _ in range(MAX_JOINED):
        actual, here = normalize(has), normalize(wants)
        if actual == here:
            break
        if here.startswith(actual):
            has += next(theirs, (0, ""))[1]
        elif actual.startswith(here):
            wants += next(ours, (0, ""))[1]
        else:
            break
    return has, wants


def _phrases(line: int, has: str, wants: str) -> list[str]:
    """What a text has in that line and on, where it should have something that looks like it."""
    if "\n" not in has or "\n" not in wants:
        return [_phrase(line, has, wants)]
    ends_has, begins_has = has.split("\n", 1)
    ends_wants, begins_wants = wants.split("\n", 1)
    message = []
    if ends_has.removesuffix("\r") != ends_wants.removesuffix("\r"):
        trailing = _named(ends_has.removesuffix("\r")), _named(ends_wants.removesuffix("\r"))
        message.append(f"line {line} has {trailing[0]} at its end where old has {trailing[1]}")
    if ends_wants.endswith("\r") and not ends_has.endswith("\r"):
        message.append(f"line {line} ends in LF (\\n) where old has CR LF (\\r\\n)")
    if begins_has != begins_wants:
        message.append(f"line {line + 1} begins with {_named(begins_has)} where old has {_named(begins_wants)}")
    return message


def _phrase(line: int, has: str, wants: str) -> str:
    if has.lower() == wants.lower() and has.isprintable() and wants.isprintable():
        return f"line {line} has '{has}' where old has '{wants}' (letter case)"
    start = 0
    while start < min(len(has), len(wants)) and has[start] == wants[start]:
        start += 1
    if not (has + wants).isspace():
        has, wants = has[start:], wants[start:]
    while has and wants and has[-1] == wants[-1] and not (has + wants).isspace():
        has, wants = has[:-1], wants[:-1]
    return f"line {line} has {_named(has)} where old has {_named(wants)}"


def _named(characters: str) -> str:
    """Each by its name, equal ones together."""
    groups = [(character, len(list(equal))) for character, equal in groupby(characters)]
    words = [_name(character, count) for character, count in groups[:MAX_GROUPS]]
    return (" and ".join(words) + (" and more" if len(groups) > MAX_GROUPS else "")) or "nothing"


def _name(character: str, count: int) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"the byte 0x{code - 0xDC00:02X}, which does not decode,"
    point = "" if character in " \t" else f" (U+{code:04X})"
    if character in _SPACES:
        one, many = _SPACES[character]
        return f"{one}{point}" if count == 1 else f"{count} {many}{point}"
    name = unicodedata.name(character, "carriage return" if character == "\r" else "character")
    return f"{name}{point}" if count == 1 else f"{count} times {name}{point}"
