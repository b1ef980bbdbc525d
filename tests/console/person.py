"""A person before the console: keys pressed, the screen read, a clock that they hold in their hand."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot

from a2a_bridge.console.app import Console
from a2a_bridge.console.key_guard import GUARD_SECONDS
from tests.console.fake import FakeBridge

# Long, because it only ever passes when something is broken.
DEADLINE = 15.0

# In place of the answers, while no key counts.
MOMENT = "in a moment keys answer"
KEYS_WITH_A_CHARACTER = {"enter": "\r", "escape": "\x1b", "question_mark": "?", "slash": "/"}


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Watched(Console):
    """The console, with what it sends to the terminal beside the screen written down."""

    def __init__(self, bridge: FakeBridge, owns: bool, clock: Clock) -> None:
        super().__init__(bridge.path, owns, clock, lambda: 1_700_000_500.0)
        self.bells = 0
        self.sent: list[str] = []

    def bell(self) -> None:
        self.bells += 1

    def to_terminal(self, sequence: str) -> None:
        self.sent.append(sequence)


class Person:
    def __init__(self, app: Watched, pilot: Pilot[bool], clock: Clock) -> None:
        self.app = app
        self.clock = clock
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        """Not by the pilot's own way, which waits for a processor that does nothing: a console that looks at its
        bridge all the time never gives it one."""
        for key in keys:
            # Some terminals tell the letter of a key with a modifier too.
            letter = key[-1] if len(key) == 1 or key[:-1] == "alt+" else KEYS_WITH_A_CHARACTER.get(key)
            event = Key(_character_to_key(key) if len(key) == 1 else key, letter)
            event.set_sender(self.app)
            self.app.post_message(event)
            await self.settled()

    async def settled(self) -> None:
        """What is on its way has arrived: from the app to the focused widget, up to the screen, and to the app."""
        for _ in range(4):
            await self._pilot._wait_for_screen()

    async def type(self, text: str) -> None:
        await self.press(*text)

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    def lines(self) -> list[str]:
        """What is on the screen, as it was drawn."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def line(self, part: str) -> str:
        """The one line that has this."""
        (found,) = [line for line in self.lines() if part in line]
        return found

    async def sees(self, *parts: str, lacks: Sequence[str] = ()) -> str:
        """Wait for a screen with all of these and none of those; the screen."""
        until = time.monotonic() + DEADLINE
        while True:
            await self.settled()
            screen = "\n".join(self.lines())
            if all(part in screen for part in parts) and not any(part in screen for part in lacks):
                return screen
            assert time.monotonic() < until, f"missing {parts} (or there: {lacks}) in:\n{screen}"
            await asyncio.sleep(0.01)

    async def looks(self, bridge: FakeBridge, times: int = 2) -> None:
        """Until the console has looked at the bridge anew, and has taken it in."""
        wanted, until = bridge.looks + times, time.monotonic() + DEADLINE
        while bridge.looks < wanted:
            assert time.monotonic() < until, "the console does not look at the bridge"
            await asyncio.sleep(0.01)
        await self.settled()

    async def ended(self) -> None:
        """Until the console knows that nobody answers any more."""
        until = time.monotonic() + DEADLINE
        while not self.app.desk.ended:
            assert time.monotonic() < until, "the console does not see that the bridge has ended"
            await asyncio.sleep(0.01)

    async def opens(self, *parts: str) -> str:
        """The selected question; and its guard's time is let pass."""
        await self.press("enter")
        await self.sees("APPROVAL", "characters as JSON")
        self.clock.seconds += GUARD_SECONDS
        return await self.sees("APPROVAL", *parts, lacks=[MOMENT])


@asynccontextmanager
async def at_console(bridge: FakeBridge, owns: bool = False, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Person]:
    clock = Clock()
    app = Watched(bridge, owns, clock)
    async with app.run_test(size=size) as pilot:
        person = Person(app, pilot, clock)
        await person.sees("sessions 2   calls")
        yield person
