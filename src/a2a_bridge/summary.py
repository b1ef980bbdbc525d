"""A call in a few words, for a list that people read: what it does, not the JSON that says so."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

MOST_CHARACTERS = 200
# Of more edits than these the lines are not counted: sentences are made for each look at a list.
_MOST_COUNTED = 500


def summarize(tool: str, arguments: object) -> str:
    """One line, of bounded length; it may hold characters that a terminal must not get as they are."""
    said = ""
    if isinstance(arguments, dict):
        form = _FORMS.get(tool)
        said = form(arguments) if form else ""
    said = said or _short_json(arguments)
    line = " ".join(said[: 4 * MOST_CHARACTERS].split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…"


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    """A number to count with; what is no such number, or is longer than any that counts, is none."""
    value = arguments.get(name)
    return value if type(value) is int and abs(value) < 2**63 else None


def _bash(arguments: Mapping[str, Any]) -> str:
    command = _text(arguments, "command").strip()
    first, _, rest = command.partition("\n")
    if not command:
        return ""
    more = f" (and {_count(_lines(rest), 'line')} more)" if rest else ""
    where = f" in {cwd}" if (cwd := _text(arguments, "cwd")) and len(cwd) < 60 else ""
    ending = f"{where}{more}{' &' if arguments.get('background') is True else ''}"
    room = MOST_CHARACTERS - len(ending) - 1
    return f"{first[:room]}{'…' if len(first) > room else ''}{ending}"


def _read(arguments: Mapping[str, Any]) -> str:
    path, offset, limit = _text(arguments, "path"), _number(arguments, "offset"), _number(arguments, "limit")
    if offset is None and limit is None:
        return path
    start = 1 if offset is None else offset
    return f"{path}:{start}" + (f"-{start + limit - 1}" if limit is not None and start > 0 else "")


def _write(arguments: Mapping[str, Any]) -> str:
    content = _text(arguments, "content")
    added = "+" if arguments.get("append") is True else ""
    return f"{_text(arguments, 'path')} ({added}{_count(_lines(content), 'line')})"


def _edit(arguments: Mapping[str, Any]) -> str:
    edits = arguments.get("edits")
    path = _text(arguments, "path")
    if not isinstance(edits, list) or not path:
        return path
    if len(edits) > _MOST_COUNTED:
        return f"{path} ({len(edits)} edits)"
    changes = [edit for edit in edits if isinstance(edit, dict)]
    added = sum(_lines(_text(edit, "new")) for edit in changes)
    taken = sum(_lines(_text(edit, "old")) for edit in changes)
    return f"{path} ({_count(len(edits), 'edit')}, +{added} −{taken})"


def _search(arguments: Mapping[str, Any]) -> str:
    parts = (_text(arguments, "pattern"), _text(arguments, "path"))
    return " in ".join(part for part in parts if part)


def _job(arguments: Mapping[str, Any]) -> str:
    number = _number(arguments, "id")
    words = [_text(arguments, "action"), "" if number is None else str(number), json.dumps(_text(arguments, "text"))]
    return " ".join(word for word in words if word and word != '""')


_FORMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "bash": _bash,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "grep": _search,
    "glob": _search,
    "job": _job,
}


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _short_json(arguments: object) -> str:
    """Compact JSON; what the fast encoder refuses is made no longer than it is shown."""
    with suppress(ValueError, TypeError, RecursionError):
        encoded = msgspec.json.encode(arguments)
        return "" if encoded == b"{}" else encoded[: 4 * MOST_CHARACTERS].decode(errors="ignore")
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "), default=repr)
    said = ""
    try:
        for piece in encoder.iterencode(arguments):
            said += piece[: MOST_CHARACTERS + 1]
            if len(said) > MOST_CHARACTERS:
                break
    except RecursionError:
        return f"{said}…"
    return "" if said == "{}" else said
