"""The processes that a command has started, and ending them all.

A command is the leader of a POSIX session of its own. Its children may make process groups of their own
within it (`timeout` does, and job control), so a group is not enough to find them by. Who calls `setsid`
leaves the session too, but on Linux keeps the environment that it was started with, and so the command's
mark; only a process that gives up both is not found.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

MARK_VARIABLE = "A2A_COMMAND"
# A process may fork while it is being found; each round finds what was born during the one before.
MOST_ROUNDS = 100


def end(sessions: Collection[int], mark: str) -> None:
    """Kill every process that is in one of the sessions or whose mark begins like this one.

    They are stopped first and killed when no more turn up: a stopped process does not fork, and a killed
    one makes room for others where their number is limited.
    """
    found: set[int] = set()
    for _ in range(MOST_ROUNDS):
        for session in sessions:
            _signal(os.killpg, session, signal.SIGSTOP)
        new = {*_in_sessions(sessions), *_marked(mark)} - found
        if not new:
            break
        for process in new:
            _signal(os.kill, process, signal.SIGSTOP)
        found |= new
    for session in sessions:
        _signal(os.killpg, session, signal.SIGKILL)
    for process in found:
        _signal(os.kill, process, signal.SIGKILL)


def living(sessions: Collection[int]) -> set[int]:
    """Those of the sessions that have a process, be it a zombie."""
    return {session for session in map(_session, _processes()) if session in sessions}


def _signal(send: Callable[[int, int], None], target: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(target, number)


def _in_sessions(sessions: Collection[int]) -> set[int]:
    return {process for process in _processes() if _session(process) in sessions}


def _session(process: int) -> int:
    try:
        return os.getsid(process)
    except OSError:  # it has ended
        return -1


def _marked(mark: str) -> set[int]:
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found = set()
    for process in _processes() if Path("/proc/self/environ").exists() else ():
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{process}/environ").read_bytes()
            if variables.startswith(wanted) or b"\0" + wanted in variables:
                found.add(process)
    return found - {os.getpid()}


def _processes() -> list[int]:
    if Path("/proc/self").exists():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [int(word) for word in subprocess.check_output(["/bin/ps", "-axo", "pid="]).split()]
