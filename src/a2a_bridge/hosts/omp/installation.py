"""The extension in omp's own directory: where that is, putting it there, and what is there already.

The directory is found as omp finds it: its agent directory is `~/.omp/agent`, moved by `PI_CODING_AGENT_DIR`,
by `PI_CONFIG_DIR` (a name below the home directory), or by a profile (`OMP_PROFILE`, `PI_PROFILE`, `--profile`).
"""

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from a2a_bridge.errors import InstallError

FILE_NAME = "a2a-bridge.ts"
# The first line of what this package writes; a file without it is somebody else's.
MARK = "// a2a-bridge: written by `a2a-bridge omp install`. Changes are lost with the next one.\n"
_COMMAND = re.compile(r"^const COMMAND: string\[\] = (\[.*\]);$", re.MULTILINE)
_PROFILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# What the original bridge's source says of itself, wherever it lies among omp's extensions.
_ORIGINAL = re.compile(r"a2a-bridge\.json|A2A bridge listening|omp-a2a-bridge")
_SOURCES = (".ts", ".js", ".mjs", ".tsx")
_MOST_SOURCE_BYTES = 1024 * 1024


class State(Enum):
    """What is found in the extension's place."""

    ABSENT = "not installed"
    CURRENT = "installed"
    OUTDATED = "of another version of the bridge"
    BROKEN = "broken"
    FOREIGN = "a file that is not ours"


class Found(NamedTuple):
    """The state, and what to say of it."""

    state: State
    detail: str = ""


def agent_directory(environ: Mapping[str, str], profile: str | None = None) -> Path:
    """omp's agent directory. Raises InstallError for a profile that omp refuses."""
    chosen = profile if profile is not None else environ.get("OMP_PROFILE", environ.get("PI_PROFILE", ""))
    chosen = chosen.strip()
    root = Path(environ.get("HOME") or Path.home()) / (environ.get("PI_CONFIG_DIR") or ".omp")
    if chosen and chosen != "default":
        if not _PROFILE.fullmatch(chosen) or chosen.endswith("."):
            raise InstallError(
                f"profile {chosen!r} is no name that omp takes; expected lower-case letters, digits, . _ and -"
            )
        return root / "profiles" / chosen / "agent"
    moved = environ.get("PI_CODING_AGENT_DIR")
    return Path(moved).absolute() if moved else root / "agent"


def extension_file(agent: Path) -> Path:
    return agent / "extensions" / FILE_NAME


def rendered(command: Sequence[str]) -> str:
    """The extension's source, with the command that starts this installation's bridge."""
    source = Path(__file__).with_name("extension.ts").read_text("utf-8")
    words = msgspec.json.encode(list(command)).decode()
    return MARK + _COMMAND.sub(lambda _: f"const COMMAND: string[] = {words};", source, count=1)


def inspect(file: Path, command: Sequence[str]) -> Found:
    """What lies in the extension's place. Raises InstallError when it cannot be read."""
    try:
        source = file.read_text("utf-8")
    except FileNotFoundError:
        if file.is_symlink():
            return Found(State.BROKEN, f"a link to {os.readlink(file)}, which does not exist")
        return Found(State.ABSENT)
    except (OSError, UnicodeDecodeError) as error:
        if file.is_dir() or isinstance(error, UnicodeDecodeError):
            return Found(State.FOREIGN)
        raise InstallError(f"{file} cannot be read: {error.strerror}") from None
    if not source.startswith(MARK):
        return Found(State.FOREIGN)
    found = _COMMAND.search(source)
    starts = msgspec.json.decode(found[1], type=list[str]) if found else []
    if not starts or not os.access(starts[0], os.X_OK):
        return Found(State.BROKEN, f"it starts {starts[0] if starts else 'nothing'}, which does not exist")
    if source == rendered(command):
        return Found(State.CURRENT, f"starts {' '.join(starts)}")
    if starts != list(command):
        return Found(State.OUTDATED, f"it starts another installation: {' '.join(starts)}")
    return Found(State.OUTDATED)


def install(file: Path, command: Sequence[str]) -> None:
    """Write the extension, in one step. Raises InstallError, with the old file untouched."""
    found = inspect(file, command)
    if found.state is State.FOREIGN:
        raise InstallError(f"{file} is not a file of this bridge, and is left as it is; move it away first")
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")  # omp does not load names that begin with a dot
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(rendered(command), "utf-8")
        os.replace(draft, file)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise InstallError(f"{file} cannot be written: {error.strerror}") from None


def uninstall(file: Path, command: Sequence[str]) -> bool:
    """Remove the extension; False when there is none. Raises InstallError when it is not ours to remove."""
    found = inspect(file, command)
    if found.state is State.ABSENT:
        return False
    if found.state is State.FOREIGN:
        raise InstallError(f"{file} is not a file of this bridge, and is left as it is")
    try:
        file.unlink()
    except OSError as error:
        raise InstallError(f"{file} cannot be removed: {error.strerror}") from None
    return True


def originals(agent: Path) -> list[Path]:
    """Extensions there that seem to be the original bridge: two would lend one session twice."""
    places = [agent / "extensions"]
    # A linked plugin lies beside the agent directory: ~/.omp/plugins, or a profile's own.
    places.append(agent.parent / "plugins" / "node_modules")
    return [entry for place in places for entry in _entries(place) if _is_original(entry)]


def _entries(place: Path) -> list[Path]:
    try:
        return sorted(entry for entry in place.iterdir() if entry.name != FILE_NAME)
    except OSError:
        return []


def _is_original(entry: Path) -> bool:
    if entry.is_dir():
        within = [entry / "package.json", *_sources(entry), *_sources(entry / "src")]
    else:
        within = [entry] if entry.suffix in _SOURCES else []
    return any(_says(file) for file in within)


def _sources(directory: Path) -> list[Path]:
    return [file for file in _entries(directory) if file.suffix in _SOURCES]


def _says(file: Path) -> bool:
    try:
        if file.stat().st_size > _MOST_SOURCE_BYTES:
            return False
        source = file.read_text("utf-8", "replace")
    except OSError:
        return False
    return not source.startswith(MARK) and _ORIGINAL.search(source) is not None
