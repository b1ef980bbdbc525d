"""What a real shell does with a line, with no command reachable: the oracle that the reading of lines is held to."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# In bash every name leads to this stub: no directory is searched, no builtin is left. FUNCNEST ends recursion.
_PROFILE = """
command_not_found_handle() { ! /usr/bin/printf '%s\\0' $# "$@" >>"$STARTED"; }
FUNCNEST=4
PATH=/nonexistent
enable -n $(compgen -b | /bin/grep -vFx -e enable)
enable -n enable
"""
_STUB = """#!/bin/sh
/usr/bin/printf '%s\\0' $(($# + 1)) "${0##*/}" "$@" >>"$STARTED"
"""
# A line may loop for ever; then what it has started until then is looked at.
_SECONDS = 2.0


class Ran(NamedTuple):
    """The words of each command that was started, what the shell complained of, and which files it left."""

    started: list[list[str]]
    complaints: str
    left: list[str]


class Shells:
    """bash and dash in an empty directory. To dash only the names of `stubs` are known, besides its builtins."""

    stubs = ("s", "rm", "git")

    def __init__(self, home: Path) -> None:
        self._started, self._profile = home / "started", home / "profile"
        self._empty, self._stubs = home / "empty", home / "stubs"
        self._profile.write_text(_PROFILE)
        self._empty.mkdir()
        self._stubs.mkdir()
        for name in self.stubs:
            stub = self._stubs / name
            stub.write_text(_STUB)
            stub.chmod(0o700)

    def bash(self, line: str) -> Ran:
        return self._run(["/bin/bash", "--noprofile", "-c", "--", line], {"BASH_ENV": str(self._profile)})

    def dash(self, line: str) -> Ran:
        return self._run(["/bin/dash", "-c", line], {"PATH": str(self._stubs)})

    def _run(self, command: list[str], variables: dict[str, str]) -> Ran:
        self._started.write_bytes(b"")
        environment = {"STARTED": str(self._started), "LC_ALL": "C.UTF-8", **variables}
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._empty,
            env=environment,
            start_new_session=True,
        )
        try:
            _, complaints = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            complaints = b"[endless]"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        left = sorted(os.listdir(self._empty))
        for name in left:
            path = self._empty / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return Ran(list(_records(self._started.read_bytes())), complaints.decode(errors="replace"), left)


def _records(log: bytes) -> Iterator[list[str]]:
    words = iter(log.decode("utf-8", "surrogateescape").split("\0")[:-1])
    for number in words:
        yield [next(words) for _ in range(int(number))]
