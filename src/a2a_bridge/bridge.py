"""The only road for a call: start record → exposure → host → done record (M5, M6, L1, L5).

The bridge is where a name is judged exposed, where a call is counted in flight, and where its audit
records are written. It runs a call inside the task that asks for it, so cancelling that task (the
connection closed) cancels the work; `cancel` and `stop` end it from outside and give the caller an answer.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from a2a_bridge.audit.redaction import shown_arguments
from a2a_bridge.errors import ToolError, UnknownTool, Withdrawn, described
from a2a_bridge.exposure import Exposure
from a2a_bridge.tool import Call, Host, Result, Tool, failure

CANCELLED_BY_CALLER = "cancelled by the caller"
STOPPING = "cancelled: the bridge is shutting down"
# After the grace, how long the cancelled calls get to unwind before the bridge goes on without them.
UNWIND_SECONDS = 2.0


class Audit(Protocol):
    """Where the two records of a call go; see `audit.Journal`."""

    def start(self, call_id: str, session: str, tool: str, args: str) -> None: ...

    def done(self, call_id: str, session: str, tool: str, args: str, is_error: bool) -> None: ...


class Outcome(Enum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Running(msgspec.Struct, eq=False):
    """A call in flight. `began` is in seconds of the bridge's clock, `args` as the audit log shows them;
    `key` is what its caller knows it by, and `reason` the answer when it was ended from outside."""

    call: Call
    tool: str
    args: str
    began: float
    task: asyncio.Task[object] | None
    key: bytes
    reason: str = ""


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A call that has ended, for whoever watches. `seconds` is how long it took."""

    call: Call
    tool: str
    args: str
    seconds: float
    outcome: Outcome


class Bridge:
    """Runs calls against one host, on the event loop in which it is made. `report` gets lines for the owner,
    `watch` every settled call."""

    def __init__(
        self,
        host: Host,
        exposure: Exposure,
        audit: Audit,
        new_id: Callable[[], str],
        report: Callable[[str], None],
        watch: Callable[[Settled], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self._exposure = exposure
        self._audit = audit
        self._new_id = new_id
        self._report = report
        self._watch = watch
        self._clock = clock
        self._running: dict[str, Running] = {}
        self._listed: tuple[Sequence[Tool], Sequence[Tool]] = ((), ())
        self._stopping = False
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def exposes(self, name: str) -> bool:
        """Whether a tool of that name may be called, if the host has it."""
        return self._exposure.allows(name)

    async def tools(self) -> Sequence[Tool]:
        """The exposed part of the host's registry, as it is now (M3); the same object while that has not changed."""
        registry = await self.host.tools()
        known, visible = self._listed
        # Only a tuple can be trusted to be what it was when it is the same object.
        if registry is not known or not isinstance(registry, tuple):
            visible = self._exposure.visible(registry)
            self._listed = (registry, visible)
        return visible

    async def call(self, session: str, client: str, name: str, arguments: object, key: bytes = b"") -> Result:
        """Run one call to its end. `key` is what `cancel` may know it by.

        Whatever the tool does becomes a result; only the cancelling of this very task is passed on.
        """
        call = Call(self._new_id(), session, client)
        args = shown_arguments(arguments)
        running = Running(call, name, args, self._clock(), asyncio.current_task(self._loop), key)
        self._audit.start(call.id, session, name, running.args)
        self._running[call.id] = running
        try:
            result = await self._run(call, name, arguments)
        except Withdrawn:
            if not running.reason:
                raise asyncio.CancelledError from None  # nothing ran, and nobody hears of it: no `done` (L5)
            result = failure(running.reason)
        except asyncio.CancelledError:
            if not running.reason:
                self._settle(running, is_error=True, outcome=Outcome.ABANDONED)
                raise
            result = failure(running.reason)
        finally:
            del self._running[call.id]
            if self._stopping and not self._running:
                self._idle.set()
        if running.reason and running.task is not None:
            running.task.uncancel()
            result = failure(running.reason)
        self._settle(running, result.is_error, Outcome.FAILED if result.is_error else Outcome.DONE)
        return result

    async def _run(self, call: Call, name: str, arguments: object) -> Result:
        if not self._exposure.allows(name):
            return failure(str(UnknownTool(name)))
        if self._stopping:
            return failure(STOPPING)
        try:
            return await self.host.call(name, arguments, call)
        except ToolError as refusal:
            return failure(str(refusal))
        except Withdrawn:
            raise
        except (Exception, SystemExit) as error:
            # A host may run anybody's code, and the contract promises the caller its message (M5).
            # It is no ToolError, so it is likely to be a bug that the owner should hear of too.
            self._report(f"tool '{name}' raised {described(error)}")
            return failure(str(error) or type(error).__name__)

    def _settle(self, running: Running, is_error: bool, outcome: Outcome) -> None:
        call = running.call
        self._audit.done(call.id, call.session, running.tool, running.args, is_error)
        if self._watch is not None:
            self._watch(Settled(call, running.tool, running.args, self._clock() - running.began, outcome))

    def running(self) -> list[Running]:
        """The calls in flight, the oldest first."""
        return list(self._running.values())

    def cancel(self, session: str, meant: Callable[[bytes], bool]) -> None:
        """End that session's calls whose key is meant; each answers that its caller cancelled it (M8)."""
        for running in self.running():
            if running.call.session == session and meant(running.key):
                _end(running, CANCELLED_BY_CALLER)

    async def stop(self, grace: float) -> None:
        """Take no more calls, give those in flight `grace` seconds, then end them, each with an answer."""
        self._stopping = True
        if await self._emptied(grace):
            return
        for running in self.running():
            _end(running, STOPPING)
        await self._emptied(UNWIND_SECONDS)

    async def _emptied(self, seconds: float) -> bool:
        if not self._running:
            return True
        self._idle.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


def _end(running: Running, reason: str) -> None:
    if not running.reason and running.task is not None:
        running.reason = reason
        running.task.cancel()
