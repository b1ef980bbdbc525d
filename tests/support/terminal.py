"""omp as a person has it: started from a shell in a terminal, its keys pressed and its screen read through tmux."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.omp import Home, children
from tests.support.processes import Served
from tests.support.tmux import Tmux, flat

__all__ = ["Terminal", "flat", "terminal"]


class Terminal(Tmux):
    """A shell in a terminal of its own, and omp in that. `began` is the screen when the bridge had come up."""

    def __init__(self, home: Home, width: int = 100, height: int = 40) -> None:
        # A shell, because tmux itself wakes a child of its own that is stopped.
        super().__init__(["sh", "-i"], home.env, home.work, width, height)
        self.home = home
        self.began = ""
        self.omp = self.bridge = 0

    @property
    def shell(self) -> int:
        return self.pane

    def start(self) -> None:
        """Start omp, and wait until its bridge listens."""
        self.type("omp")
        self.press("Enter")
        self.began = self.shows("A2A http://", "A2A bridge listening on")
        (self.omp,) = children(self.shell)
        (self.bridge,) = children(self.omp, "a2a_bridge")

    def served(self) -> Served:
        """The bridge, by its own word and its file."""
        status = json.loads(self.home.a2a("status", "--json").stdout)
        token = json.loads(self.home.config.read_text())["token"]
        return Served(status["url"], token, self.home.path, None)  # type: ignore[arg-type]

    def leave(self) -> None:
        """Hang up, if that has not happened; whatever ran here has to end with it."""
        omps = children(self.shell)
        bridges = [one for each in omps for one in children(each, "a2a_bridge")]
        self.end({self.omp, self.bridge, *omps, *bridges})


@contextmanager
def terminal(home: Home) -> Iterator[Terminal]:
    """omp in a terminal, with its bridge listening; both have ended when the block has."""
    one = Terminal(home)
    try:
        one.start()
        yield one
    finally:
        one.leave()
