"""The guardian: a shell of a few lines that outlives the bridge just long enough to end what it started.

Each command tells the guardian its process group before it begins. The guardian reads from a pipe whose
writing end the bridge holds; when the bridge is gone, however it went, the pipe ends and the guardian
kills every group that has not been struck off its list.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

_GUARD = """
trap '' HUP INT TERM
groups=' '
while read -r word group; do
  case $word in
    +) groups="$groups$group " ;;
    -) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""
# The command's own first act, so that no moment lies between its birth and its being known: fd 0 is the
# guardian's pipe until the command takes over.
_ENROL = 'echo "+ $$" >&0 && exec "$@" </dev/null'


class Guardian:
    """Starts on first use. Not safe to share between threads."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: set[int] = set()
        self._lingering: set[int] = set()

    def enrolled(self, command: Sequence[str]) -> list[str]:
        """The command, wrapped so that it enrols itself. It must be started with `pipe()` as its stdin."""
        return ["/bin/sh", "-c", _ENROL, "sh", *command]

    def pipe(self) -> int:
        """The descriptor that an enrolling command needs as its stdin. Raises OSError."""
        if self._process is None or self._process.poll() is not None:
            self._release()
            reading, self._pipe = os.pipe()
            try:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARD],
                    stdin=reading,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(reading)
            for group in self._groups:
                self._tell(f"+ {group}")
        return self._pipe

    def keep(self, group: int) -> None:
        """Remember a group that was started."""
        self._groups.add(group)

    def settle(self, group: int) -> None:
        """The group's command has ended; strike it off, or later, when others of the group still live."""
        self._lingering.add(group)
        for ended in [lingering for lingering in self._lingering if not _alive(lingering)]:
            self._lingering.discard(ended)
            self._groups.discard(ended)
            self._tell(f"- {ended}")

    def kill(self, group: int) -> None:
        """End every process of the group, now."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)

    def close(self) -> None:
        """End everything that was started and is still there, then the guardian itself."""
        for group in self._groups:
            self.kill(group)
        self._groups.clear()
        self._lingering.clear()
        self._release()

    def _release(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _tell(self, line: str) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):  # it has died; the next `pipe` starts another
                os.write(self._pipe, f"{line}\n".encode())


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
