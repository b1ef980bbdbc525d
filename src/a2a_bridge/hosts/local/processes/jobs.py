"""Commands in the background: a table of them, each at work or ended, until the bridge ends."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.processes.output import Output

MOST_RUNNING = 32
# Ended ones stay to be asked; of more than these the oldest are forgotten, and their output with them.
MOST_ENDED = 50


class Job:
    """One command in the background. `status` is its exit status once it has ended (negative: by that signal)
    and stays None for one whose time was up; `trouble` says why it could not run, or who ended it."""

    def __init__(self, number: int, line: str, output: Output, stdin: int, clock: Callable[[], float]) -> None:
        self.number = number
        self.line = line
        self.output = output
        self.status: int | None = None
        self.trouble = ""
        self.timeout: float | None = None
        self._stdin = stdin
        self._stepped = asyncio.Event()
        self._writing = asyncio.Lock()
        self._ready = asyncio.Event()  # its input takes more, or has been closed
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._task: asyncio.Task[None] | None = None
        os.set_blocking(stdin, False)

    @property
    def running(self) -> bool:
        return self._ended is None

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self._clock() if self._ended is None else self._ended) - self._began

    def start(self, work: Coroutine[Any, Any, int | None], timeout: float | None) -> None:
        self.timeout = timeout
        self._task = asyncio.create_task(self._carry(work))

    async def begun(self, started: asyncio.Event) -> None:
        """Until its process has begun, or could not. If nobody waits for that any more, it is ended."""
        waiting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait([waiting, *([self._task] if self._task else [])], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.kill()
            raise
        finally:
            waiting.cancel()

    async def _carry(self, work: Coroutine[Any, Any, int | None]) -> None:
        self._stepped.set()
        try:
            self.status = await work
        except (ToolError, OSError) as error:
            self.trouble = str(error)
        except asyncio.CancelledError:
            self.trouble = "killed"
        finally:
            self._ended = self._clock()
            self.close_input()

    async def wait(self, seconds: float | None = None) -> None:
        """Until it has ended, at most so long."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    async def kill(self) -> None:
        """End it and all that it has started."""
        if self._task is not None and not self._task.done():
            await self._stepped.wait()  # a task that is cancelled before its first step runs no `finally`
            self._task.cancel()
            await asyncio.wait([self._task])

    async def input(self, text: bytes, seconds: float) -> int:
        """Write to its standard input; how many bytes were taken in that time. One caller after the other.
        Raises ToolError."""
        taken = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._writing:
                while taken < len(text) and self._open():
                    try:
                        taken += os.write(self._stdin, text[taken:])
                    except BlockingIOError:
                        await self._writable()
                    except BrokenPipeError:
                        raise ToolError(
                            f"job {self.number} has closed its standard input; {taken} bytes were taken"
                        ) from None
        return taken

    def _open(self) -> bool:
        if self._stdin < 0:
            raise ToolError(f"job {self.number}: its standard input is closed")
        return True

    async def _writable(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._stdin
        self._ready.clear()
        loop.add_writer(descriptor, self._ready.set)
        try:
            await self._ready.wait()
        finally:
            if descriptor == self._stdin:  # else it is closed, and its number may be another's by now
                loop.remove_writer(descriptor)

    def close_input(self) -> None:
        """The command finds the end of its input."""
        if self._stdin >= 0:
            descriptor, self._stdin = self._stdin, -1
            asyncio.get_running_loop().remove_writer(descriptor)
            os.close(descriptor)
            self._ready.set()


class Jobs:
    """The table. `clock` gives seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[int, Job] = {}
        self._last = 0

    @property
    def running(self) -> int:
        return sum(job.running for job in self._jobs.values())

    def all(self) -> list[Job]:
        return list(self._jobs.values())

    def add(self, line: str, output: Output) -> tuple[Job, int]:
        """A new job and the descriptor that is to be its standard input. Raises ToolError when there are too many."""
        if self.running >= MOST_RUNNING:
            raise ToolError(f"{MOST_RUNNING} jobs are running, and no more may; list them, and wait for or kill one")
        self._forget()
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise ToolError(f"no command can be started: {error.strerror}") from None
        self._last += 1
        job = Job(self._last, line, output, writing, self._clock)
        self._jobs[job.number] = job
        return job, reading

    def find(self, number: int) -> Job:
        """Raises ToolError that names the jobs there are."""
        job = self._jobs.get(number)
        if job is None:
            there = ", ".join(map(str, self._jobs)) or "none"
            raise ToolError(f"there is no job {number}; there are: {there}")
        return job

    def _forget(self) -> None:
        ended = [job for job in self._jobs.values() if not job.running]
        for job in ended[: max(0, len(ended) - MOST_ENDED)]:
            job.output.discard()
            del self._jobs[job.number]

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(job.kill() for job in self._jobs.values()))
