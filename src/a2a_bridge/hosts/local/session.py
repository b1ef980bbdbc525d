"""The processes of a POSIX session, and ending them all.

A command is the leader of a session of its own. Its children may make process groups of their own within
it (`timeout` does, and job control), so a group is not enough to end them by; who calls `setsid` leaves.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path

# A process may fork while it is being found. Each round can only miss what was born during it.
MOST_ROUNDS = 10


def end(session: int) -> None:
    """Kill every process of the session, now."""
    known: set[int] = set()
    for _ in range(MOST_ROUNDS):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
        found = set(members({session}).get(session, ())) - known
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not found:
            return
        known |= found


def members(sessions: Collection[int]) -> dict[int, list[int]]:
    """The processes, zombies too, of those of the sessions that have any."""
    found: dict[int, list[int]] = {}
    for process in _processes():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            session = os.getsid(process)
            if session in sessions:
                found.setdefault(session, []).append(process)
    return found


def _processes() -> list[int]:
    if Path("/proc/self").exists():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [int(word) for word in subprocess.check_output(["/bin/ps", "-axo", "pid="]).split()]
