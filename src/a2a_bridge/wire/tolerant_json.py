"""Legal JSON that a fast parser refuses (contract B4), read with the standard library's scanner.

A leading BOM, lone surrogate escapes and integers of any size are legal. The text of each member is
kept beside its value, so that an `id` can be echoed exactly as it was sent.
"""

import json
import re
from typing import NamedTuple, NoReturn

_BLANK = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair: kept
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."  # any other escape, so that the second of two backslashes starts none
)
# int() of more digits than this raises, and would take quadratic time; a float is what JavaScript makes of them.
_EXACT_DIGITS = 4300


class Member(NamedTuple):
    """One member of an object: its value, and its JSON text as it was sent."""

    value: object
    text: str


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _EXACT_DIGITS else float(digits)


_decoder = json.JSONDecoder(parse_constant=_not_json, parse_int=_integer)


def _without_lone_surrogates(text: str) -> str:
    """The same text, of the same length, with U+FFFD for each surrogate escape that has no partner."""
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], text)


def read_object(body: bytes) -> dict[str, Member] | None:
    """The members of the JSON object in `body`, or None for any other JSON value.

    Raises ValueError (no JSON) or RecursionError (nested too deep to be read).
    """
    sent = body.decode().removeprefix("\ufeff")
    text = _without_lone_surrogates(sent)
    start = _skip(text, 0)
    if text[start : start + 1] != "{":
        _, end = _decoder.raw_decode(text, start)
        _expect_end(text, end)
        return None
    members: dict[str, Member] = {}
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        _expect_end(text, at + 1)
        return members
    while True:
        name, at = _decoder.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("a member's name is no string")
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        value, end = _decoder.raw_decode(text, at)
        members[name] = Member(value, sent[at:end])
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            _expect_end(text, at + 1)
            return members
        at = _skip(text, _expect(text, at, ","))


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at {at}")
    return at + 1


def _expect_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise ValueError(f"unexpected text at {at}")
