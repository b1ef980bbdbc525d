"""omp as a person has it: started from a shell in a terminal, its keys pressed and its screen read through tmux."""

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.omp import Home, alive, children, tool, until
from tests.support.processes import Served

# For what omp draws. Long, because it only ever passes when something is broken.
DEADLINE = 20.0


class Terminal:
    """A shell in a terminal of its own, and omp in that. `began` is the screen when the bridge had come up."""

    def __init__(self, home: Home, width: int = 100, height: int = 40) -> None:
        self.home = home
        self.began = ""
        self.omp = self.bridge = 0
        # A name and not a path in the test's directory: a socket's path must be short.
        self._command = [tool("tmux"), "-u", "-L", f"a2a-{secrets.token_hex(6)}", "-f", os.devnull]
        size = ("-x", str(width), "-y", str(height))
        # A shell, because tmux itself wakes a child of its own that is stopped.
        told = "#{pid} #{pane_pid} #{socket_path}"
        server, shell, socket = self._tmux("new-session", "-d", *size, "-P", "-F", told, "sh", "-i").split()
        self.server, self.shell, self._socket = int(server), int(shell), Path(socket)

    def _tmux(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        return subprocess.check_output(command, text=True, env=self.home.env, cwd=self.home.work, timeout=20)

    def start(self) -> None:
        """Start omp, and wait until its bridge listens."""
        self.type("omp")
        self.press("Enter")
        self.began = self.shows("A2A http://", "A2A bridge listening on")
        (self.omp,) = children(self.shell)
        (self.bridge,) = children(self.omp, "a2a_bridge")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Down, C-c."""
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def shows(self, *words: str, lacks: Sequence[str] = ()) -> str:
        """Wait for a screen that has all these words, and none of those; the screen. omp breaks lines where it
        likes, so white space counts as one space; and it draws piece by piece, so a glimpse does not count."""
        before = ""

        def look() -> str:
            nonlocal before
            now = self.screen()
            fits = all(one in flat(now) for one in words) and not any(one in flat(now) for one in lacks)
            glimpsed, before = before, now if fits else ""
            return now if glimpsed and fits else ""

        try:
            return str(until(look, f"the screen shows {words} and lacks {lacks}", DEADLINE))
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows\n{self.screen()}") from None

    def served(self) -> Served:
        """The bridge, by its own word and its file."""
        status = json.loads(self.home.a2a("status", "--json").stdout)
        token = json.loads(self.home.config.read_text())["token"]
        return Served(status["url"], token, self.home.path, None)  # type: ignore[arg-type]

    def hang_up(self) -> None:
        """The terminal goes away, as when its window is closed."""
        self._tmux("kill-server")

    def end(self) -> None:
        """Hang up, if that has not happened; whatever ran here has to end with it."""
        omps = children(self.shell)
        bridges = [one for each in omps for one in children(each, "a2a_bridge")]
        started = {self.server, self.shell, self.omp, self.bridge, *omps, *bridges} - {0}
        if alive(self.server):
            self.hang_up()
        try:
            until(lambda: not any(map(alive, started)), "all that ran in the terminal has ended", 10)
        finally:
            self._socket.unlink(missing_ok=True)  # tmux leaves it
            for pid in filter(alive, started):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@contextmanager
def terminal(home: Home) -> Iterator[Terminal]:
    """omp in a terminal, with its bridge listening; both have ended when the block has."""
    one = Terminal(home)
    try:
        one.start()
        yield one
    finally:
        one.end()


def flat(screen: str) -> str:
    """The words of a screen, wherever its lines were broken."""
    return " ".join(screen.split())
