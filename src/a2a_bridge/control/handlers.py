"""What the owner sees and orders: a running bridge's calls, questions, sessions and grants, as control messages."""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

import msgspec

from a2a_bridge.approval.grants import Grant, Kind
from a2a_bridge.approval.requests import ApprovalRequest, Approvals
from a2a_bridge.bridge import CANCELLED_BY_OWNER, Bridge
from a2a_bridge.calls import ActiveCall, CallHistory, RememberedCall, written
from a2a_bridge.control import messages
from a2a_bridge.errors import ControlError, ToolError
from a2a_bridge.peer import Handler
from a2a_bridge.sessions import Session, Sessions
from a2a_bridge.summary import summarize

MOST_ROWS = 100
MOST_EARLIER_ROWS = 20
MOST_NOTICES = 20
# A console asks four times a second; one that has not for so long is gone, or stands still.
ATTACHED_SECONDS = 5.0

# A question is shown without what it would change rather than not at all.
PREVIEW_SECONDS = 2.0

_KINDS = {"once": Kind.ONCE, "call": Kind.CALL, "tool": Kind.TOOL}

Item = TypeVar("Item")
StatusOf = Callable[[object], Any]


class Handlers:
    """Answers for one bridge. `notices` is where its last words to the owner are put."""

    def __init__(
        self, bridge: Bridge, sessions: Sessions, approvals: Approvals, ledger: CallHistory, clock: Callable[[], float]
    ) -> None:
        self.notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._bridge = bridge
        self._sessions = sessions
        self._approvals = approvals
        self._ledger = ledger
        self._clock = clock
        self._seen = -ATTACHED_SECONDS

    @property
    def attached(self) -> bool:
        """Whether somebody looks at a console."""
        return time.monotonic() - self._seen < ATTACHED_SECONDS

    def handlers(self, status: StatusOf) -> dict[str, Handler]:
        async def overview(params: object) -> messages.Overview:
            if msgspec.convert(params or {}, messages.Watching).attached:
                self._seen = time.monotonic()
            return self._overview(await status(None))

        return {
            messages.OVERVIEW: overview,
            messages.APPROVALS: self._asked,
            messages.APPROVAL: self._asked_whole,
            messages.APPROVE: self._approve,
            messages.DENY: self._deny,
            messages.CALLS: self._calls,
            messages.CALL: self._call,
            messages.CANCEL: self._cancel,
            messages.SESSIONS: self._session_rows,
            messages.END_SESSION: self._end_session,
            messages.PAUSE: self._pause,
            messages.RESUME: self._resume,
            messages.GRANTS: self._grant_rows,
            messages.REVOKE: self._revoke,
        }

    def _overview(self, status: messages.Status) -> messages.Overview:
        running = self._bridge.running()
        waiting = sum(one.request != 0 for one in running)
        earlier = self._approvals.earlier()
        asked = [*self._approvals.waiting()[:MOST_ROWS], *earlier[:MOST_EARLIER_ROWS]]
        return messages.Overview(
            status=status,
            running=len(running) - waiting,
            waiting=waiting,
            done=self._ledger.done,
            failed=self._ledger.failed,
            earlier=len(earlier),
            approvals=[self._question(request) for request in asked],
            live=[self._live(one) for one in islice(reversed(running), MOST_ROWS)],
            ended=[_ended(one) for one in self._ledger.last(MOST_ROWS)],
            sessions=self._rows(running),
            notices=[_well_formed(one) for one in self.notices],
        )

    # Questions.

    async def _asked(self, _: object) -> list[messages.Asked]:
        return [self._question(one) for one in (*self._approvals.waiting(), *self._approvals.earlier())]

    async def _asked_whole(self, params: object) -> messages.AskedWhole:
        request = self._approvals.find(msgspec.convert(params, messages.Number).id)
        arguments = request.arguments.decode()
        try:
            async with asyncio.timeout(PREVIEW_SECONDS):
                preview = await self._bridge.host.preview(request.tool, json.loads(request.arguments))
        except TimeoutError:
            preview = "[what it would change could not be told in time]"
        except ToolError as error:
            preview = f"it would fail: {error}"
        except Exception as error:  # anybody's code, and only for show
            preview = f"[what it would change cannot be told: {type(error).__name__}]"
        return messages.AskedWhole(self._question(request), arguments, _well_formed(preview))

    async def _approve(self, params: object) -> str:
        given = msgspec.convert(params, messages.Approval)
        return self._approvals.approve(given.id, _KINDS[given.scope])

    async def _deny(self, params: object) -> str:
        given = msgspec.convert(params, messages.Denial)
        return self._approvals.deny(given.id, given.reason.strip())

    def _question(self, request: ApprovalRequest) -> messages.Asked:
        call = request.call
        return messages.Asked(
            id=request.id,
            tool=request.tool,
            tier=request.access.tier,
            summary=request.summary,
            client=call.client,
            session=call.session,
            address=call.address,
            directory=_well_formed(request.access.directory),
            reason=request.reason,
            seconds=round(self._clock() - request.asked, 3),
            length=request.length,
            callers=len(request.waiters),
            times=request.times,
            withdrawn=request.withdrawn,
            granted=request.grant is not None and request.grant in self._approvals.grants.all(),
        )

    async def _grant_rows(self, _: object) -> list[messages.GrantRow]:
        now = self._clock()
        return [_grant(one, now) for one in self._approvals.grants.all()]

    async def _revoke(self, params: object) -> str:
        number = msgspec.convert(params, messages.Number).id
        grant = self._approvals.grants.revoke(number)
        if grant is None:
            raise ControlError(f"there is no grant {number}, or no longer; a2a-bridge grants lists them")
        return f"grant {number} revoked: {grant.tool} is asked about again"

    # Calls.

    async def _calls(self, _: object) -> list[messages.LiveCall]:
        return [self._live(one) for one in self._bridge.running()]

    async def _call(self, params: object) -> messages.CallWhole:
        given = msgspec.convert(params, messages.Id).id
        for running in self._bridge.running():
            if _is_call(given, running.call.id):
                return messages.CallWhole(self._live(running), None, written(running.arguments), "")
        for ended in self._ledger.last():
            if _is_call(given, ended.call.id):
                return messages.CallWhole(None, _ended(ended), ended.arguments, _well_formed(ended.result))
        raise ControlError(f"there is no call {given}, or it is not remembered any more; the audit log has all")

    async def _cancel(self, params: object) -> str:
        given = msgspec.convert(params, messages.Id).id
        running = _only([one for one in self._bridge.running() if _is_call(given, one.call.id)], given, "call")
        self._bridge.end_call(running.call.id)
        return f"call {messages.call_number(running.call.id)} cancelled: {running.tool}; its caller is told so"

    def _live(self, running: ActiveCall) -> messages.LiveCall:
        return messages.LiveCall(
            running.call.id,
            running.tool,
            summarize(running.tool, running.arguments),
            running.call.client,
            running.call.session,
            round(self._clock() - running.began, 3),
            running.request,
        )

    async def _pause(self, _: object) -> str:
        ended = await self._bridge.pause()
        calls = f"{ended} running call{'' if ended == 1 else 's'}"
        return f"paused: {calls} cancelled, background jobs ended, new calls refused until a2a-bridge resume"

    async def _resume(self, _: object) -> str:
        was, self._bridge.paused = self._bridge.paused, False
        return "resumed: new calls run again" if was else "it was not paused"

    # Sessions.

    async def _session_rows(self, _: object) -> list[messages.SessionRow]:
        return self._rows(self._bridge.running())

    async def _end_session(self, params: object) -> str:
        given = msgspec.convert(params, messages.Id).id
        session = _only([one for one in self._sessions.live() if _is_session(given, one.id)], given, "session")
        # Those that wait are withdrawn with the session; one that was approved in this very instant does not wait.
        waiting = {one.id for one in self._approvals.waiting()}
        running = [one for one in self._bridge.running() if one.call.session == session.id]
        calls = [one for one in running if one.request not in waiting]
        self._sessions.close(session.id.encode())
        for one in calls:
            self._bridge.end_call(one.call.id)
        ended = f", {len(calls)} of its calls {CANCELLED_BY_OWNER}" if calls else ""
        return f"session {messages.session_start(session.id)} ended{ended}; its client may open a new one"

    def _rows(self, running: list[ActiveCall]) -> list[messages.SessionRow]:
        calls = Counter(one.call.session for one in running)
        return [self._row(one, calls[one.id]) for one in self._sessions.live()]

    def _row(self, session: Session, calls: int) -> messages.SessionRow:
        opened, seen = self._sessions.ages(session)
        return messages.SessionRow(session.id, session.client, session.address, round(opened, 1), round(seen, 1), calls)


def _ended(one: RememberedCall) -> messages.EndedCall:
    return messages.EndedCall(
        one.call.id,
        one.tool,
        one.summary,
        one.call.client,
        one.call.session,
        one.at,
        round(one.seconds, 6),
        one.outcome.value,
        one.decided,
    )


def _grant(one: Grant, now: float) -> messages.GrantRow:
    left = None if one.until is None else round(one.until - now, 1)
    return messages.GrantRow(one.id, one.kind.value, one.tool, one.summary, one.client, one.session, left)


def _is_call(given: str, call_id: str) -> bool:
    return given in (call_id, messages.call_number(call_id))


def _is_session(given: str, session_id: str) -> bool:
    return given in (session_id, messages.session_start(session_id))


def _well_formed(text: str) -> str:
    """Half a surrogate pair, which a host's text may hold, becomes U+FFFD, as on its way to a caller: commands and
    consoles could not read the whole answer else."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _only(meant: list[Item], given: str, what: str) -> Item:
    """Raises ControlError when it is not one."""
    if len(meant) == 1:
        return meant[0]
    trouble = f"there is no {what} {given}, or no longer" if not meant else f"{len(meant)} {what}s fit {given}"
    raise ControlError(f"{trouble}; a2a-bridge {what}s lists them")
