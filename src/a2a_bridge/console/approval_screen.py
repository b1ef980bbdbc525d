"""One question to the owner, in full, and its answers. What is answered is what is on the screen, and nothing else."""

from functools import partial
from typing import Literal

import msgspec
from textual.widgets import Input

from a2a_bridge.console import formatting
from a2a_bridge.console.base_screen import Room
from a2a_bridge.console.connection import in_thread
from a2a_bridge.console.details import request_parts
from a2a_bridge.console.key_guard import Guard
from a2a_bridge.console.line import BOLD, DIM, TROUBLE, URGENT, Line
from a2a_bridge.console.pages import scroll_keys
from a2a_bridge.console.state import Desk
from a2a_bridge.console.wrapped_text import Kind, Part, Passage
from a2a_bridge.control.messages import (
    APPROVAL,
    APPROVE,
    DENY,
    Approval,
    Asked,
    AskedWhole,
    Denial,
    Number,
    session_start,
)
from a2a_bridge.errors import ControlError
from a2a_bridge.terminal_text import exact

TOO_SOON = "nothing was answered: this has just come onto the screen; read it, and press the key again"


class Prompt(Room):
    """`_whole` is what is on the screen, None until it is there. `_gone` are the bridge's words once there is nothing
    left to answer."""

    def __init__(self, desk: Desk, number: int) -> None:
        super().__init__(desk)
        self._number = number
        self._whole: AskedWhole | None = None
        self._gone = ""
        self._loading = False
        self._answering = False
        self._guard = Guard(desk.clock)
        self._passage = Passage([])
        self._show(number)

    def on_mount(self) -> None:
        self._load()

    # What is on the screen.

    def _show(self, number: int) -> None:
        self._number, self._whole, self._gone = number, None, ""
        self._read(Passage([Part(Kind.NOTE, "asking the bridge …")]))

    def _read(self, passage: Passage) -> None:
        passage.offset = self._passage.offset if self._whole is not None else 0
        self._passage = passage
        self.keys = {
            **scroll_keys(passage),
            "d": self._deny,
            "r": self._deny_with_a_reason,
            "a": lambda: self._approve("once"),
            "s": lambda: self._approve("call"),
            "t": self._approve_tool,
            "n": self._next,
            "escape": self.back,
        }

    def _load(self) -> None:
        if not self._loading:
            self._loading = True
            self.desk.do(partial(self._fetch, self._number))

    async def _fetch(self, number: int) -> None:
        try:
            whole = await self.desk.ask(APPROVAL, AskedWhole, Number(number))
            width = max(10, self.size.width - 2)
            passage = await in_thread(lambda: _passage(whole, width))
        except ControlError as error:
            if number == self._number:
                self._refused(str(error))
        else:
            if number == self._number:
                self._put(whole, passage)
        finally:
            self._loading = False
        if number != self._number:
            self._load()
        self.draw()

    def _put(self, whole: AskedWhole, passage: Passage) -> None:
        before = self._whole
        if before is None or not _same(before, whole):
            self._changed()
        if before is None or (before.arguments, before.preview) != (whole.arguments, whole.preview):
            self._read(passage)
        self._whole, self._gone = whole, ""

    def _refused(self, why: str) -> None:
        """A request that the bridge still lists is not gone: it was only not told."""
        if self.desk.trouble or self._told() is not None:
            self.desk.say(why)
        else:
            self._changed()
            self._gone = why

    def _told(self) -> Asked | None:
        approvals = self.desk.overview.approvals if self.desk.overview is not None else ()
        return next((one for one in approvals if one.id == self._number), None)

    def _changed(self) -> None:
        """Keys that are on their way were meant for what was there before."""
        self._guard.close()
        self.question = None

    def follow(self) -> None:
        """The same request as the last look at the bridge told it: withdrawn, asked again, or not there any more."""
        if self.desk.overview is None or self.desk.trouble or self._gone:
            return
        told = self._told()
        if self._whole is None or told is None:
            self._load()
            return
        changed = not _same_question(told, self._whole.asked)
        self._whole = msgspec.structs.replace(self._whole, asked=told)
        if changed:
            self._changed()
            self._load()

    # Drawing.

    def page(self, width: int, height: int) -> list[Line]:
        room = width - 2
        top = self._top(room)
        bottom = self._bottom(room)
        body_height = max(1, height - len(top) - len(bottom) - 2)
        self._passage.fit(room)
        body = [Line(f" {line.text}", line.style) for line in self._passage.lines(body_height)]
        length = f"arguments: {self._whole.asked.length:,} characters as JSON" if self._whole else "arguments"
        return [
            *top,
            Line(formatting.rule(length, width), DIM),
            *body,
            Line(formatting.rule(self._passage.place, width), DIM),
            *bottom,
        ]

    def _top(self, room: int) -> list[Line]:
        if self._whole is None:
            return [Line(f" {formatting.cut(f'APPROVAL, request {self._number}', room)}", BOLD)]
        asked = self._whole.asked
        waiting = [one.id for one in self.desk.waiting()]
        place = f"{waiting.index(asked.id) + 1} of {len(waiting)}" if asked.id in waiting else f"request {asked.id}"
        if self._gone or asked.withdrawn:
            since = "asked" if asked.withdrawn else "was asked"
            head = f"APPROVAL {place}: {'GONE' if self._gone else 'WITHDRAWN'}"
        else:
            since, head = "waiting", f"APPROVAL {place}"
        if asked.times > 1:
            head += f"   asked {asked.times} times"
        if asked.callers > 1:
            head += f"   {asked.callers} callers wait"
        who = f"asked by {asked.client or 'a client without a name'}"
        facts = f"{asked.tool}   {asked.tier}   {who}   session {session_start(asked.session)}…   {asked.address}"
        return [
            Line(f" {formatting.apart(head, f'{since} {formatting.age(asked.seconds)}', room)}", URGENT),
            Line(f" {formatting.cut(facts, room)}", BOLD),
            Line(f" {formatting.cut(f'in {asked.directory}' if asked.directory else '', room)}"),
        ]

    def _bottom(self, room: int) -> list[Line]:
        if self._whole is None:
            return [Line(f" {formatting.cut(exact(self._gone), room)}", TROUBLE)] if self._gone else []
        asked = self._whole.asked
        lines = [Line(f" {formatting.cut(f'why asked: {asked.reason}', room)}")]
        return lines + [Line(f" {formatting.cut(text, room)}", TROUBLE) for text in self._state(asked)]

    def _state(self, asked: Asked) -> list[str]:
        """What has become of the question, and what an answer now means."""
        if self._gone:
            return [self._gone]
        if not asked.withdrawn:
            return []
        if asked.granted:
            return ["granted: the next identical call runs unasked; d takes that back"]
        return [
            f"asked earlier; withdrawn: {asked.withdrawn}",
            "nothing runs if you approve it now: the next identical call does, unasked",
        ]

    def key_lines(self, width: int) -> list[str]:
        if self.typing:
            return ["Enter deny with this reason, which the caller gets   Escape do not answer"]
        if self._gone:
            return ["nothing is left to answer here   n next question   Escape back"]
        if not self._guard.open:
            return ["read it; in a moment keys answer", "", ""]
        return [
            "▸[d] deny   [r] deny with a reason   [a] approve once",
            " [s] this very call for the session   [t] all of this tool for the session",
            " n next question   ↑↓ PageUp PageDown Home End scroll   Escape do not answer",
        ]

    # Answers.

    def _ready(self) -> Asked | None:
        """What a key answers now: the question that is on the screen. If there is none, the person is told why."""
        if self._gone:
            self.desk.say(f"nothing is left to answer: {self._gone}")
        elif self._whole is None or not self._guard.open:
            self.desk.say(TOO_SOON)
        elif self._answering:
            self.desk.say("an answer is already on its way")
        else:
            return self._whole.asked
        return None

    def _send(self, method: str, params: Approval | Denial) -> None:
        self._answering = True

        async def send() -> None:
            try:
                taken = await self.desk.order(method, params)
            finally:
                self._answering = False
            if taken is not None:
                self.back()
            else:  # it may have been answered elsewhere, or the words may only have been lost
                self._load()

        self.desk.do(send)

    def _approve(self, scope: Literal["once", "call", "tool"]) -> None:
        asked = self._ready()
        if asked is not None:
            self._send(APPROVE, Approval(asked.id, scope))

    def _approve_tool(self) -> None:
        asked = self._ready()
        if asked is None:
            return
        session = f"session {session_start(asked.session)}…"
        text = f"really approve all of {formatting.cut(asked.tool, 60)}, unread, until {session} ends?"
        self.confirm(text, lambda: self._approve("tool"))
        self._guard.close()  # the y has to be an answer to this, not the next letter of a word

    def _deny(self, reason: str = "") -> None:
        asked = self._ready()
        if asked is not None:
            self._send(DENY, Denial(asked.id, reason))

    def _deny_with_a_reason(self) -> None:
        if self._ready() is not None:
            self.start_typing("the reason, which the caller gets")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        reason = event.value.strip()
        if not reason:
            self.desk.say("no reason, no answer: Escape, and d denies without one")
        elif not self._gone and not self._guard.open:
            self.desk.say(TOO_SOON)  # and keep what was typed
        else:
            self.stop_typing()
            self._deny(reason)

    def _next(self) -> None:
        """The next that waits, in their order, after the last the first again."""
        if self._answering:
            return
        waiting = [one.id for one in self.desk.waiting()]
        others = [one for one in waiting if one != self._number]
        if not others:
            self.desk.say("no other question waits")
            return
        later = [one for one in others if one > self._number]
        self._show(min(later or others))
        self._guard.close()
        self._load()


def _passage(whole: AskedWhole, width: int) -> Passage:
    passage = Passage(request_parts(whole))
    passage.fit(width)
    return passage


def _same(one: AskedWhole, other: AskedWhole) -> bool:
    same = (one.arguments, one.preview) == (other.arguments, other.preview)
    return same and _same_question(one.asked, other.asked)


def _same_question(one: Asked, other: Asked) -> bool:
    """All but its age."""
    return msgspec.structs.replace(one, seconds=0.0) == msgspec.structs.replace(other, seconds=0.0)
