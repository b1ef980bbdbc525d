"""The extension in omp's own directory: putting it there, taking it out, and what is there already."""

import os
import re
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from a2a_bridge.errors import InstallError
from a2a_bridge.hosts.omp.directories import Directories

FILE_NAME = "a2a-bridge.ts"
# The first line of what this package writes; a file without it is somebody else's.
MARK = "// a2a-bridge: written by `a2a-bridge omp install`. Changes are lost with the next one.\n"
_COMMAND = re.compile(r"^const COMMAND: string\[\] = (.*);$", re.MULTILINE)
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


def extension_file(where: Directories) -> Path:
    return where.extensions / FILE_NAME


def rendered(command: Sequence[str]) -> str:
    """The extension's source, with the command that starts this installation's bridge."""
    source = Path(__file__).with_name("extension.ts").read_text("utf-8")
    words = msgspec.json.encode(list(command)).decode()
    return MARK + _COMMAND.sub(lambda _: f"const COMMAND: string[] = {words};", source, count=1)


def inspect(file: Path, command: Sequence[str]) -> Found:
    """What lies in the extension's place. Raises InstallError when it cannot be read."""
    try:
        source = _source(file)
    except FileNotFoundError:
        if file.is_symlink():
            return Found(State.FOREIGN, f"a link to {os.readlink(file)}, which does not exist")
        return Found(State.ABSENT)
    except OSError as error:
        raise InstallError(f"{file} cannot be read: {error.strerror}") from None
    if source is None or not source.startswith(MARK):
        return Found(State.FOREIGN)
    starts = _starts(source)
    if broken := _why_not(starts):
        return Found(State.BROKEN, broken)
    if source == rendered(command):
        return Found(State.CURRENT, f"starts {' '.join(starts)}")
    if starts != list(command):
        return Found(State.OUTDATED, f"it starts another installation: {' '.join(starts)}")
    return Found(State.OUTDATED)


def install(file: Path, command: Sequence[str]) -> State:
    """Write the extension, in one step; what was there before. Raises InstallError, with the old file untouched."""
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
    return found.state


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


def originals(where: Directories) -> list[Path]:
    """Extensions and plugins that seem to be the original bridge: two would lend one session twice."""
    extensions = [entry for entry in _entries(where.extensions) if entry.name != FILE_NAME]
    plugins = _entries(where.plugins / "node_modules")
    scoped = [package for scope in plugins if scope.name.startswith("@") for package in _entries(scope)]
    return [entry for entry in (*extensions, *plugins, *scoped) if _is_original(entry)]


def _source(file: Path) -> str | None:
    """A file's text; None for what is no file, or no text. Raises OSError."""
    if not stat.S_ISREG(file.stat().st_mode):
        return None  # a pipe would keep its reader waiting
    with suppress(UnicodeDecodeError):
        return file.read_text("utf-8")
    return None


def _starts(source: str) -> list[str]:
    found = _COMMAND.search(source)
    try:
        return msgspec.json.decode(found[1], type=list[str]) if found else []
    except msgspec.DecodeError:
        return []


def _why_not(starts: Sequence[str]) -> str:
    if not starts:
        return "it starts nothing"
    program = starts[0]
    if not os.path.exists(program):
        return f"it starts {program}, which does not exist"
    return (
        "" if os.path.isfile(program) and os.access(program, os.X_OK) else f"it starts {program}, which is no program"
    )


def _entries(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []


def _is_original(entry: Path) -> bool:
    try:
        is_directory = stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return False
    if is_directory:
        within = [entry / "package.json", *_sources(entry), *_sources(entry / "src")]
    else:
        within = [entry] if entry.suffix in _SOURCES else []
    return any(_says_so(file) for file in within)


def _sources(directory: Path) -> list[Path]:
    return [file for file in _entries(directory) if file.suffix in _SOURCES]


def _says_so(file: Path) -> bool:
    try:
        source = _source(file) if file.stat().st_size <= _MOST_SOURCE_BYTES else None
    except OSError:
        return False
    return source is not None and not source.startswith(MARK) and _ORIGINAL.search(source) is not None
