"""What a bridge tells, in words and columns: texts of a given width from messages. No widget, no socket, no clock."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from a2a_bridge.control.messages import Asked, EndedCall, LiveCall, Overview, Status, session_start
from a2a_bridge.terminal_text import escape

NARROWEST_TOOL = 6
NARROWEST_HOST = 12
MARKS = {"done": "✓", "failed": "✗", "abandoned": "⊘", "withdrawn": "⊘"}


class Piece(NamedTuple):
    """A part of a line; where room is short, the parts of least weight are left out."""

    weight: int
    text: str


class Columns(NamedTuple):
    """How wide what is in a row."""

    tool: int
    sentence: int
    client: int


def cut(text: str, width: int) -> str:
    """One line that is seen as it is, and that ends with `…` where it does not fit."""
    seen = escape(text)
    if cell_len(seen) <= width:
        return seen
    return f"{set_cell_size(seen, width - 1)}…" if width > 0 else ""


def filled(text: str, width: int) -> str:
    """The same, and blanks up to the width."""
    return set_cell_size(cut(text, width), width)


def apart(left: str, right: str, width: int) -> str:
    """Two texts at the two ends of a line."""
    return f"{filled(left, max(0, width - cell_len(right) - 1))} {right}"


def fitted(pieces: Iterable[Piece], width: int, gap: str = "   ") -> str:
    """As many of the pieces as there is room for, in their order."""
    kept = [piece for piece in pieces if piece.text]
    while len(kept) > 1 and cell_len(gap.join(piece.text for piece in kept)) > width:
        kept.remove(min(kept, key=lambda piece: piece.weight))
    return cut(gap.join(piece.text for piece in kept), width)


def rule(text: str, width: int) -> str:
    """A line across, with words in it."""
    words = f"── {cut(text, width - 6)} " if text else ""
    return words + "─" * (width - cell_len(words))


def duration(seconds: float) -> str:
    """How long a thing took."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 59.95 else age(seconds)


def age(seconds: float) -> str:
    """How long a thing has been going on; counts up in whole seconds."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def day_time(at: float) -> str:
    """The time of day of seconds since the epoch."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def who(client: str, session: str) -> str:
    """The borrower in few words: a client need not say its name."""
    return client or f"session {session_start(session)}"


def where(status: Status, width: int) -> str:
    """Where to point a client: the head's first line."""
    url, token, up = status.url, f"token {status.token_prefix}", f"up {age(status.uptime)}"
    taken = cell_len(f"{url}   {token}   host    {up}")
    host = f"host {cut(status.host, max(NARROWEST_HOST, width - taken))}"
    return fitted([Piece(0, "a2a-bridge"), Piece(9, url), Piece(8, token), Piece(5, host), Piece(6, up)], width)


def how(overview: Overview, trouble: str, width: int) -> str:
    """Whether everything is all right: its second line. `trouble` is why the rest of it may be old."""
    status = overview.status
    calls = (
        f"calls {overview.running:,} running, {overview.waiting:,} waiting, "
        f"{overview.done:,} done, {overview.failed:,} failed"
    )
    pieces = [
        Piece(9, f"✗ {trouble}" if trouble else ""),
        Piece(8, "PAUSED" if status.paused else ""),
        Piece(3, f"sessions {status.sessions:,}"),
        Piece(6, calls),
        Piece(7, f"audit FAILED {status.audit_failed:,}") if status.audit_failed else Piece(5, "audit ok"),
        Piece(4, f"{overview.earlier:,} asked earlier" if overview.earlier else ""),
    ]
    return fitted(pieces, width)


def columns(width: int, tools: Iterable[str], before: int = 0) -> Columns:
    """The tool's column is as wide as the longest, and not narrower than before: columns that jump are hard to read."""
    longest = max((cell_len(escape(tool)) for tool in tools), default=0)
    tool = min(max(NARROWEST_TOOL, before, longest), width // 5)
    client = min(30, max(12, width // 7))
    return Columns(tool, max(1, width - _FIXED - tool - client), client)


# The mark of the chosen row, the lead, the duration, the outcome, and what parts them.
_FIXED = 2 + 9 + 1 + 2 + 2 + 1 + 8 + 1 + 1


def _row(lead: str, texts: Sequence[str], ends: tuple[str, str], wide: Columns) -> str:
    tool, sentence, client = (filled(text, room) for text, room in zip(texts, wide, strict=True))
    return f"{lead:<9} {tool}  {sentence}  {client} {ends[0]:>8} {ends[1]}"


def asked_row(asked: Asked, wide: Columns) -> str:
    """A question: one that waits for the owner, or one that was asked earlier."""
    lead = "● WAITING"
    if asked.withdrawn:
        lead = "○ GRANTED" if asked.granted else "○ EARLIER"
    texts = (asked.tool, asked.summary, who(asked.client, asked.session))
    return _row(lead, texts, (age(asked.seconds), " "), wide)


def live_row(call: LiveCall, began: float, lost: bool, wide: Columns) -> str:
    """A call in flight. `lost`: it has ended, and how is not remembered."""
    ends = ("ended", "?") if lost else (age(call.seconds), "…")
    return _row(day_time(began), (call.tool, call.summary, who(call.client, call.session)), ends, wide)


def ended_row(call: EndedCall, wide: Columns) -> str:
    ends = (duration(call.seconds), MARKS[call.outcome])
    return _row(day_time(call.at), (call.tool, call.summary, who(call.client, call.session)), ends, wide)


def matches(needle: str, call: LiveCall | EndedCall) -> bool:
    """Whether a row has what the person looks for."""
    return needle.casefold() in f"{call.tool} {call.summary} {who(call.client, call.session)}".casefold()
