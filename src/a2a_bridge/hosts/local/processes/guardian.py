"""The guardian: a shell of a few lines that outlives the bridge just long enough to end what it started.

Each command tells the guardian its session before it begins. The guardian reads from a pipe whose
writing end the bridge holds; when the bridge is gone, however it went, the pipe ends and the guardian
kills every session that has not been struck off its list, and every process that bears the bridge's
mark (without /proc, as on macOS: each session's first group). Then it removes the kept outputs.
"""

import contextlib
import os
import subprocess
from collections.abc import Sequence

from a2a_bridge.hosts.local.processes.process_tree import MARK_VARIABLE, end, living

# Its first argument is the mark that all commands' marks begin with. Stopping comes before killing, as in `end`.
_GUARD = """
trap '' HUP INT TERM
sessions=' '
kept=
while read -r word what; do
  case $word in
    +) sessions="$sessions$what " ;;
    -) case $sessions in *" $what "*) sessions="${sessions%% $what *} ${sessions#* $what }" ;; esac ;;
    @) kept=$what ;;
  esac
done
for signal in STOP STOP STOP KILL KILL; do
  for session in $sessions; do kill -s $signal -- "-$session"; done
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } || continue
    set -- "$1" ${line##*) }
    case $sessions in *" $5 "*) process=${stat#/proc/}; kill -s $signal "${process%/stat}" ;; esac
  done
  for found in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
    process=${found#/proc/}; kill -s $signal "${process%/environ}"
  done
done
[ -n "$kept" ] && rm -rf -- "$kept"
"""
# How long the guardian gets for its last round. It needs milliseconds, unless somebody has stopped it.
RELEASE_SECONDS = 2.0
# The command's own first act, so that no moment lies between its birth and its being known: its standard error
# is the guardian's pipe until it takes over.
_ENROL = 'echo "+ $$" >&2 && exec "$@" 2>&1'


class Guardian:
    """Starts on first use. Not safe to share between threads. `mark` is how all commands' marks begin."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._kept: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._sessions: set[int] = set()
        self._lingering: set[int] = set()

    def enrolled(self, command: Sequence[str]) -> list[str]:
        """The command, wrapped so that it enrols itself. It must be started with `pipe()` as its stderr."""
        return ["/bin/sh", "-c", _ENROL, "sh", *command]

    def pipe(self) -> int:
        """The descriptor that an enrolling command needs as its stderr. Raises OSError."""
        if self._process is None or self._process.poll() is not None:
            self._release()
            reading, self._pipe = os.pipe()
            os.set_blocking(self._pipe, False)  # a guardian that is stopped reads nothing; we go on
            try:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARD, "sh", f"{MARK_VARIABLE}={self._mark}"],
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
            if self._kept is not None:
                self._tell(f"@ {self._kept}")
        return self._pipe

    def keep(self, session: int) -> None:
        """Remember a session that was started."""
        self._sessions.add(session)

    def settle(self, session: int) -> None:
        """The session's command has ended; strike it off, or later, when others of the session still live."""
        self._lingering.add(session)
        for ended in self._lingering - living(self._lingering):
            self._lingering.discard(ended)
            self._sessions.discard(ended)
            self._tell(f"- {ended}")

    def clear_away(self, directory: str) -> None:
        """Remove the directory, too, when the bridge is gone."""
        self._kept = directory
        self._tell(f"@ {directory}")

    def close(self) -> None:
        """End everything that was started and is still there, then the guardian itself."""
        if self._process is not None:
            end(self._sessions, self._mark)
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
