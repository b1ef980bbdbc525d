"""A question or a call written out in full, as parts of a passage. Slow for a megabyte: made in a thread."""

import json

from a2a_bridge.console import formatting
from a2a_bridge.console.wrapped_text import Kind, Part
from a2a_bridge.control.messages import AskedWhole, CallWhole, EndedCall, LiveCall
from a2a_bridge.terminal_text import beyond_ascii, exact, fields

OUTCOMES = {
    "done": "done",
    "failed": "failed",
    "abandoned": "abandoned: its caller hung up",
    "withdrawn": "withdrawn before it ran",
}


def request_parts(whole: AskedWhole) -> list[Part]:
    """All that will run, what it would change, and who asks."""
    asked = whole.asked
    parts = argument_parts(whole.arguments)
    if whole.preview:
        parts += [_heading("what it would change"), *_quoted(whole.preview)]
    parts += [_heading("who asks, and why")]
    parts += _facts(
        ("tool", asked.tool),
        ("tier", asked.tier),
        ("asked by", asked.client or "a client without a name"),
        ("session", asked.session),
        ("address", asked.address),
        ("directory", asked.directory),
        ("why asked", asked.reason),
    )
    return parts


def call_parts(whole: CallWhole, began: float) -> list[Part]:
    """One call: what it was, what let it run, and what came of it."""
    call = whole.ended or whole.call
    if call is None:
        return [_note("the bridge told nothing about it")]
    parts = _facts(
        ("tool", call.tool),
        ("what", call.summary),
        ("state", _state(call, began)),
        ("decided", call.decided if isinstance(call, EndedCall) else ""),
        ("asked by", call.client or "a client without a name"),
        ("session", call.session),
        ("audit id", call.id),
    )
    parts += [_heading("arguments"), *argument_parts(whole.arguments)]
    if whole.ended is not None:
        parts += [_heading(f"result: {_size(whole.result)}"), *_quoted(whole.result)]
    return parts


def argument_parts(arguments: str) -> list[Part]:
    """Arguments (JSON text) field by field, each with its length and the characters that only look familiar."""
    try:
        read = fields(arguments)
        lengths = _lengths(arguments)
    except (ValueError, RecursionError):
        return [_heading(f"arguments as JSON: {_size(arguments)}"), *_quoted(arguments)]
    if not read:
        return [_note("no arguments")]
    parts: list[Part] = []
    for field, size in zip(read, lengths, strict=True):
        name = f"{field.name}: " if field.name else ""
        parts.append(_heading(f"{name}{size}".replace("\n", "\\u{a}")))
        parts.append(Part(Kind.QUOTED, field.text))
        foreign = beyond_ascii(f"{field.name}{field.text}")
        if foreign:
            parts.append(_note(f"not ASCII: {foreign}"))
    return parts


def _lengths(arguments: str) -> list[str]:
    value = json.loads(arguments)
    members = list(value.values()) if isinstance(value, dict) else [value]
    return [_size(one) if isinstance(one, str) else "JSON" for one in members]


def _size(text: str) -> str:
    return f"{formatting.count(len(text), 'character')}, {formatting.count(text.count(chr(10)) + 1, 'line')}"


def _state(call: LiveCall | EndedCall, began: float) -> str:
    if isinstance(call, EndedCall):
        return f"{OUTCOMES[call.outcome]}, at {formatting.day_time(call.at)}, after {formatting.duration(call.seconds)}"
    waits = f"; it waits for your answer to request {call.request}" if call.request else ""
    return f"running since {formatting.day_time(began)}, for {formatting.age(call.seconds)}{waits}"


def _facts(*facts: tuple[str, str]) -> list[Part]:
    """Names and values, in full; a value's lines cannot pass for further facts."""
    return [_note(f"{name:<10} {exact(value)}".replace("\n", "\\u{a}")) for name, value in facts if value]


def _heading(text: str) -> Part:
    return Part(Kind.HEADING, text)


def _note(text: str) -> Part:
    return Part(Kind.NOTE, text)


def _quoted(text: str) -> list[Part]:
    shown = exact(text)
    foreign = beyond_ascii(text)
    return [Part(Kind.QUOTED, shown), *([_note(f"not ASCII: {foreign}")] if foreign else [])]
