"""What all screens share: the bridge as it was last seen, the way to order something, and the words that came back."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TypeVar

from a2a_bridge.console.connection import ENDED, BridgeEnded, asked, in_thread
from a2a_bridge.control.messages import OVERVIEW, Asked, Overview, Watching
from a2a_bridge.errors import ControlError

Answer = TypeVar("Answer")

# What was said is read in this time; then the line is the bridge's notices again. Keys that are pressed sooner than in
# a moment are no sign that it has been read.
SAID_SECONDS = 20.0
MOMENT_SECONDS = 1.0


class Desk:
    """`owns`: this console was started with the bridge. `do` runs an order while the screen goes on, `changed` has the
    screen drawn anew."""

    def __init__(self, path: Path, owns: bool, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self.path = path
        self.owns = owns
        self.clock = clock
        self.now = now
        self.bell = True
        self.overview: Overview | None = None
        self.trouble = ""
        self.ended = False
        # Takes a function and not its coroutine, which nobody would await if the console ends first.
        self.do: Callable[[Callable[[], Coroutine[None, None, None]]], None] = lambda work: None
        self.changed: Callable[[], None] = lambda: None
        self._said = ""
        self._said_at = 0.0

    def say(self, words: str) -> None:
        """To the person, on the line above the keys of whatever screen is shown."""
        self._said, self._said_at = words, self.clock()
        self.changed()

    def heard(self) -> None:
        """The person goes on."""
        if self.clock() - self._said_at >= MOMENT_SECONDS:
            self._said = ""

    @property
    def said(self) -> str:
        """The last words, while they are new; else the bridge's last notice."""
        if self._said and self.clock() - self._said_at < SAID_SECONDS:
            return self._said
        notices = self.overview.notices if self.overview is not None else []
        return f"notice: {notices[-1]}" if notices else ""

    def waiting(self) -> list[Asked]:
        """The questions that wait, the oldest first."""
        return [one for one in self.overview.approvals if not one.withdrawn] if self.overview is not None else []

    async def ask(self, method: str, kind: type[Answer], params: object = None) -> Answer:
        """One question to the bridge. Raises ControlError."""
        return await in_thread(partial(asked, self.path, method, params, kind))

    async def order(self, method: str, params: object = None) -> str | None:
        """One order. The bridge's words, or why there are none, go to the person. None when it was not taken."""
        try:
            words = await self.ask(method, str, params)
        except ControlError as error:
            self.say(str(error))
            return None
        self.say(words)
        return words

    async def look(self) -> None:
        """See how the bridge is now."""
        try:
            self.overview = await self.ask(OVERVIEW, Overview, Watching(attached=True))
            self.trouble, self.ended = "", False
        except BridgeEnded:
            self.trouble, self.ended = ENDED, True
        except ControlError as error:
            self.trouble = str(error)
