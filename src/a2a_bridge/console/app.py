"""The console as a program: looks at the bridge four times a second, and tells the terminal what is new."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker

from a2a_bridge.console import styles
from a2a_bridge.console.base_screen import Room
from a2a_bridge.console.main_screen import Main
from a2a_bridge.console.state import Desk

LOOK_SECONDS = 0.25
# Sooner than the question itself is given up, the person is told that nothing comes.
SLOW_SECONDS = 1.5


def run(socket: Path, owns: bool) -> bool:
    """Run until the person leaves. True when the person asked that the bridge be stopped, which needs `owns`.

    Without the mouse, which stays the terminal's own: so text can be marked and copied as everywhere."""
    return bool(Console(socket, owns).run(mouse=False))


class Console(App[bool]):
    """`clock` is for waits and ages, `now` the time of day; both in seconds."""

    CSS = styles.CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+q", "leave", priority=True, show=False)]

    def __init__(
        self,
        socket: Path,
        owns: bool,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        # Said before the theme is, or NO_COLOR would make greys of the terminal's own colours: black on black.
        super().__init__(ansi_color=True)
        self.theme = styles.THEME
        self.desk = Desk(socket, owns, clock, now)
        self.desk.do = self._do
        self.desk.changed = self._draw
        self._rung: set[int] = set()
        self._titled = ""

    def get_default_screen(self) -> Screen[None]:
        return Main(self.desk)

    def on_mount(self) -> None:
        self._do(self._watch)

    def _do(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        _: Worker[None] = self.run_worker(work)

    # Looking.

    async def _watch(self) -> None:
        """One look at a time; the next is not begun before the last has ended."""
        while True:
            looking = asyncio.ensure_future(self.desk.look())
            try:
                done, _ = await asyncio.wait({looking}, timeout=SLOW_SECONDS)
                if not done and not self.desk.trouble:
                    self.desk.trouble = "the bridge does not answer"
                    self._draw()
                await looking
            finally:
                looking.cancel()
            self._looked()
            await asyncio.sleep(LOOK_SECONDS)

    def _looked(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, Room):
                screen.follow()
        self._tell()
        self._draw()

    def _draw(self) -> None:
        if isinstance(self.screen, Room):
            self.screen.draw()

    def _tell(self) -> None:
        """The person may look elsewhere: a question rings, once, and shows in the title as long as it waits."""
        waiting = {one.id for one in self.desk.waiting()}
        if waiting - self._rung and self.desk.bell:
            self.bell()
        self._rung |= waiting
        title = f"● {len(waiting)} WAITING  a2a-bridge" if waiting else "a2a-bridge"
        if title != self._titled and not self.desk.ended:
            if not self._titled:
                self.to_terminal("\x1b[22;2t")  # remember the title that is there
            self._titled = title
            self.to_terminal(f"\x1b]2;{title}\x07")

    def to_terminal(self, sequence: str) -> None:
        """Something that is not for the screen."""
        if self._driver is not None:
            self._driver.write(sequence)

    # Leaving.

    def action_leave(self) -> None:
        if isinstance(self.screen, Room):
            self.screen.leave()

    def exit(self, *args: Any, **named: Any) -> None:
        if self._titled:
            self.to_terminal("\x1b[23;2t")  # and give it back
        super().exit(*args, **named)
