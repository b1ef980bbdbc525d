"""Where the local tools work: their directory, their threads, their processes."""

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TypeVar

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.path_text import quote_name, unquote_path
from a2a_bridge.hosts.local.processes.guardian import Guardian
from a2a_bridge.hosts.local.processes.jobs import Jobs
from a2a_bridge.hosts.local.processes.output_files import Kept
from a2a_bridge.tool import Access, Tier

# Reads that hang on a dead network disk hold a thread each; this many may, before other reads wait.
MAX_THREADS = 64
# Reading keeps a core busy, and each reader takes its turns from the event loop; few suffice.
MAX_READERS = 16

# A question that pops up on the owner's desktop would keep a command waiting for somebody who does not know of it.
_UNASKING = {"SSH_ASKPASS_REQUIRE": "never", "GIT_TERMINAL_PROMPT": "0"}

Value = TypeVar("Value")
Stopped = Callable[[], bool]


def _encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


class Workspace:
    """One local host's surroundings, shared by its tools."""

    def __init__(
        self, directory: Path, max_command_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`longest` is the most seconds that a command may run, None for any number."""
        self.directory = directory
        self.max_command_seconds = max_command_seconds
        self._name = secrets.token_hex(8)
        self._marks = count(1)
        self.guardian = Guardian(f"{self._name}.")
        self.output_files = Kept(self.guardian.clear_away)
        self.jobs = Jobs(clock)
        self.closed = False
        self.threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="a2a-local")
        self._readers = ThreadPoolExecutor(MAX_READERS, thread_name_prefix="a2a-local-read")

    def path(self, text: str) -> Path:
        """A path from a caller: `~` expands, a relative one starts at the host's directory, and a name may be
        written as it was shown. Raises ToolError."""
        if "\0" in text:
            raise ToolError(f"path {text!r} holds a NUL character; no file can have such a name")
        if not _encodable(text):
            raise ToolError(f"path {text!r} holds half a character (a lone surrogate); no file can have such a name")
        try:
            # Only as the first character: Path forgets the dot of `./~name`.
            path = Path(unquote_path(text))
            return self.directory / (path.expanduser() if text.startswith("~") else path)
        except RuntimeError:
            raise ToolError(f"path {text!r}: there is no such user's home directory") from None

    def access(self, tier: Tier, path: str = ".") -> Access:
        """What a call that does no more than this would do, here, with that path. Raises ToolError for one that no
        file can have."""
        self.path(path)
        return Access(tier, quote_name(str(self.directory)))

    async def is_directory(self, path: Path) -> bool:
        """Looked up off the loop: a dead network disk may never answer."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, os.path.isdir, path)

    async def in_thread(self, work: Callable[[Stopped], Value]) -> Value:
        """Run blocking file work off the loop. `work` gets a function that turns true when nobody waits any more."""
        stopped = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, work, stopped.is_set)
        finally:
            stopped.set()

    def mark(self) -> str:
        """A new command's mark, unlike that of any other command of any bridge."""
        return f"{self._name}.{next(self._marks)}"

    def environment(self) -> dict[str, str]:
        """What a command inherits: all but the bridge's own settings and what would ask at the owner's screen."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("A2A_BRIDGE_")}
        inherited.pop("SSH_ASKPASS", None)  # git takes it too
        return inherited | _UNASKING

    def close(self) -> None:
        self.closed = True
        self.guardian.close()
        self.output_files.close()
        for pool in (self.threads, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)
