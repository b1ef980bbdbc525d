"""The rows of the main screen: which there are, which one is chosen, and which stand still while they are read.

Rows are known by the ids of what they show. A call that the person has chosen holds the list: what is in it changes in
its place, what is new is only counted. So it does while calls end faster than anybody can read.
"""

from collections.abc import Callable

from a2a_bridge.console import formatting
from a2a_bridge.console.line import CHOSEN, DIM, PLAIN, URGENT, URGENT_CHOSEN, Line
from a2a_bridge.console.scrolling import moved, span
from a2a_bridge.control.messages import Asked, EndedCall, LiveCall, Overview

Call = LiveCall | EndedCall
Item = Asked | LiveCall | EndedCall

# Of what was asked earlier, so many rows are in view beside what waits; the others are scrolled to.
EARLIER_IN_VIEW = 2
# Calls that fit are read; a list that was too fast stands still until so many looks in a row were calm.
CALM_LOOKS = 3


def key_of(item: Item) -> str:
    return f"request {item.id}" if isinstance(item, Asked) else f"call {item.id}"


class Board:
    """`now` gives seconds since the epoch, to tell when a call in flight began."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.needle = ""
        self._now = now
        self._asked: list[Asked] = []
        self._calls: list[Call] = []
        self._fresh: list[Call] = []
        self._lost: set[str] = set()
        self._began: dict[str, float] = {}
        self._picked: str | None = None  # by the person; None follows what is first
        self._total = self._shown_total = 0
        self._ended: int | None = None
        self._looked = 0.0
        self._rate = 0.0
        self._calm = CALM_LOOKS
        self._tool_width = 0
        self._top = 0
        self._offsets = [0, 0]
        self._room = 1

    # What the bridge tells.

    def update(self, overview: Overview) -> None:
        self._measure(overview)
        self._asked = list(overview.approvals)
        self._total = overview.running + overview.waiting + overview.done + overview.failed
        waiting = {call.id for call in overview.live if call.request}
        self._fresh = [*(call for call in overview.live if not call.request), *overview.ended]
        began = {call.id: self._now() - call.seconds for call in overview.live}
        self._began = {number: self._began.get(number, at) for number, at in began.items()}
        if self.held or (self.fast and len(self._calls) >= self._room):
            self._change_in_place(waiting)
        else:
            self._renew()
        if self._picked is not None and self._picked not in self._keys():
            self._picked = None

    def _renew(self) -> None:
        self._calls, self._shown_total, self._lost = self._fresh, self._total, set()

    def _change_in_place(self, waiting: set[str]) -> None:
        known = {call.id: call for call in self._fresh}
        self._calls = [known.get(call.id, call) for call in self._calls]
        self._lost = {
            call.id
            for call in self._calls
            if isinstance(call, LiveCall) and call.id not in known and call.id not in waiting
        }

    def _measure(self, overview: Overview) -> None:
        """How fast calls end. By the bridge's own clock, for the answer may have been long on its way."""
        ended, at = overview.done + overview.failed, overview.status.uptime
        if self._ended is not None and at > self._looked:
            more = ended - self._ended
            self._rate = more / (at - self._looked)
            self._calm = 0 if more > self._room else self._calm + 1
        self._ended, self._looked = ended, at

    @property
    def fast(self) -> bool:
        """More calls end than could be read."""
        return self._calm < CALM_LOOKS

    @property
    def held(self) -> bool:
        """The person reads a call's row."""
        return self._picked is not None and any(key_of(call) == self._picked for call in self._calls)

    # What is chosen.

    @property
    def chosen(self) -> Item | None:
        """What the person has picked; else the oldest question that waits, else the newest call."""
        items = self._items()
        for item in items:
            if self._picked is not None and key_of(item) == self._picked:
                return item
        waits = [one for one in self._asked if not one.withdrawn]
        return next(iter([*waits, *self._visible_calls(), *items]), None)

    def move(self, steps: int) -> None:
        """Up (negative) or down. Up from the first row lets the list go again."""
        keys = self._keys()
        chosen = self.chosen
        if chosen is None:
            return
        index = keys.index(key_of(chosen)) + steps
        if index < 0:
            self.home()
        else:
            self._picked = keys[min(index, len(keys) - 1)]

    def page(self, direction: int) -> None:
        self.move(direction * max(1, self._room - 1))

    def home(self) -> None:
        """Let go of the list and follow what is new."""
        self._picked = None
        self._offsets = [0, 0]
        self._renew()

    def end(self) -> None:
        keys = self._keys()
        self._picked = keys[-1] if keys else None

    def look_for(self, needle: str) -> None:
        """Show only calls with this in tool, sentence or client. What waits for the owner is never hidden."""
        self.needle = needle
        if self._picked is not None and self._picked not in self._keys():
            self.home()

    def _visible_calls(self) -> list[Call]:
        return [call for call in self._calls if formatting.matches(self.needle, call)] if self.needle else self._calls

    def _items(self) -> list[Item]:
        return [*self._asked, *self._visible_calls()]

    def _keys(self) -> list[str]:
        return [key_of(item) for item in self._items()]

    # What is seen.

    def lines(self, width: int, height: int) -> list[Line]:
        """Exactly `height` lines: the questions, and below them the calls."""
        calls, chosen = self._visible_calls(), self.chosen
        items = self._items()
        wide = formatting.columns(width, [item.tool for item in items], self._tool_width)
        self._tool_width = wide.tool
        index = items.index(chosen) if chosen is not None else None
        lines = self._asked_lines(index, wide, width, height)
        index = None if index is None or index < len(self._asked) else index - len(self._asked)
        self._room = max(1, height - len(lines) - 1)
        top = len(lines)
        if self.held:  # the section above has grown or shrunk: the row that is read stays where it is
            self._offsets[1] += top - self._top
        self._top = top
        offset = self._offsets[1] = moved(self._offsets[1], index, self._room, len(calls))
        lines.append(Line(formatting.rule(self._said(len(calls), offset), width), DIM))
        for number, call in enumerate(calls[offset : offset + self._room], offset):
            lines.append(_line(self._call_text(call, wide), number == index, urgent=False))
        return [*lines, *[Line("")] * (height - len(lines))][:height]

    def _asked_lines(self, index: int | None, wide: formatting.Columns, width: int, height: int) -> list[Line]:
        if not self._asked:
            return []
        waits = sum(not one.withdrawn for one in self._asked)
        wanted = waits + min(EARLIER_IN_VIEW, len(self._asked) - waits)
        room = max(1, min(wanted, height // 3))
        inside = index if index is not None and index < len(self._asked) else None
        offset = self._offsets[0] = moved(self._offsets[0], inside, room, len(self._asked))
        told = [f"{waits:,} WAITING for your answer: Enter shows it" if waits else "asked earlier, nobody waits"]
        told.append(span(offset, room, len(self._asked)))
        lines = [Line(formatting.rule("   ".join(filter(None, told)), width), URGENT if waits else DIM)]
        for number, asked in enumerate(self._asked[offset : offset + room], offset):
            lines.append(_line(formatting.asked_row(asked, wide), number == inside, urgent=not asked.withdrawn))
        return lines

    def _call_text(self, call: Call, wide: formatting.Columns) -> str:
        if isinstance(call, EndedCall):
            return formatting.ended_row(call, wide)
        return formatting.live_row(
            call, self._began.get(call.id, self._now() - call.seconds), call.id in self._lost, wide
        )

    def _said(self, shown: int, offset: int) -> str:
        """What the rule above the calls says."""
        newer = self._total - self._shown_total
        said = [
            "calls",
            f"with {self.needle!r}: {shown:,} of {len(self._calls):,}, Escape shows all" if self.needle else "",
            f"{self._rate:,.0f} calls/s, too fast to list" if self.fast else "",
            f"{newer:,} newer, Home shows them" if newer > 0 and (self.held or self.fast) else "",
            span(offset, self._room, shown),
        ]
        return "   ".join(filter(None, said))


def _line(text: str, chosen: bool, urgent: bool) -> Line:
    style = (URGENT_CHOSEN if chosen else URGENT) if urgent else (CHOSEN if chosen else PLAIN)
    return Line(f"{'▸' if chosen else ' '} {text}", style)
