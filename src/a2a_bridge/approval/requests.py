"""The calls that wait for a person, what was asked earlier, and the answers (rule M7).

A request waits until it is answered, or nobody waits for it any more: then it is *withdrawn*: nothing of it runs, and
it stays for a while as asked earlier, because people are slower than clients. To approve it then leaves a grant for the
next identical call. A retry that comes while the first call still waits joins its request: a person is asked once, what
is approved runs once, and all who wait get its result.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol

import msgspec

from a2a_bridge.approval.fingerprint import Fingerprint, characters, fingerprint, written
from a2a_bridge.approval.grants import Grant, Grants, Kind
from a2a_bridge.approval.policy import Policy, Verdict
from a2a_bridge.errors import ControlError, Denied, NoAnswer, ToolError
from a2a_bridge.summary import summarize
from a2a_bridge.tool import Access, Call, Result

MOST_EARLIER = 100
MOST_EARLIER_BYTES = 16 * 1024 * 1024
EARLIER_SECONDS = 3600.0
MOST_ANSWERS = 1000
# Many more than there may be at once: only the last moment's count.
MOST_ENDED_SESSIONS = 1000
GAVE_UP = "it was cancelled, or its caller hung up"
SESSION_ENDED = "its session ended"
SESSION_ENDED_WORDS = f"withdrawn: {SESSION_ENDED}; nothing ran. Open a new session and call again"


class Timer(Protocol):
    """What `loop.call_later` gives."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class Permission(msgspec.Struct, eq=False):
    """Leave to run, and what gave it. `followers` are identical calls that get this one's result."""

    reason: str
    followers: "list[asyncio.Future[Permission | Result]]" = []

    def share(self, result: Result) -> None:
        """Give the result to those that wait for it too."""
        for follower in self.followers:
            if not follower.done():
                follower.set_result(result)


class Waiter(msgspec.Struct, eq=False):
    """One call that waits on a request."""

    call: Call
    answer: "asyncio.Future[Permission | Result]"


class ApprovalRequest(msgspec.Struct, eq=False):
    """One question to the owner. `arguments` are all that will run, as JSON, of `length` characters. `asked` and
    `ended` are in seconds of the clock; `withdrawn` says why it is one of the earlier ones, `grant` what an approval
    then left."""

    id: int
    tool: str
    arguments: bytes
    access: Access
    reason: str
    fingerprint: Fingerprint
    summary: str
    length: int
    call: Call
    asked: float
    waiters: list[Waiter]
    times: int = 1
    timer: Timer | None = None
    ended: float = 0.0
    withdrawn: str = ""
    grant: Grant | None = None


class Approvals:
    """Judges calls by the policy and keeps the questions that it leaves to a person.

    `timeout` is the most seconds that a call waits, None for no limit; `asked` is told of each new request.
    """

    def __init__(
        self,
        policy: Policy,
        grants: Grants,
        clock: Callable[[], float],
        timeout: float | None = None,
        grant_seconds: float = 600.0,
        later: CallLater | None = None,
    ) -> None:
        self.policy = policy
        self.grants = grants
        self.asked: Callable[[ApprovalRequest], None] = lambda _: None
        self._clock = clock
        self._timeout = timeout
        self._grant_seconds = grant_seconds
        self._later = later
        self._ids = count(1)
        self._waiting: dict[int, ApprovalRequest] = {}
        self._by_print: dict[Fingerprint, ApprovalRequest] = {}
        self._earlier: OrderedDict[int, ApprovalRequest] = OrderedDict()
        self._answered: OrderedDict[int, str] = OrderedDict()
        self._ended_sessions: OrderedDict[str, None] = OrderedDict()

    # The caller's side.

    def judge(self, call: Call, tool: str, arguments: object, access: Access) -> Permission | ApprovalRequest:
        """Leave to run, or the request that the call is to `wait` for. Raises Denied, or ToolError."""
        decision = self.policy.decide(tool, access)
        if decision.verdict is Verdict.DENY:
            raise Denied(f"{decision.reason}; nothing ran. Only the owner can change that; find another way")
        if decision.verdict is Verdict.ALLOW:
            return Permission(decision.reason)
        mark = fingerprint(call, tool, arguments, access)
        grant = self.grants.use(call, tool, mark)
        if grant is not None:
            self._forget_earlier(mark)
            return Permission(grant.reason)
        request = self._by_print.get(mark)
        return request or self._open(call, tool, arguments, access, decision.reason, mark)

    async def wait(
        self, request: ApprovalRequest, call: Call, confirm: Callable[[], Awaitable[None]]
    ) -> Permission | Result:
        """The owner's answer: leave to run, or the result of an identical call that ran for both.

        `confirm` is awaited before an approved call runs: it cancels the task of a call whose caller has hung up.
        Raises Denied, NoAnswer or ToolError. When the task is cancelled, the call has no part in the request any more,
        even if it was approved in the same instant: then the approval is kept for the next identical call.
        """
        waiter = Waiter(call, asyncio.get_running_loop().create_future())
        request.waiters.append(waiter)
        try:
            answer = await waiter.answer
            if isinstance(answer, Permission):
                await confirm()
                if call.session in self._ended_sessions:
                    self._pass_on(request, answer)
                    raise ToolError(SESSION_ENDED_WORDS)
            return answer
        except asyncio.CancelledError:
            self._give_up(request, waiter)
            raise
        finally:
            if waiter in request.waiters:
                request.waiters.remove(waiter)

    def end_session(self, session: str) -> None:
        """Withdraw what waits for the session, and end what was granted for it."""
        self.grants.end_session(session)
        self._ended_sessions[session] = None
        if len(self._ended_sessions) > MOST_ENDED_SESSIONS:
            self._ended_sessions.popitem(last=False)
        self._withdraw_where(lambda call: call.session == session, SESSION_ENDED, SESSION_ENDED_WORDS)

    def withdraw_all(self, why: str, words: str) -> None:
        """Let nothing wait any more. `words` are what the callers get."""
        self._withdraw_where(lambda _: True, why, words)

    def _withdraw_where(self, meant: Callable[[Call], bool], why: str, words: str) -> None:
        for request in self.waiting():
            leaving = [one for one in request.waiters if meant(one.call)]
            request.waiters = [one for one in request.waiters if one not in leaving]
            for waiter in leaving:
                _fail(waiter, ToolError(words))
            if leaving and not request.waiters:
                self._withdraw(request, why)

    def drop(self, request: ApprovalRequest) -> None:
        """The owner ended the call in the instant in which they approved it: the next identical one is not to run."""
        if request.grant is not None and request.grant.kind is Kind.ONCE:
            self.grants.revoke(request.grant.id)

    # The owner's side.

    def waiting(self) -> list[ApprovalRequest]:
        """The oldest first."""
        return list(self._waiting.values())

    @property
    def waits(self) -> int:
        return len(self._waiting)

    def earlier(self) -> list[ApprovalRequest]:
        """Withdrawn requests, the newest first."""
        limit = self._clock() - EARLIER_SECONDS
        while self._earlier and next(iter(self._earlier.values())).ended < limit:
            self._earlier.popitem(last=False)
        return list(reversed(self._earlier.values()))

    def find(self, request_id: int) -> ApprovalRequest:
        """A request that waits or was asked earlier. Raises ControlError."""
        self.earlier()
        found = self._waiting.get(request_id) or self._earlier.get(request_id)
        if found is None:
            was = self._answered.get(request_id, "there is none, or no longer")
            raise ControlError(f"request {request_id}: {was}; a2a-bridge approvals shows what waits")
        return found

    def approve(self, request_id: int, kind: Kind = Kind.ONCE) -> str:
        """Let it run, or the next identical call if it was withdrawn. What happened, in words. Raises ControlError."""
        request = self.find(request_id)
        if kind is not Kind.ONCE and request.call.session in self._ended_sessions:
            raise ControlError(
                f"request {request_id}: {SESSION_ENDED}; approve it once, for whoever makes that call again"
            )
        if request.withdrawn:
            return self._approve_earlier(request, kind)
        grant = self._grant(request, kind) if kind is not Kind.ONCE else None
        runs = self._run(request, f"approved by the owner{f' ({grant.reason})' if grant else ''}")
        if grant is None:
            return f"request {request.id} approved: {runs}"
        also = [one for one in self.waiting() if self._covered(one, grant)]
        for other in also:
            self._run(other, grant.reason)
        more = f"; so does {len(also)} more that waited" if also else ""
        return f"request {request.id} approved: {runs}{more}; {grant.reason} (a2a-bridge grants revoke {grant.id})"

    def deny(self, request_id: int, reason: str = "") -> str:
        """Refuse it. What happened, in words. Raises ControlError."""
        request = self.find(request_id)
        if request.withdrawn:
            del self._earlier[request.id]
            if request.grant is not None:
                self.grants.revoke(request.grant.id)
            self._answer(request, "denied")
            return f"request {request.id} was withdrawn before; it is forgotten"
        self._close(request)
        self._answer(request, "denied")
        why = f"{reason} (the owner's reason" if reason else "by the owner (who gave no reason"
        for waiter in request.waiters:
            _fail(waiter, Denied(f"{why}; nothing ran). Do not repeat the call as it is"))
        return f"request {request.id} denied"

    # Inside.

    def _open(
        self, call: Call, tool: str, arguments: object, access: Access, reason: str, mark: Fingerprint
    ) -> ApprovalRequest:
        now, number = self._clock(), next(self._ids)
        shown, summary = written(arguments), summarize(tool, arguments)
        length = characters(arguments)
        request = ApprovalRequest(number, tool, shown, access, reason, mark, summary, length, call, now, [])
        before = self._forget_earlier(mark)
        if before is not None:
            request.times = before.times + 1
        self._waiting[number] = self._by_print[mark] = request
        if self._timeout:
            later = self._later or asyncio.get_running_loop().call_later
            request.timer = later(self._timeout, lambda: self._expire(request))
        self.asked(request)
        return request

    def _forget_earlier(self, mark: Fingerprint) -> ApprovalRequest | None:
        for request in self._earlier.values():
            if request.fingerprint == mark:
                return self._earlier.pop(request.id)
        return None

    def _close(self, request: ApprovalRequest) -> None:
        """It waits no longer, whatever comes of it."""
        del self._waiting[request.id]
        del self._by_print[request.fingerprint]
        if request.timer is not None:
            request.timer.cancel()
            request.timer = None

    def _answer(self, request: ApprovalRequest, words: str) -> None:
        self._answered[request.id] = f"it has been {words}"
        while len(self._answered) > MOST_ANSWERS:
            self._answered.popitem(last=False)

    def _run(self, request: ApprovalRequest, reason: str) -> str:
        """Once, for the caller that asked last: an older one may have gone without a word."""
        self._close(request)
        self._answer(request, "approved")
        waiters = [one for one in request.waiters if not one.answer.done()]
        if not waiters:
            self._grant_once(request)
            return "its caller has just gone; the next identical call runs"
        *others, last = waiters
        last.answer.set_result(Permission(reason, [one.answer for one in others]))
        return "it runs"

    def _give_up(self, request: ApprovalRequest, waiter: Waiter) -> None:
        """The call is cancelled: it has to run for another that waits, or for none."""
        answer = waiter.answer
        if request.id in self._waiting and waiter in request.waiters:  # else it was told something else just before
            request.waiters.remove(waiter)
            if not request.waiters:
                self._withdraw(request, GAVE_UP)
        elif answer.done() and not answer.cancelled() and answer.exception() is None:
            leave = answer.result()
            if isinstance(leave, Permission):
                self._pass_on(request, leave)

    def _pass_on(self, request: ApprovalRequest, leave: Permission) -> None:
        waiting = [one for one in leave.followers if not one.done()]
        if waiting:
            *others, last = waiting
            last.set_result(Permission(leave.reason, others))
        else:
            self._grant_once(request)

    def _grant_once(self, request: ApprovalRequest) -> None:
        self._withdraw_closed(request, GAVE_UP)
        request.grant = self._grant(request, Kind.ONCE)

    def _expire(self, request: ApprovalRequest) -> None:
        waiters = list(request.waiters)
        self._withdraw(request, f"nobody answered within {self._timeout:g} s")
        for waiter in waiters:
            _fail(waiter, NoAnswer(self._timeout or 0, self._grant_seconds))

    def _withdraw(self, request: ApprovalRequest, why: str) -> None:
        self._close(request)
        self._withdraw_closed(request, why)

    def _withdraw_closed(self, request: ApprovalRequest, why: str) -> None:
        request.withdrawn, request.ended = why, self._clock()
        self._earlier[request.id] = request
        kept = sum(len(one.arguments) for one in self._earlier.values())
        while len(self._earlier) > MOST_EARLIER or kept > MOST_EARLIER_BYTES:
            _, gone = self._earlier.popitem(last=False)
            kept -= len(gone.arguments)

    def _approve_earlier(self, request: ApprovalRequest, kind: Kind) -> str:
        if request.grant is not None and request.grant in self.grants.all():
            raise ControlError(
                f"request {request.id}: it has been approved; grant {request.grant.id} waits for a retry"
            )
        request.grant = self._grant(request, kind)
        what = f"the next identical call within {self._grant_seconds:g} s" if kind is Kind.ONCE else kind
        return (
            f"request {request.id} was withdrawn before ({request.withdrawn}), so nothing runs now; "
            f"unasked runs {what} (grant {request.grant.id})"
        )

    def _grant(self, request: ApprovalRequest, kind: Kind) -> Grant:
        """For the session that the owner was shown, whoever else has joined since."""
        return self.grants.add(kind, request.call, request.tool, request.summary, request.fingerprint)

    def _covered(self, request: ApprovalRequest, grant: Grant) -> bool:
        return any(grant.covers(one.call, request.tool, request.fingerprint) for one in request.waiters)


def _fail(waiter: Waiter, error: ToolError) -> None:
    if not waiter.answer.done():
        waiter.answer.set_exception(error)
