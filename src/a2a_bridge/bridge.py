"""The only road for a call: start record → exposure → limits → approval → host → done record (M5, M6, L1, L5).

The bridge is where a name is judged exposed, where a call is counted in flight, and where its audit
records are written. It runs a call inside the task that asks for it, so cancelling that task (the
connection closed) cancels the work; `cancel`, `pause` and `stop` end it from outside and give the caller an answer.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from a2a_bridge.approval.requests import ApprovalRequest, Approvals, Permission
from a2a_bridge.audit.redaction import shown_arguments
from a2a_bridge.calls import ActiveCall, Confirm, FinishedCall, Outcome, nobody_hangs_up
from a2a_bridge.errors import ToolError, UnknownTool, Withdrawn, described
from a2a_bridge.exposure import Exposure
from a2a_bridge.limits import Limits
from a2a_bridge.tool import Access, Call, Host, Result, Text, Tool, failure

CANCELLED_BY_CALLER = "cancelled by the caller"
CANCELLED_BY_OWNER = "cancelled by the owner"
PAUSED = "paused by the owner; nothing runs until they resume. Ask them, or try again later"
STOPPING = "cancelled: the bridge is shutting down"
# What those get whose identical call was to run for theirs too, and was cancelled.
SHARED_FATE = "cancelled: the identical call that was to run for this one too was cancelled; call again"
SHARED = "[this ran once, for an identical call that waited for approval at the same time]"
# After the grace, how long the cancelled calls get to unwind before the bridge goes on without them.
UNWIND_SECONDS = 2.0


class Audit(Protocol):
    """Where the two records of a call go; see `audit.Journal`."""

    def start(self, call_id: str, session: str, tool: str, args: str) -> None: ...

    def done(self, call_id: str, session: str, tool: str, args: str, is_error: bool, decided: str) -> None: ...

    def flush_starts(self) -> None:
        """Puts on disk what is gathered, if a start is among it."""

    def flush(self) -> None:
        """Puts on disk what `start` and `done` have gathered."""


class Rules(NamedTuple):
    """What the owner has said about calls: which tools there are, when they are asked, how much is too much."""

    exposure: Exposure
    approvals: Approvals
    limits: Limits


class Bridge:
    """Runs calls against one host, on the event loop in which it is made. `report` gets lines for the owner,
    `watch` every settled call."""

    def __init__(
        self,
        host: Host,
        rules: Rules,
        audit: Audit,
        new_id: Callable[[], str],
        report: Callable[[str], None],
        watch: Callable[[FinishedCall], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self.paused = False
        self._exposure, self._approvals, self._limits = rules
        self._audit = audit
        self._new_id = new_id
        self._report = report
        self._watch = watch
        self._clock = clock
        self._running: dict[str, ActiveCall] = {}
        self._listed: tuple[Sequence[Tool], Sequence[Tool]] = ((), ())
        self._stopping = False
        self._idle = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # Puts the records of calls that have ended on disk; to be called before their results are sent.
        self.commit = audit.flush

    def exposes(self, name: str) -> bool:
        """Whether a tool of that name may be called, if the host has it."""
        return self._exposure.allows(name)

    async def tools(self) -> Sequence[Tool]:
        """The exposed part of the host's registry, as it is now (M3); the same object while that has not changed."""
        return self._visible(await self.host.tools())

    def known_tools(self) -> Sequence[Tool] | None:
        """The same where the host knows it without waiting; else None."""
        registry = self.host.known_tools
        if registry is self._listed[0] and isinstance(registry, tuple):
            return self._listed[1]
        return None if registry is None else self._visible(registry)

    def _visible(self, registry: Sequence[Tool]) -> Sequence[Tool]:
        known, visible = self._listed
        # Only a tuple can be trusted to be what it was when it is the same object.
        if registry is not known or not isinstance(registry, tuple):
            visible = self._exposure.visible(registry)
            self._listed = (registry, visible)
        return visible

    def begin(
        self,
        session: str,
        client: str,
        name: str,
        arguments: object,
        key: bytes = b"",
        address: str = "",
        confirm: Confirm = nobody_hangs_up,
    ) -> ActiveCall:
        """Begin one call, which `run` has to go on with in the same turn of the loop or the next. `key` is what
        `cancel` may know it by. The arguments are the bridge's from here on: what a person is shown is what runs.
        `confirm` returns when the caller has not hung up, and cancels the call's task otherwise.
        """
        call = Call(self._new_id(), session, client, address)
        args = shown_arguments(arguments)
        running = ActiveCall(call, name, arguments, args, self._clock(), None, key, confirm=confirm)
        self._audit.start(call.id, session, name, args)
        self._running[call.id] = running
        return running

    def run(self, running: ActiveCall) -> Result | Coroutine[Any, Any, Result]:
        """The result of a call that need not wait, or the coroutine that gets it, for a task of its own.

        Whatever the tool does becomes a result; only the cancelling of the awaiting task is passed on.
        """
        self._audit.flush_starts()  # the first of the calls that came together writes the records of all (L1)
        if running.reason or not self._approvals.policy.asks_nothing or self._limits.seconds:
            return self._complete(running)
        refused = self._refused(running)
        if refused:
            result = self._limits.within(failure(refused))
        else:
            try:
                outcome = self.host.call(running.tool, running.arguments, running.call)
            except (Exception, SystemExit) as error:
                result = self._failure(running, error)
            else:
                if not isinstance(outcome, Result):
                    return self._complete(running, outcome)
                result = self._limits.within(outcome)
        self._leave(running)
        self._settle(running, result, Outcome.FAILED if result.is_error else Outcome.DONE)
        return result

    async def call(self, session: str, client: str, name: str, arguments: object) -> Result:
        """`begin` and `run` in one."""
        outcome = self.run(self.begin(session, client, name, arguments))
        return outcome if isinstance(outcome, Result) else await outcome

    async def _complete(self, running: ActiveCall, work: Coroutine[Any, Any, Result] | None = None) -> Result:
        """The result of a call that waits, for its owner's answer or for `work`, which the host has begun."""
        running.task = asyncio.current_task(self._loop)
        try:
            if running.reason:
                if work is not None:
                    work.close()
                raise Withdrawn(running.reason)
            result = await (self._run(running) if work is None else self._work(running, work))
        except Withdrawn:
            if not running.reason:
                self._tell(running, Outcome.WITHDRAWN, None)
                raise asyncio.CancelledError from None  # nothing ran, and nobody hears of it: no `done` (L5)
            result = failure(running.reason)
        except asyncio.CancelledError:
            if not running.reason:
                self._settle(running, None, Outcome.ABANDONED)
                raise
            result = failure(running.reason)
        finally:
            self._leave(running)
            if running.reason and running.task is not None:
                running.task.uncancel()
            running.task = None  # the task keeps its last exception, whose traceback leads back here
        if running.reason:
            result = failure(running.reason)
        self._settle(running, result, Outcome.FAILED if result.is_error else Outcome.DONE)
        return result

    def _leave(self, running: ActiveCall) -> None:
        """It is active no more."""
        del self._running[running.call.id]
        if self._stopping and not self._running:
            self._idle.set()

    async def _run(self, running: ActiveCall) -> Result:
        """Past all that may refuse it, to the host. Raises CancelledError or Withdrawn."""
        refused = self._refused(running)
        if refused:
            return self._limits.within(failure(refused))
        if self._approvals.policy.asks_nothing:
            return await self._work(running)
        try:
            leave = await self._permission(running)
        except ToolError as refusal:
            return self._limits.within(failure(str(refusal)))
        if isinstance(leave, Result):
            return Result((*leave.content, Text(SHARED)), leave.is_error)
        result = failure(SHARED_FATE)
        try:
            # The answer came in the instant in which everything was stopped: that counts.
            stopped = STOPPING if self._stopping else PAUSED if self.paused else ""
            result = failure(stopped) if stopped else await self._work(running)
            return result
        finally:
            if leave is not None:
                leave.share(result)

    def _refused(self, running: ActiveCall) -> str:
        if not self._exposure.allows(running.tool):
            return str(UnknownTool(running.tool))
        if self._stopping:
            return STOPPING
        if self.paused:
            return PAUSED
        limits = self._limits
        if limits.calls or limits.session_calls:
            of_session = sum(one.call.session == running.call.session for one in self._running.values())
            return limits.too_many(len(self._running), of_session)
        return ""

    async def _permission(self, running: ActiveCall) -> Permission | Result | None:
        """Leave to run, or the result of an identical call that ran for both; None where nobody is ever asked.

        Raises Withdrawn when the call is cancelled while it waits for a person, and ToolError when it may not run.
        """
        try:
            access = self.host.access(running.tool, running.arguments)
        except ToolError:
            raise
        except Exception as error:  # anybody's code; what cannot be judged is asked about
            self._report(f"tool '{running.tool}': its access cannot be told: {described(error)}")
            access = Access()
        if access is None:
            return None
        judged = self._approvals.judge(running.call, running.tool, running.arguments, access)
        leave = judged if isinstance(judged, Permission) else await self._answer(judged, running)
        running.decided = leave.reason if isinstance(leave, Permission) else "with an identical call"
        return leave

    async def _answer(self, request: ApprovalRequest, running: ActiveCall) -> Permission | Result:
        """The owner's answer; the call waits for it."""
        running.request = request.id
        try:
            return await self._approvals.wait(request, running.call, running.confirm)
        except asyncio.CancelledError:
            if running.reason in (CANCELLED_BY_OWNER, PAUSED):
                self._approvals.drop(request)
            raise Withdrawn("withdrawn") from None
        finally:
            running.request = 0

    async def _work(self, running: ActiveCall, begun: Coroutine[Any, Any, Result] | None = None) -> Result:
        try:
            async with asyncio.timeout(self._limits.seconds or None) as limit:
                outcome = begun or self.host.call(running.tool, running.arguments, running.call)
                result = outcome if isinstance(outcome, Result) else await outcome
        except (TimeoutError, Withdrawn) as error:
            if limit.expired():
                return self._limits.within(failure(str(self._limits.overtime())))
            if isinstance(error, Withdrawn):
                raise
            return self._failure(running, error)
        except (Exception, SystemExit) as error:
            return self._failure(running, error)
        return self._limits.within(result)

    def _failure(self, running: ActiveCall, error: BaseException) -> Result:
        """What the caller gets of an error in a tool (M5)."""
        if isinstance(error, ToolError):
            return self._limits.within(failure(str(error)))
        # A host may run anybody's code, and the contract promises the caller its message. It is no ToolError, so it is
        # likely to be a bug that the owner should hear of too.
        self._report(f"tool '{running.tool}' raised {described(error)}")
        return self._limits.within(failure(str(error) or type(error).__name__))

    def _settle(self, running: ActiveCall, result: Result | None, outcome: Outcome) -> None:
        call, is_error = running.call, result is None or result.is_error
        self._audit.done(call.id, call.session, running.tool, running.args, is_error, running.decided)
        self._tell(running, outcome, result)

    def _tell(self, running: ActiveCall, outcome: Outcome, result: Result | None) -> None:
        if self._watch is not None:
            seconds = self._clock() - running.began
            one = running
            self._watch(
                FinishedCall(one.call, one.tool, one.arguments, one.args, seconds, outcome, one.decided, result)
            )

    def running(self) -> list[ActiveCall]:
        """The calls in flight, the oldest first."""
        return list(self._running.values())

    def waits(self, task: asyncio.Task[object] | None) -> bool:
        """Whether that task's call waits for the owner, so that nothing of it has run."""
        return any(one.request and one.task is task for one in self._running.values())

    def cancel(self, session: str, meant: Callable[[bytes], bool]) -> None:
        """End that session's calls whose key is meant; each answers that its caller cancelled it (M8)."""
        for running in self.running():
            if running.call.session == session and meant(running.key):
                _end(running, CANCELLED_BY_CALLER)

    def end_call(self, call_id: str) -> None:
        """End one call for the owner; it answers so. A call that has ended is left as it is."""
        running = self._running.get(call_id)
        if running is not None:
            _end(running, CANCELLED_BY_OWNER)

    def end_session(self, session: str) -> None:
        """What a session's end does to its calls: those that wait for the owner are withdrawn."""
        self._approvals.end_session(session)

    async def pause(self) -> int:
        """Stop everything now: running calls are cancelled, and new ones refused until `paused` is false again.
        How many ran."""
        self.paused = True
        self._approvals.withdraw_all("the owner paused the bridge", PAUSED)
        running = [one for one in self.running() if not one.request]
        for one in running:
            _end(one, PAUSED)
        tasks = {one.task for one in running if one.task is not None} - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
        await self.host.halt()
        return len(running)

    async def stop(self, grace: float) -> None:
        """Take no more calls, give those that run `grace` seconds, then end them, each with an answer. Those that
        wait for the owner are withdrawn at once."""
        self._stopping = True
        self._approvals.withdraw_all("the bridge stopped", STOPPING)
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


def _end(running: ActiveCall, reason: str) -> None:
    if not running.reason:
        running.reason = reason
        if running.task is not None:  # else it has not begun, and never will
            running.task.cancel()
