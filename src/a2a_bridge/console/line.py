"""A line of a screen as text and style, and the widget that draws such lines: nothing in them is ever markup."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from a2a_bridge.terminal_text import escape

PLAIN = Style()
BOLD = Style(bold=True)
DIM = Style(dim=True)
CHOSEN = Style(reverse=True)
URGENT = Style(bold=True, color="yellow")
URGENT_CHOSEN = Style(bold=True, color="yellow", reverse=True)
TROUBLE = Style(bold=True, color="red")


class Line(NamedTuple):
    """One line. The style only repeats what its words and marks say."""

    text: str
    style: Style = PLAIN


class Canvas(Widget):
    """Draws lines from its top; only those that have changed."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Line] = ()

    @property
    def text(self) -> str:
        """All that is drawn."""
        return "\n".join(escape(line.text) for line in self._lines)

    def show(self, lines: Sequence[Line]) -> None:
        both = enumerate(zip_longest(self._lines, lines))
        changed = [Region(0, y, self.size.width, 1) for y, (before, after) in both if before != after]
        self._lines = lines
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else Line("")
        base = self.rich_style
        # Whatever a caller has forgotten: no control character leaves this process.
        drawn = Strip([Segment(escape(line.text), base + line.style)])
        return drawn.adjust_cell_length(self.size.width, base + line.style)
