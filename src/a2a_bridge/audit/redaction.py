"""Arguments as the audit log shows them (rules L1 and L2): short, and without long strings."""

import hashlib
import json
from contextlib import suppress

import msgspec

LONGEST_STRING = 120
DEEPEST_LEVEL = 32
LONGEST_TEXT = 1024

_TOO_DEEP = '"<max-depth>"'


def shown_string(text: str) -> str:
    """The string itself, or its length and the start of its hash when it is long (L2)."""
    if len(text) <= LONGEST_STRING:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"<len:{len(text)},sha256:{digest}>"


def shown_arguments(arguments: object) -> str:
    """The arguments as compact JSON, strings and depth reduced, cut after 1,024 characters with `…`."""
    short = _short(arguments)
    if short is not None:
        return short
    writer = _Writer()
    with suppress(_Full):
        writer.value(arguments, 0)
    text = "".join(writer.parts)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _short(arguments: object) -> str | None:
    """JSON so short that it can hold no long string and, by its brackets, nothing too deep. Most calls are such."""
    try:
        encoded = msgspec.json.encode(arguments)
    except (ValueError, TypeError, RecursionError):
        return None
    if len(encoded) > LONGEST_STRING:
        return None
    if len(encoded) > 2 * DEEPEST_LEVEL and encoded.count(b"[") + encoded.count(b"{") > DEEPEST_LEVEL:
        return None
    return encoded.decode()


class _Full(Exception):
    """Enough is written: what follows would be cut."""


class _Writer:
    """Writes JSON until the cut is reached, so that a megabyte of arguments costs no more than a kilobyte."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._length = 0

    def value(self, value: object, level: int) -> None:
        if level > DEEPEST_LEVEL:
            self._put(_TOO_DEEP)
        elif isinstance(value, dict):
            self._put("{")
            for index, (name, item) in enumerate(value.items()):
                self._put("," if index else "")
                self._put(_json(shown_string(str(name))) + ":")
                self.value(item, level + 1)
            self._put("}")
        elif isinstance(value, list | tuple):
            self._put("[")
            for index, item in enumerate(value):
                self._put("," if index else "")
                self.value(item, level + 1)
            self._put("]")
        else:
            self._put(_json(shown_string(value) if isinstance(value, str) else value))

    def _put(self, part: str) -> None:
        self.parts.append(part)
        self._length += len(part)
        if self._length > LONGEST_TEXT:
            raise _Full


def _json(value: object) -> str:
    """One string, number, boolean or null. What JSON cannot say is shown by its type."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=True)
    except (TypeError, ValueError):
        text = f'"<{type(value).__name__}>"'
    return text.encode("utf-8", "replace").decode()
