"""Where the control sockets of this user's bridges are: one `<pid>.sock` each, in a directory of mode 0700."""

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from a2a_bridge.errors import ControlError

_SUFFIX = ".sock"
# sun_path holds 104 bytes on macOS and 108 on Linux; the file's own name needs some of them.
_LONGEST_DIRECTORY = 80


def directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_RUNTIME_DIR/a2a-bridge`, or a directory named after the user below the temporary one."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and len(os.fsencode(runtime)) <= _LONGEST_DIRECTORY - len("/a2a-bridge"):
        return Path(runtime) / "a2a-bridge"
    return Path(tempfile.gettempdir()) / f"a2a-bridge-{os.geteuid()}"


def own_socket(where: Path) -> Path:
    """The path for this process's socket, its directory made and found safe. Raises ControlError."""
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ControlError(f"{where} cannot be made: {error.strerror}") from None
    _check(where)
    return where / f"{os.getpid()}{_SUFFIX}"


def sockets(where: Path) -> list[Path]:
    """The sockets that lie there, of bridges alive or dead. Raises ControlError for an unsafe directory."""
    if not where.exists():
        return []
    _check(where)
    return sorted(where.glob(f"*{_SUFFIX}"))


def _check(where: Path) -> None:
    """Somebody else's directory could hold somebody else's bridge, which would be handed our secrets."""
    status = where.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise ControlError(f"{where} is not a directory that only this user may enter (mode 0700); remove it")
