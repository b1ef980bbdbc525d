"""Replaces parts of a text, one edit after the other: all of them, or an error that names the edit that fails."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.edits.diff import Change, combine
from a2a_bridge.hosts.local.edits.explain import explain_mismatch
from a2a_bridge.hosts.local.edits.find import Search, Span, find_text

# Bounds the text after each edit.
MAX_CHARACTERS = 128 * 1024 * 1024
MAX_MATCHES = 100_000
LISTED_MATCHES = 10

_SURROGATE = re.compile("[\ud800-\udfff]")


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the `edits` of the tool `edit`."""

    old: Annotated[str, msgspec.Meta(description="Exact text, without line numbers; must match once. \\n fits CRLF.")]
    new: Annotated[str, msgspec.Meta(description="Text in its place.")]
    all: Annotated[bool, msgspec.Meta(description="Replace every match.")] = False


class Revision(NamedTuple):
    """The new text, where it differs from the original, and the number of replacements."""

    text: str
    changes: list[Change]
    replaced: int


def revise(original: str, edits: Sequence[Replacement]) -> Revision:
    """Apply the edits in order, each to the result of those before it. Raises ToolError that names the edit.

    Surrogates in `original` stand for bytes that do not decode.
    """
    revision = Revision(original, [], 0)
    for number, edit in enumerate(edits):
        try:
            _expect_sound(edit)
            _expect_no_replacement_character(edit.new, original)
            revision = _revised(revision, edit, original)
        except ToolError as error:
            before = " (after the edits before it)" if number else ""
            raise ToolError(f"edits[{number}]{before}: {error}") from None
    if revision.text == original:
        raise ToolError("the edits together change nothing")
    return revision


def _expect_sound(edit: Replacement) -> None:
    if not edit.old:
        raise ToolError(
            "old is empty; to add text, put a line beside it into old, and both into new; use write for an empty file"
        )
    for name, value in (("old", edit.old), ("new", edit.new)):
        if found := _SURROGATE.search(value):
            raise ToolError(f"{name} holds half a character (the lone surrogate U+{ord(found[0]):04X})")
    if edit.old == edit.new:
        raise ToolError("old and new are the same, so nothing changes")


def _expect_no_replacement_character(new: str, original: str) -> None:
    if "\ufffd" in new and _SURROGATE.search(original):
        raise ToolError(
            "new holds U+FFFD, which read displays for bytes that do not decode, and the file has such bytes; "
            "leave them out of old and new"
        )


def _revised(revision: Revision, edit: Replacement, original: str) -> Revision:
    before = revision.text
    found = find_text(before, edit.old, edit.new)
    spans = _every(found) if edit.all else _only(found, before)
    if not spans:
        raise ToolError(f"old is not there; {_mismatch(before, edit.old, original)}")
    if len(before) + len(spans) * (len(edit.new) - len(edit.old)) > MAX_CHARACTERS:
        raise ToolError(f"the result would have more than {MAX_CHARACTERS} characters; edit it with bash")
    after, changes = _replaced(before, found, spans)
    if after == before:
        raise ToolError("nothing changes, because lines keep their line ends; use bash to change those")
    return Revision(after, combine(revision.changes, changes), revision.replaced + len(spans))


def _every(found: Search) -> list[Span]:
    spans = list(islice(found.spans(), MAX_MATCHES + 1))
    if len(spans) > MAX_MATCHES:
        raise ToolError(f"old matches more than {MAX_MATCHES} times; use sed with bash")
    return spans


def _only(found: Search, before: str) -> list[Span]:
    """The only match, or none. Overlapping matches count too: either could be the right one."""
    spans = list(islice(found.spans(disjoint=False), LISTED_MATCHES + 1))
    if len(spans) <= 1:
        return spans
    count = len(spans)
    if count > LISTED_MATCHES:
        count = max(count, sum(1 for _ in islice(found.spans(), MAX_MATCHES + 1)))
    times = f"{count} times" if count <= MAX_MATCHES else f"more than {MAX_MATCHES} times"
    more = ", …" if count > LISTED_MATCHES else ""
    lines = list(dict.fromkeys(_lines(before, spans[:LISTED_MATCHES])))
    where = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{more}"
    every = ", or set all" if count <= MAX_MATCHES else ""
    raise ToolError(f"old matches {times}, in {where}; add lines around it to old and new{every}")


def _lines(before: str, spans: list[Span]) -> list[int]:
    numbers: list[int] = []
    line, at = 1, 0
    for start, _ in spans:
        line += before.count("\n", at, start)
        at = start
        numbers.append(line)
    return numbers


def _mismatch(before: str, old: str, original: str) -> str:
    if next(find_text(original, old, "").spans(), None):
        return "an earlier edit of this call changed the text that old matches"
    return explain_mismatch(before, old)


def _replaced(before: str, found: Search, spans: list[Span]) -> tuple[str, list[Change]]:
    parts: list[str] = []
    changes: list[Change] = []
    at = shift = 0
    for start, end in spans:
        new = found.new((start, end))
        parts += (before[at:start], new)
        changes.append(Change(start, end, start + shift, start + shift + len(new)))
        shift += len(new) - (end - start)
        at = end
    parts.append(before[at:])
    return "".join(parts), changes
