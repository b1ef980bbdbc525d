"""The local host, in this process and in real ones. Here is what its tests share."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from a2a_bridge.cli.serve_loop import uvloop
from a2a_bridge.hosts.local import LocalHost
from a2a_bridge.hosts.local.host import TOOLS
from a2a_bridge.tool import Call, Result, Text

CALL = Call("id", "sid")
NAMES = [tool.definition.name for tool in TOOLS]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    **({"uvloop": uvloop.new_event_loop} if uvloop else {}),
}
# For what another process does. Long, because it only ever passes when something is broken.
DEADLINE = 20.0

NOBODY = 65534

Value = TypeVar("Value")


class Machine:
    """A local host on a loop of its own. The loop runs only while something is awaited."""

    def __init__(self, directory: Path, loop: str = "asyncio", max_command_seconds: float | None = None) -> None:
        self.directory = directory
        self.host = LocalHost(directory, max_command_seconds=max_command_seconds)
        self._runner = asyncio.Runner(loop_factory=LOOPS[loop])

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return self._runner.run(work)

    def bash(self, command: str, **arguments: Any) -> Result:
        return self.run(self.host.call("bash", {"command": command, **arguments}, CALL))

    def read(self, path: str | Path, **arguments: Any) -> str:
        return ok_text(self.run(self.host.call("read", {"path": str(path), **arguments}, CALL)))

    def guardian(self) -> int:
        """The guardian's process id."""
        return guardian_of(self.host)

    def close(self) -> None:
        try:
            self.run(self.host.close())
        finally:
            self._runner.close()


def guardian_of(host: LocalHost) -> int:
    process = host._workspace.guardian._process
    assert process is not None, "no command has run yet"
    return process.pid


def ok_text(result: Result) -> str:
    """The one text of a result that went well."""
    assert not result.is_error, result
    return result_text(result)


def result_text(result: Result) -> str:
    """The one text of a result, however it went."""
    (content,) = result.content
    assert isinstance(content, Text)
    return content.text


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to read everything. What pytest makes for root is then closed."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)


def alive(pid: int) -> bool:
    """Whether it still runs; one that is dead and waits for its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):  # no /proc, or gone by now: then the next look tells
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return True


def until(holds: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """Wait for another process's doing."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
        time.sleep(0.005)


async def soon(holds: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """The same while the loop goes on."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
        await asyncio.sleep(0.005)


def pids(file: Path) -> list[int]:
    """The process ids that commands have written into a file so far, whole lines only."""
    if not file.exists():
        return []
    return [int(word) for line in file.read_text().splitlines(True) if line.endswith("\n") for word in line.split()]


def all_gone(file: Path) -> None:
    """Every process of the file ends."""
    until(lambda: not [pid for pid in pids(file) if alive(pid)], f"the processes of {file} have ended")
