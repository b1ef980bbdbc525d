"""The lists of sessions and of grants, each with one thing to do to the selected row."""

from collections.abc import Sequence

from a2a_bridge.console import formatting
from a2a_bridge.console.base_screen import Room
from a2a_bridge.console.line import BOLD, CHOSEN, DIM, PLAIN, Line
from a2a_bridge.console.scrolling import moved, span
from a2a_bridge.console.state import Desk
from a2a_bridge.control.messages import (
    END_SESSION,
    GRANTS,
    REVOKE,
    GrantRow,
    Id,
    Number,
    SessionRow,
    session_start,
)
from a2a_bridge.errors import ControlError


class Rows(Room):
    """Rows by key. The selection follows the key; where it is gone, it goes to the row that took its place."""

    heading = ""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._index = 0
        self._key: object = None
        self._offset = 0
        self._height = 1
        self.keys = {
            "up": lambda: self._move(-1),
            "k": lambda: self._move(-1),
            "down": lambda: self._move(1),
            "j": lambda: self._move(1),
            "pageup": lambda: self._move(1 - self._height),
            "pagedown": lambda: self._move(self._height - 1),
            "home": lambda: self._move(-len(self.row_keys())),
            "end": lambda: self._move(len(self.row_keys())),
            "escape": self.back,
            "q": self.back,
        }

    def row_keys(self) -> Sequence[object]:
        raise NotImplementedError

    def row(self, index: int, width: int) -> str:
        raise NotImplementedError

    def selected(self) -> int | None:
        """The index of the selected row."""
        keys = self.row_keys()
        if not keys:
            return None
        self._index = keys.index(self._key) if self._key in keys else min(self._index, len(keys) - 1)
        self._key = keys[self._index]
        return self._index

    def _move(self, steps: int) -> None:
        index = self.selected()
        if index is not None:
            self._index = max(0, min(index + steps, len(self.row_keys()) - 1))
            self._key = self.row_keys()[self._index]

    def page(self, width: int, height: int) -> list[Line]:
        total, index = len(self.row_keys()), self.selected()
        self._height = max(1, height - 2)
        self._offset = moved(self._offset, index, self._height, total)
        lines = [
            Line(f" {formatting.cut(self.heading, width - 2)}", BOLD),
            Line(
                formatting.rule(span(self._offset, self._height, total) or formatting.count(total, "row"), width), DIM
            ),
        ]
        for number in range(self._offset, min(total, self._offset + self._height)):
            chosen = number == index
            text = formatting.filled(self.row(number, width - 2), width - 2)
            lines.append(Line(f"{'▸' if chosen else ' '} {text}", CHOSEN if chosen else PLAIN))
        return [*lines, *[Line("")] * (height - len(lines))]


class Sessions(Rows):
    """The sessions, as each look at the bridge tells them."""

    heading = "SESSIONS"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.keys |= {"x": self._end}

    def _rows(self) -> Sequence[SessionRow]:
        return self.desk.overview.sessions if self.desk.overview is not None else ()

    def row_keys(self) -> Sequence[object]:
        return [one.id for one in self._rows()]

    def row(self, index: int, width: int) -> str:
        one = self._rows()[index]
        client = formatting.filled(one.client or "a client without a name", max(16, width // 3))
        ages = f"opened {formatting.age(one.opened)} ago, seen {formatting.age(one.seen)} ago"
        calls = formatting.count(one.calls, "call")
        return f"{session_start(one.id):<9} {client}  {calls:<9} {ages}  {one.address}"

    def key_lines(self, width: int) -> list[str]:
        return ["↑↓ select   x end the session   Escape back"]

    def _end(self) -> None:
        index = self.selected()
        if index is None:
            self.desk.say("there is no session")
            return
        one = self._rows()[index]

        async def end() -> None:
            await self.desk.order(END_SESSION, Id(one.id))

        running = f"; its {formatting.count(one.calls, 'call')} in flight will be cancelled" if one.calls else ""
        text = f"end session {session_start(one.id)} of {formatting.cut(one.client, 60)}{running}?"
        self.confirm(text, lambda: self.desk.do(end))


class Grants(Rows):
    """What runs unasked; asked for at each look at the bridge."""

    heading = "GRANTS: what runs unasked"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._grants: Sequence[GrantRow] = ()
        self._asking = False
        self.keys |= {"x": self._revoke}

    def on_mount(self) -> None:
        self.follow()

    def follow(self) -> None:
        if not self._asking and not self.desk.ended:
            self._asking = True
            self.desk.do(self._load)

    async def _load(self) -> None:
        try:
            self._grants = await self.desk.ask(GRANTS, list[GrantRow])
        except ControlError as error:
            self.desk.say(str(error))
        finally:
            self._asking = False
        self.draw()

    def row_keys(self) -> Sequence[object]:
        return [one.id for one in self._grants]

    def row(self, index: int, width: int) -> str:
        one = self._grants[index]
        left = "" if one.seconds is None else f", for {formatting.age(one.seconds)} more"
        what = formatting.filled(one.summary or "everything", max(10, width // 4))
        client = formatting.filled(formatting.who(one.client, one.session), max(12, width // 6))
        return f"{one.id:>3}  {formatting.filled(one.tool, 10)} {what}  {client}  {one.kind}{left}"

    def key_lines(self, width: int) -> list[str]:
        return ["↑↓ select   x revoke the grant   Escape back"]

    def _revoke(self) -> None:
        index = self.selected()
        if index is None:
            self.desk.say("there is no grant")
            return
        number = self._grants[index].id

        async def revoke() -> None:
            await self.desk.order(REVOKE, Number(number))
            self.follow()

        self.desk.do(revoke)
