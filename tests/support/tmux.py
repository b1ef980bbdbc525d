"""A program on a terminal of its own: keys pressed and the screen read through tmux."""

import os
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.omp import alive, tool, until

# For what a program draws. Long, because it only ever passes when something is broken.
DEADLINE = 20.0


class Tmux:
    """One terminal, with `command` in it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, width: int, height: int) -> None:
        self._env, self._cwd = env, cwd
        # A name and not a path in the test's directory: a socket's path must be short.
        self._command = [tool("tmux"), "-u", "-L", f"a2a-{secrets.token_hex(6)}", "-f", os.devnull]
        size = ("-x", str(width), "-y", str(height))
        told = "#{pid} #{pane_pid} #{socket_path}"
        server, pane, socket = self._tmux("new-session", "-d", *size, "-P", "-F", told, *command).split()
        self.server, self.pane, self._socket = int(server), int(pane), Path(socket)

    def _tmux(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        return subprocess.check_output(command, text=True, env=self._env, cwd=self._cwd, timeout=20)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Down, C-c."""
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def title(self) -> str:
        return self._tmux("display-message", "-p", "#{pane_title}").rstrip("\n")

    def shows(self, *words: str, lacks: Sequence[str] = ()) -> str:
        """Wait for a screen that has all these words, and none of those; the screen. Programs break lines where they
        like, so white space counts as one space; and they draw piece by piece, so a glimpse does not count."""
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

    def hang_up(self) -> None:
        """The terminal goes away, as when its window is closed."""
        self._tmux("kill-server")

    def end(self, started: set[int]) -> None:
        """Hang up, if that has not happened; whatever was started here has to end with it."""
        mine = {self.server, self.pane, *started} - {0}
        if alive(self.server):
            self.hang_up()
        try:
            until(lambda: not any(map(alive, mine)), "all that ran in the terminal has ended", 10)
        finally:
            self._socket.unlink(missing_ok=True)  # tmux leaves it
            for pid in filter(alive, mine):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def flat(screen: str) -> str:
    """The words of a screen, wherever its lines were broken."""
    return " ".join(screen.split())
