"""What is the same on every screen: lines and an input, keys as a table, questions, and the words above the keys."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rich.style import Style
from textual.app import ComposeResult
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widgets import Input

from a2a_bridge.console import formatting
from a2a_bridge.console.connection import ENDED
from a2a_bridge.console.line import BOLD, DIM, URGENT, Canvas, Line
from a2a_bridge.console.state import Desk
from a2a_bridge.terminal_text import escape

MOST_SAID_LINES = 3

Act = Callable[[], None]

# What works without a bridge: reading on, and leaving.
WITHOUT_BRIDGE = frozenset({"up", "down", "j", "k", "pageup", "pagedown", "home", "end", "escape", "q"})


class Question(NamedTuple):
    """Asked at the foot of a screen; only its answers and Escape are keys then."""

    text: str
    keys: str
    answers: Mapping[str, Act]


class Room(Screen[None]):
    """`keys` says what each key does. A key goes into the input while there is one, and nowhere else."""

    AUTO_FOCUS = ""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.keys: dict[str, Act] = {}
        self.question: Question | None = None
        self.canvas = Canvas()
        self.typed = Input(select_on_focus=False, compact=True)
        self.typed.display = False

    def compose(self) -> ComposeResult:
        yield self.canvas
        yield self.typed

    # To be said by each screen.

    def page(self, width: int, height: int) -> list[Line]:
        """All of the screen but its foot."""
        raise NotImplementedError

    def key_lines(self, width: int) -> list[str]:
        """The keys, in words."""
        raise NotImplementedError

    def follow(self) -> None:
        """The bridge has been looked at."""

    # Drawing.

    def draw(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        width, height = self.size.width, self.size.height - self.typing
        foot = self._foot(width)
        body = self.page(width, max(1, height - len(foot)))
        self.canvas.show([*body, *foot])

    def _foot(self, width: int) -> list[Line]:
        if self.question is not None:
            return [
                *_wrapped(f"? {self.question.text}", width, URGENT),
                Line(f"   {self.question.keys}   Escape not now", BOLD),
            ]
        said = _wrapped(self.desk.said, width, BOLD) if self.desk.said else []
        keys = [Line(f" {formatting.cut(text, width - 2)}") for text in self.key_lines(width - 2)]
        return [*said, Line(formatting.rule("", width), DIM), *keys]

    def on_resize(self, _: Resize) -> None:
        self.draw()

    def on_screen_resume(self) -> None:
        self.draw()

    # Keys.

    def on_key(self, event: Key) -> None:
        if self.typing:
            if event.key == "escape":
                event.stop()
                self.stop_typing()
            return
        event.stop()
        event.prevent_default()
        # A letter is itself, R and not shift+r; with a modifier it is another key, and none of ours.
        letter = event.character is not None and event.is_printable and "+" not in event.key
        self.pressed(event.character if letter and event.character else event.key)

    def pressed(self, key: str) -> None:
        """One key that was not typed into an input."""
        self.desk.heard()
        if self.question is not None:
            self._answered(self.question, key)
        elif key in self.keys:
            if self.desk.ended and key not in WITHOUT_BRIDGE:
                self.desk.say(f"{ENDED}; q leaves")
            else:
                self.keys[key]()
                self.draw()

    def ask(self, text: str, keys: str, answers: Mapping[str, Act]) -> None:
        self.question = Question(text, keys, answers)
        self.draw()

    def _answered(self, question: Question, key: str) -> None:
        if key != "escape" and key not in question.answers:
            return
        self.question = None
        if key in question.answers:
            question.answers[key]()
        self.draw()

    def confirm(self, text: str, yes: Act) -> None:
        """Do it after a yes."""
        self.ask(text, "y yes   n no", {"y": yes, "n": lambda: None})

    # Input.

    @property
    def typing(self) -> bool:
        return bool(self.typed.display)

    def start_typing(self, placeholder: str) -> None:
        self.typed.placeholder = placeholder
        self.typed.display = True
        self.set_focus(self.typed)  # at once: the next key is typed already
        self.draw()

    def stop_typing(self) -> None:
        """Without what was typed."""
        self.typed.display = False
        self.typed.value = ""
        self.set_focus(None)
        self.draw()

    # Leaving.

    def back(self) -> None:
        """To the screen below."""
        if self.app.screen is self:
            self.app.pop_screen()

    def leave(self) -> None:
        """The whole console."""
        if not self.desk.owns or self.desk.ended:
            self.app.exit(False)
            return
        if self.typing:
            self.stop_typing()
        self.ask(
            "leave: and stop the bridge too?",
            "y stop it   n let it run on",
            {"y": lambda: self.app.exit(True), "n": lambda: self.app.exit(False)},
        )


def _wrapped(text: str, width: int, style: Style) -> list[Line]:
    lines = textwrap.wrap(escape(text), max(10, width - 2)) or [""]
    if len(lines) > MOST_SAID_LINES:
        lines = [*lines[: MOST_SAID_LINES - 1], "".join(lines[MOST_SAID_LINES - 1 :])]
    return [Line(f" {formatting.cut(line, width - 2)}", style) for line in lines]


def keys_that_fit(pieces: Sequence[tuple[int, str]], width: int) -> str:
    """Keys in words; the least needed are left to `?` where there is no room."""
    return formatting.fitted([formatting.Piece(weight, text) for weight, text in pieces], width, "  ")
