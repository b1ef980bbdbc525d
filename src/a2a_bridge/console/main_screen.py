"""The main screen: where the bridge is and how, what waits, what runs and what has run, and the keys."""

from collections.abc import Callable

import msgspec
from textual.widgets import Input

from a2a_bridge.console import formatting
from a2a_bridge.console.approval_screen import Prompt
from a2a_bridge.console.base_screen import Room, keys_that_fit
from a2a_bridge.console.call_list import Board
from a2a_bridge.console.line import BOLD, PLAIN, TROUBLE, Line
from a2a_bridge.console.pages import CallPage, keys_page, notices_page, token_page
from a2a_bridge.console.state import Desk
from a2a_bridge.console.tables import Grants, Sessions
from a2a_bridge.control.client_config import Client, client_entry
from a2a_bridge.control.messages import CANCEL, PAUSE, RESUME, ROTATE, TOKEN, Asked, Id, LiveCall
from a2a_bridge.errors import ControlError

ENTRY_NAME = "a2a"


class Main(Room):
    """Nothing is approved from here: a question is first read in full."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.board = Board(desk.now)
        self.keys = {
            "up": lambda: self.board.move(-1),
            "k": lambda: self.board.move(-1),
            "down": lambda: self.board.move(1),
            "j": lambda: self.board.move(1),
            "pageup": lambda: self.board.page(-1),
            "pagedown": lambda: self.board.page(1),
            "home": self.board.home,
            "end": self.board.end,
            "escape": lambda: self.board.look_for(""),
            "enter": self._open,
            "x": self._cancel,
            "p": self._pause,
            "c": lambda: self._with_token(self._copy),
            "t": lambda: self._with_token(self._show_token),
            "R": self._rotate,
            "g": lambda: self._push(Grants(self.desk)),
            "S": lambda: self._push(Sessions(self.desk)),
            "n": lambda: self._push(notices_page(self.desk)),
            "?": lambda: self._push(keys_page(self.desk)),
            "b": self._bell,
            "/": lambda: self.start_typing("part of a tool, a sentence or a client"),
            "q": self.leave,
        }

    def follow(self) -> None:
        if self.desk.overview is not None:
            self.board.update(self.desk.overview)

    # What is seen.

    def page(self, width: int, height: int) -> list[Line]:
        overview = self.desk.overview
        if overview is None:
            text = f"✗ {self.desk.trouble}" if self.desk.trouble else "asking the bridge …"
            return [Line(f" {text}", BOLD), *[Line("")] * (height - 1)]
        wrong = bool(self.desk.trouble or overview.status.paused or overview.status.audit_failed)
        head = [
            Line(f" {formatting.where(overview.status, width - 2)}", BOLD),
            Line(f" {formatting.how(overview, self.desk.trouble, width - 2)}", TROUBLE if wrong else PLAIN),
        ]
        return [*head, *self.board.lines(width, max(1, height - len(head)))]

    def key_lines(self, width: int) -> list[str]:
        if self.typing:
            return ["Enter keep the filter   Escape show all"]
        paused = self.desk.overview is not None and self.desk.overview.status.paused
        pieces = [
            (4, "↑↓ select"),
            (10, "⏎ answer" if isinstance(self.board.chosen, Asked) else "⏎ details"),
            (8, "x cancel"),
            (8, "p resume" if paused else "p pause"),
            (7, "c copy client entry" if width > 100 else "c copy"),
            (6, "t token"),
            (2, "g grants"),
            (2, "S sessions"),
            (1, "R rotate token"),
            (1, "n notices"),
            (0, "b bell off" if self.desk.bell else "b bell on"),
            (5, "/ filter"),
            (10, "? keys"),
            (10, "q leave"),
        ]
        return [keys_that_fit(pieces, width)]

    # Keys.

    def _push(self, screen: Room) -> None:
        self.app.push_screen(screen)

    def _open(self) -> None:
        chosen = self.board.chosen
        if isinstance(chosen, Asked):
            self._push(Prompt(self.desk, chosen.id))
        elif chosen is not None:
            self._push(CallPage(self.desk, chosen.id))

    def _order(self, method: str, params: object = None) -> None:
        async def send() -> None:
            await self.desk.order(method, params)

        self.desk.do(send)

    def _cancel(self) -> None:
        chosen = self.board.chosen
        if isinstance(chosen, Asked):
            self.desk.say("that call waits for your answer: Enter shows the question, and d there denies it")
        elif isinstance(chosen, LiveCall):
            number = chosen.id
            what = formatting.cut(f"{chosen.tool} {chosen.summary}", 120)
            self.confirm(f"cancel {what}?", lambda: self._order(CANCEL, Id(number)))
        else:
            self.desk.say("that call has ended" if chosen else "there is no call")

    def _pause(self) -> None:
        """Pausing at once: this is the switch that stops everything."""
        if self.desk.overview is not None and self.desk.overview.status.paused:
            self.confirm("resume: let new calls run again?", lambda: self._order(RESUME))
        else:
            self._order(PAUSE)

    def _rotate(self) -> None:
        async def rotate() -> None:
            try:
                prefix = await self.desk.ask(ROTATE, str)
            except ControlError as error:
                self.desk.say(str(error))
            else:
                self.desk.say(f"rotated: token {prefix} counts at once, the old one fails; c copies the new entry")

        text = "replace the token? Every client that has the old one is refused at once"
        self.confirm(text, lambda: self.desk.do(rotate))

    def _with_token(self, use: Callable[[str], None]) -> None:
        async def fetch() -> None:
            try:
                secret = await self.desk.ask(TOKEN, str)
            except ControlError as error:
                self.desk.say(str(error))
            else:
                use(secret)

        self.desk.do(fetch)

    def _copy(self, secret: str) -> None:
        if self.desk.overview is None:
            return
        entry = client_entry(Client.GENERIC, ENTRY_NAME, self.desk.overview.status.client_url, secret)
        self.app.copy_to_clipboard(msgspec.json.format(msgspec.json.encode(entry), indent=2).decode())
        self.desk.say(
            "the client entry, with the token in it, was given to the terminal's clipboard; "
            "where the terminal takes none, a2a-bridge mcp-json prints it"
        )

    def _show_token(self, secret: str) -> None:
        if self.app.screen is self:  # they may have gone elsewhere meanwhile, where it is not expected
            self._push(token_page(self.desk, secret))

    def _bell(self) -> None:
        self.desk.bell = not self.desk.bell
        self.desk.say(f"the bell is {'on' if self.desk.bell else 'off'}")

    # The filter.

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.typing:
            self.board.look_for(event.value)
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        needle = event.value
        self.stop_typing()
        self.board.look_for(needle)
        self.draw()

    def stop_typing(self) -> None:
        self.board.look_for("")
        super().stop_typing()
