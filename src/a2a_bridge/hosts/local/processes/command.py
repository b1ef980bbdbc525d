"""One shell command from start to end: its merged output as it comes, and nothing of it left behind."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.processes.output import Output
from a2a_bridge.hosts.local.processes.process_tree import MARK_VARIABLE, end
from a2a_bridge.hosts.local.workspace import Workspace

# Each piece is reduced in one turn of the event loop.
READ_BYTES = 32 * 1024
# What a background process floods into the pipe after its command has ended must not keep the call open.
MOST_DRAINED_BYTES = 1024 * 1024
# A process stuck in the kernel (a dead network disk) does not even die; the call ends all the same.
REAP_SECONDS = 1.0


def shell() -> str:
    """bash where it is present, else sh."""
    return shutil.which("bash") or "/bin/sh"


class Command:
    """A command line, where it runs, and what becomes of its output."""

    def __init__(self, place: Workspace, line: str, directory: Path, environment: Mapping[str, str]) -> None:
        self.output = Output(place.output_files)
        self.line = line
        self.started = asyncio.Event()
        self._place = place
        self._directory = directory
        self._mark = place.mark()
        # Last, so that the command cannot be told to give up its mark.
        self._environment = {**environment, MARK_VARIABLE: self._mark}

    async def run(self, timeout: float | None, stdin: int = subprocess.DEVNULL) -> int | None:
        """Run it in a fresh shell and session. After `timeout` seconds, a cancel or any other end of this
        call everything that it has started is killed. It waits for the command, not for who inherits its output.

        Gives its exit status (negative: by that signal), or None when its time was up. Closes `stdin`, if
        that is a descriptor. Raises ToolError when the shell cannot be started.
        """
        try:
            reading, writing = os.pipe()
        except OSError as error:
            _close(stdin)
            raise ToolError(f"no command can be started: {error.strerror}") from None
        incoming = _Incoming(reading, self.output)
        try:
            process = await self._start(writing, stdin)
        except BaseException:
            incoming.close()
            raise
        self._place.guardian.keep(process.pid)
        self.started.set()
        status = None
        try:
            async with asyncio.timeout(timeout):
                status = await _ended(process)
        except TimeoutError:
            pass
        finally:
            try:
                if status is None:
                    end({process.pid}, f"{self._mark}\0")
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(_waited(process), REAP_SECONDS)
            finally:
                incoming.drain()
                self.output.finish()
                self._place.guardian.settle(process.pid)
        return status

    async def _start(self, writing: int, stdin: int) -> subprocess.Popen[bytes]:
        """Start it in a thread: entering a directory of a dead network disk takes for ever. Closes the descriptors.

        (The event loop's own way to start processes will not do: uvloop leaks the descriptors it is given
        into the child, and a child that holds the guardian's pipe keeps the guardian waiting.)
        """
        guarded = self._place.guardian.enrolled([shell(), "-c", "--", self.line])
        try:
            pipe = self._place.guardian.pipe()
        except OSError as error:
            _close(writing, stdin)
            raise ToolError(f"no command can be started: {error.strerror}") from None

        def start() -> subprocess.Popen[bytes]:
            try:
                return subprocess.Popen(
                    guarded,
                    stdin=stdin,
                    stdout=writing,
                    stderr=pipe,
                    cwd=self._directory,
                    env=self._environment,
                    start_new_session=True,
                )
            finally:
                _close(writing, stdin)

        def started_for_nobody(done: "Future[subprocess.Popen[bytes]]") -> None:
            if done.exception() is None:
                end({done.result().pid}, f"{self._mark}\0")
                done.result().wait()

        starting = self._place.threads.submit(start)
        try:
            return await asyncio.shield(asyncio.wrap_future(starting))
        except asyncio.CancelledError:
            starting.add_done_callback(started_for_nobody)
            raise
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolError(f"the shell could not be started in {self._directory}: {words}") from None


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:  # subprocess.DEVNULL is none
            os.close(descriptor)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit status, once it has ended (negative: by that signal)."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # macOS; an old kernel, or one behind a filter
        return await _waited(process)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()


async def _waited(process: subprocess.Popen[bytes]) -> int:
    """The same by a thread of its own, which goes on whatever becomes of this task: any number may wait for long."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def tell(status: int) -> None:
        if not ended.done():
            ended.set_result(status)

    def wait() -> None:
        status = process.wait()
        with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(tell, status)

    threading.Thread(target=wait, name="a2a-local-wait", daemon=True).start()
    return await ended


class _Incoming:
    """The reading end of a command's output."""

    def __init__(self, descriptor: int, output: Output) -> None:
        self._output = output
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._take)

    def _take(self) -> bool:
        """Read one piece. False at the end, or when there is none now."""
        try:
            piece = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self._loop.remove_reader(self._descriptor)
            return False
        self._output.feed(piece)
        return True

    def drain(self) -> None:
        """Take what is in the pipe now, and no more."""
        for _ in range(MOST_DRAINED_BYTES // READ_BYTES):
            if not self._take():
                break
        self.close()

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
