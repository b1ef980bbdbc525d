"""Pages to read: a call in full, the token, the notices, the keys."""

from collections.abc import Sequence

from a2a_bridge.console import formatting
from a2a_bridge.console.base_screen import Act, Room
from a2a_bridge.console.connection import in_thread
from a2a_bridge.console.details import call_parts
from a2a_bridge.console.line import BOLD, DIM, Line
from a2a_bridge.console.state import Desk
from a2a_bridge.console.wrapped_text import Kind, Part, Passage
from a2a_bridge.control.messages import CALL, CallWhole, Id, call_number
from a2a_bridge.errors import ControlError
from a2a_bridge.terminal_text import exact

KEYS = """\
↑↓ j k PageUp PageDown Home End   select a row, or scroll
Home    let the list go again, and follow what is new
Enter   a question to answer, or a call in full
/       show only calls with these words; Escape shows all
x       cancel the selected call
p       pause: cancel what runs and refuse what comes; again: resume
c       copy the client entry, with the token, to the terminal's clipboard
t       show the token              R   replace the token
g       grants: what runs unasked   S   sessions
n       notices of the bridge       b   the bell on or off
q       leave; so does Ctrl-C

On a question
d   deny                            r   deny with a reason
a   approve once                    s   this very call, for the session
t   all of this tool, for the session; asks once more
n   the next question               Escape   back, without an answer

Marks
●   waits for your answer           ○   asked earlier; nobody waits now
…   runs                            ✓   done
✗   failed                          ⊘   its caller hung up or withdrew it
?   ended; how is not remembered
│   a line of quoted text           ┆   the same line, going on
\\u{1b}   a character that cannot be seen, by its number
"""


def scroll_keys(passage: Passage) -> dict[str, Act]:
    """The keys that scroll, the same on every page."""
    return {
        "up": lambda: passage.scroll(-1),
        "k": lambda: passage.scroll(-1),
        "down": lambda: passage.scroll(1),
        "j": lambda: passage.scroll(1),
        "pageup": lambda: passage.page(-1),
        "pagedown": lambda: passage.page(1),
        "home": passage.home,
        "end": passage.end,
    }


class Page(Room):
    """A title and a passage."""

    def __init__(self, desk: Desk, title: str, parts: Sequence[Part]) -> None:
        super().__init__(desk)
        self.heading = title
        self.read(Passage(parts))

    def read(self, passage: Passage) -> None:
        self.passage = passage
        self.keys = {**scroll_keys(passage), "escape": self.back, "q": self.back}

    def page(self, width: int, height: int) -> list[Line]:
        self.passage.fit(width - 2)
        body = self.passage.lines(max(1, height - 2))
        head = Line(f" {formatting.cut(self.heading, width - 2)}", BOLD)
        place = Line(formatting.rule(self.passage.place, width), DIM)
        return [head, place, *(Line(f" {line.text}", line.style) for line in body)]

    def key_lines(self, width: int) -> list[str]:
        return ["↑↓ PageUp PageDown Home End scroll   Escape back"]


class CallPage(Page):
    """A call in full. It is asked for again when the call ends."""

    def __init__(self, desk: Desk, call_id: str) -> None:
        super().__init__(desk, f"CALL {call_number(call_id)}", [Part(Kind.NOTE, "asking the bridge …")])
        self._call_id = call_id
        self._live = False

    def on_mount(self) -> None:
        self.desk.do(self._load)

    def follow(self) -> None:
        overview = self.desk.overview
        if self._live and overview is not None and all(one.id != self._call_id for one in overview.live):
            self._live = False
            self.desk.do(self._load)

    async def _load(self) -> None:
        try:
            whole = await self.desk.ask(CALL, CallWhole, Id(self._call_id))
        except ControlError as error:
            self.read(Passage([Part(Kind.NOTE, exact(str(error)))]))
        else:
            self._live = whole.call is not None
            began = self.desk.now() - (whole.call.seconds if whole.call is not None else 0)
            width = max(10, self.size.width - 2)
            self.read(await in_thread(lambda: _passage(call_parts(whole, began), width)))
        self.draw()


def _passage(parts: Sequence[Part], width: int) -> Passage:
    passage = Passage(parts)
    passage.fit(width)
    return passage


def token_page(desk: Desk, secret: str) -> Page:
    """The one place where the token is shown."""
    parts = [
        Part(Kind.NOTE, "Whoever has this token uses your tools. Close this before you share your screen."),
        Part(Kind.NOTE, ""),
        Part(Kind.QUOTED, exact(secret)),
    ]
    return Page(desk, "TOKEN, in full", parts)


def keys_page(desk: Desk) -> Page:
    return Page(desk, "KEYS AND MARKS", [Part(Kind.NOTE, KEYS)])


def notices_page(desk: Desk) -> Page:
    """All that the bridge has told its owner, as far as it is kept; the newest first."""
    notices = list(reversed(desk.overview.notices)) if desk.overview is not None else []
    parts = [Part(Kind.QUOTED, exact(notice)) for notice in notices] or [Part(Kind.NOTE, "there are none")]
    return Page(desk, "NOTICES, the newest first", parts)
