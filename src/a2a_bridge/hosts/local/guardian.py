"""The guardian: a shell of a few lines that outlives the bridge just long enough to end what it started.

Each command tells the guardian its session before it begins. The guardian reads from a pipe whose
writing end the bridge holds; when the bridge is gone, however it went, the pipe ends and the guardian
kills every session that has not been struck off its list (without /proc, as on macOS: its first group).
"""

import contextlib
import os
import subprocess
from collections.abc import Sequence

from a2a_bridge.hosts.local.session import end, members

_GUARD = """
trap '' HUP INT TERM
sessions=' '
while read -r word session; do
  case $word in
    +) sessions="$sessions$session " ;;
    -) case $sessions in *" $session "*) sessions="${sessions%% $session *} ${sessions#* $session }" ;; esac ;;
  esac
done
for round in 1 2 3; do
  for session in $sessions; do kill -s KILL -- "-$session"; done
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } || continue
    set -- ${line##*) }
    case $sessions in *" $4 "*) process=${stat#/proc/}; kill -s KILL "${process%/stat}" ;; esac
  done
done
"""
# How long the guardian gets for its last round. It needs milliseconds, unless somebody has stopped it.
RELEASE_SECONDS = 2.0
# The command's own first act, so that no moment lies between its birth and its being known: fd 0 is the
# guardian's pipe until the command takes over.
_ENROL = 'echo "+ $$" >&0 && exec "$@" </dev/null'


class Guardian:
    """Starts on first use. Not safe to share between threads."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._sessions: set[int] = set()
        self._lingering: set[int] = set()

    def enrolled(self, command: Sequence[str]) -> list[str]:
        """The command, wrapped so that it enrols itself. It must be started with `pipe()` as its stdin."""
        return ["/bin/sh", "-c", _ENROL, "sh", *command]

    def pipe(self) -> int:
        """The descriptor that an enrolling command needs as its stdin. Raises OSError."""
        if self._process is None or self._process.poll() is not None:
            self._release()
            reading, self._pipe = os.pipe()
            os.set_blocking(self._pipe, False)  # a guardian that is stopped reads nothing; we go on
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
            for session in self._sessions:
                self._tell(f"+ {session}")
        return self._pipe

    def keep(self, session: int) -> None:
        """Remember a session that was started."""
        self._sessions.add(session)

    def settle(self, session: int) -> None:
        """The session's command has ended; strike it off, or later, when others of the session still live."""
        self._lingering.add(session)
        for ended in self._lingering - members(self._lingering).keys():
            self._lingering.discard(ended)
            self._sessions.discard(ended)
            self._tell(f"- {ended}")

    def close(self) -> None:
        """End everything that was started and is still there, then the guardian itself."""
        for session in self._sessions:
            end(session)
        self._sessions.clear()
        self._lingering.clear()
        self._release()

    def _release(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._process is not None:
            try:
                self._process.wait(RELEASE_SECONDS)
            except subprocess.TimeoutExpired:  # somebody has stopped it
                self._process.kill()
                self._process.wait()
            self._process = None

    def _tell(self, line: str) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):  # it has died; the next `pipe` starts another
                os.write(self._pipe, f"{line}\n".encode())
