"""The calls that wait for a person: what lets one run, what withdraws it, and what an answer that comes late leaves."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from a2a_bridge.approval import requests
from a2a_bridge.approval.grants import Grants, Kind
from a2a_bridge.approval.policy import Mode, Policy
from a2a_bridge.approval.requests import EARLIER_SECONDS, ApprovalRequest, Approvals, Permission
from a2a_bridge.errors import ControlError, Denied, NoAnswer, ToolError
from a2a_bridge.tool import Access, Call, Result, Tier, failure, text

GRANT_SECONDS = 600.0
# How long this desk's callers take to be found present, in turns of the loop.
CONFIRM_TURNS = 6
TURNS = CONFIRM_TURNS + 8


class Alarm:
    """A timer that rings when the fake clock has passed it."""

    def __init__(self, at: float, ring: Callable[[], None]) -> None:
        self.at = at
        self.ring = ring
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Desk:
    """Approvals with a clock that stands until it is moved, and callers that do as the bridge does."""

    def __init__(self, mode: Mode = "always-ask", rules: dict[str, str] | None = None, timeout: float | None = None):
        self.now = 1000.0
        self.alarms: list[Alarm] = []
        self.ran: list[str] = []
        self.asked: list[int] = []
        self.release = asyncio.Event()
        self.release.set()
        self.grants = Grants(lambda: self.now, GRANT_SECONDS)
        self.approvals = Approvals(
            Policy(mode, rules), self.grants, lambda: self.now, timeout, GRANT_SECONDS, self._later
        )
        self.approvals.asked = lambda request: self.asked.append(request.id)
        self._calls = 0

    def _later(self, seconds: float, ring: Callable[[], None]) -> Alarm:
        self.alarms.append(Alarm(self.now + seconds, ring))
        return self.alarms[-1]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for alarm in [one for one in self.alarms if one.at <= self.now]:
            self.alarms.remove(alarm)
            if not alarm.cancelled:
                alarm.ring()

    def ask(
        self,
        arguments: object = "x",
        tool: str = "bash",
        session: str = "s1",
        client: str = "omp 1",
        directory: str = "/lab",
        tier: Tier = "exec",
    ) -> "asyncio.Task[Result]":
        """A call; its task has begun when this returns only after a turn of the loop."""
        self._calls += 1
        call = Call(f"call-{self._calls}", session, client)
        return asyncio.create_task(self._call(call, tool, arguments, Access(tier, directory)))

    async def _call(self, call: Call, tool: str, arguments: object, access: Access) -> Result:
        judged = self.approvals.judge(call, tool, arguments, access)
        leave = judged if isinstance(judged, Permission) else await self.approvals.wait(judged, call, self._confirm)
        if isinstance(leave, Result):
            return leave
        self.ran.append(call.id)
        result = failure("cancelled while it ran")
        try:
            await self.release.wait()
            result = text(f"{call.id} ran: {leave.reason}")
            return result
        finally:
            leave.share(result)

    async def _confirm(self) -> None:
        await turns(CONFIRM_TURNS)

    async def waiting(self, *calls: "asyncio.Task[Result]") -> ApprovalRequest:
        """The newest request, when the calls have got as far as to wait for it."""
        await turns(1)
        assert not any(call.done() for call in calls)
        return self.approvals.waiting()[-1]

    def numbers(self) -> tuple[list[int], list[int]]:
        """The requests that wait, and those asked earlier."""
        return [one.id for one in self.approvals.waiting()], [one.id for one in self.approvals.earlier()]


async def turns(number: int = TURNS) -> None:
    """Give the loop as many turns as the longest road that a call here can take."""
    for _ in range(number):
        await asyncio.sleep(0)


async def gone(call: "asyncio.Task[Result]") -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.fixture
async def desk() -> Desk:
    return Desk()


# Without a question.


async def test_what_the_policy_allows_runs_and_what_it_denies_does_not() -> None:
    desk = Desk(rules={"bash": "allow", "rm": "deny"})
    assert (await desk.ask()).content == text("call-1 ran: rule bash: allow").content
    with pytest.raises(Denied, match=r"^denied: rule rm: deny; nothing ran\."):
        await desk.ask(tool="rm")
    assert desk.asked == []
    assert desk.ran == ["call-1"]


async def test_a_grant_never_outweighs_a_deny() -> None:
    desk = Desk(rules={"rm": "deny"})
    desk.grants.add(Kind.TOOL, Call("c", "s1", "omp 1"), "rm", "", b"")
    with pytest.raises(Denied):
        await desk.ask(tool="rm")
    assert desk.ran == []


# Answers.


async def test_without_a_timeout_a_call_waits_for_ever(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    desk.pass_time(1e9)
    await turns()
    assert not call.done()
    assert desk.alarms == []
    desk.approvals.approve(request.id)
    assert not (await call).is_error


async def test_the_question_says_all_that_will_run(desk: Desk) -> None:
    call = desk.ask({"b": "\u202e", "a": [1.0, 1, True, None]}, "write", tier="write")
    request = await desk.waiting(call)
    assert request.arguments == b'{"b":"\\u202e","a":[1.0,1,true,null]}'
    assert (request.tool, request.access, request.asked) == ("write", Access("write", "/lab"), 1000.0)
    assert request.reason == "mode always-ask, tier write, no rule"
    assert (request.call.id, request.times, len(request.waiters)) == ("call-1", 1, 1)
    assert desk.asked == [request.id]
    await gone(call)


async def test_approved_it_runs_once(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    assert desk.approvals.approve(request.id) == "request 1 approved: it runs"
    assert (await call).content == text("call-1 ran: approved by the owner").content
    again = desk.ask()
    await desk.waiting(again)
    assert desk.asked == [1, 2]
    assert desk.ran == ["call-1"]
    await gone(again)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("", "denied: by the owner (who gave no reason; nothing ran). Do not repeat the call as it is"),
        (
            "use the simulator",
            "denied: use the simulator (the owner's reason; nothing ran). Do not repeat the call as it is",
        ),
    ],
)
async def test_denied_it_does_not_run(desk: Desk, reason: str, words: str) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    assert desk.approvals.deny(request.id, reason) == "request 1 denied"
    with pytest.raises(Denied) as refusal:
        await call
    assert str(refusal.value) == words
    assert desk.ran == []
    assert desk.numbers() == ([], [])


async def test_approved_for_this_call_it_runs_again_unasked_in_its_session(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    said = desk.approvals.approve(request.id, Kind.CALL)
    assert said == ("request 1 approved: it runs; grant 1: this call, for the session (a2a-bridge grants revoke 1)")
    assert not (await call).is_error
    for _ in range(3):
        assert (await desk.ask()).content[0] == text(
            f"{desk.ran[-1]} ran: grant 1: this call, for the session"
        ).content[0]
    others = [desk.ask("y"), desk.ask(tool="write"), desk.ask(session="s2")]
    await desk.waiting(*others)
    assert len(desk.approvals.waiting()) == 3
    for other in others:
        await gone(other)


async def test_approved_for_the_tool_all_of_it_runs_in_its_session(desk: Desk) -> None:
    calls = [desk.ask("a"), desk.ask("b"), desk.ask("c", session="s2"), desk.ask("d", tool="write")]
    await desk.waiting(*calls)
    said = desk.approvals.approve(1, Kind.TOOL)
    assert said.startswith("request 1 approved: it runs; so does 1 more that waited; grant 1: this tool")
    assert not (await calls[0]).is_error
    assert (await calls[1]).content == text("call-2 ran: grant 1: this tool, for the session").content
    assert not (await desk.ask("e")).is_error
    await turns()
    assert desk.numbers()[0] == [3, 4]
    for call in calls[2:]:
        await gone(call)
    assert desk.ran == ["call-1", "call-2", "call-5"]


async def test_the_first_answer_counts_and_the_second_is_told_so(desk: Desk) -> None:
    calls = [desk.ask("a"), desk.ask("b")]
    await desk.waiting(*calls)
    desk.approvals.approve(1)
    desk.approvals.deny(2)
    for number, was in ((1, "approved"), (2, "denied")):
        for answer in (desk.approvals.approve, desk.approvals.deny):
            with pytest.raises(ControlError, match=rf"^request {number}: it has been {was}; a2a-bridge approvals"):
                answer(number)
    with pytest.raises(ControlError, match=r"^request 99: there is none, or no longer"):
        desk.approvals.approve(99)
    assert not (await calls[0]).is_error
    with pytest.raises(Denied):
        await calls[1]
    assert desk.ran == ["call-1"]


# Withdrawn.


async def test_after_the_timeout_there_is_no_answer_and_it_was_asked_earlier() -> None:
    desk = Desk(timeout=5)
    call = desk.ask()
    request = await desk.waiting(call)
    desk.pass_time(4.9)
    await turns()
    assert not call.done()
    desk.pass_time(0.2)
    with pytest.raises(
        NoAnswer, match=r"^no answer: nobody approved this within 5 s; nothing ran\. .* holds for 600 s$"
    ):
        await call
    assert desk.numbers() == ([], [request.id])
    assert request.withdrawn == "nobody answered within 5 s"
    assert desk.ran == []


async def test_an_answer_ends_the_timer() -> None:
    desk = Desk(timeout=5)
    calls = [desk.ask("a"), desk.ask("b"), desk.ask("c")]
    await desk.waiting(*calls)
    desk.approvals.approve(1)
    desk.approvals.deny(2)
    await gone(calls[2])
    assert [alarm.cancelled for alarm in desk.alarms] == [True] * 3
    assert not (await calls[0]).is_error
    with pytest.raises(Denied):
        await calls[1]


async def test_cancelled_it_is_withdrawn(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    await gone(call)
    assert desk.numbers() == ([], [request.id])
    assert request.withdrawn == "it was cancelled, or its caller hung up"
    assert desk.ran == []


async def test_the_end_of_its_session_withdraws_it(desk: Desk) -> None:
    mine, other = desk.ask("a", session="s1"), desk.ask("b", session="s2")
    await desk.waiting(mine, other)
    desk.approvals.end_session("s1")
    with pytest.raises(ToolError, match=r"^withdrawn: its session ended; nothing ran"):
        await mine
    assert desk.numbers() == ([2], [1])
    await gone(other)


async def test_all_can_be_withdrawn_at_once(desk: Desk) -> None:
    calls = [desk.ask(number % 3, session=f"s{number}") for number in range(9)]
    await desk.waiting(*calls)
    desk.approvals.withdraw_all("the bridge stopped", "gone")
    for call in calls:
        with pytest.raises(ToolError, match=r"^gone$"):
            await call
    assert desk.approvals.waits == 0
    assert {one.withdrawn for one in desk.approvals.earlier()} == {"the bridge stopped"}
    assert desk.ran == []


async def test_a_request_asked_again_says_how_often(desk: Desk) -> None:
    for times in (1, 2, 3):
        call = desk.ask()
        request = await desk.waiting(call)
        assert request.times == times
        await gone(call)
    assert desk.numbers() == ([], [3])


# Asked earlier.


async def withdrawn(desk: Desk, arguments: object = "x") -> int:
    call = desk.ask(arguments)
    request = await desk.waiting(call)
    await gone(call)
    return request.id


async def test_approving_an_earlier_one_runs_nothing_and_lets_the_retry_run_once(desk: Desk) -> None:
    number = await withdrawn(desk)
    assert desk.approvals.approve(number) == (
        "request 1 was withdrawn before (it was cancelled, or its caller hung up), so nothing runs now; "
        "unasked runs the next identical call within 600 s (grant 1)"
    )
    await turns()
    assert desk.ran == []
    with pytest.raises(ControlError, match=r"^request 1: it has been approved; grant 1 waits for a retry$"):
        desk.approvals.approve(number)
    assert (await desk.ask(session="a new one")).content == text("call-2 ran: grant 1: once").content
    assert desk.numbers() == ([], [])
    again = desk.ask()
    await desk.waiting(again)
    assert desk.ran == ["call-2"]
    await gone(again)


async def test_the_grant_ends_with_its_time(desk: Desk) -> None:
    number = await withdrawn(desk)
    desk.approvals.approve(number)
    desk.pass_time(GRANT_SECONDS)
    late = desk.ask()
    await desk.waiting(late)
    assert desk.ran == []
    await gone(late)


async def test_an_earlier_one_can_be_approved_again_when_its_grant_has_ended(desk: Desk) -> None:
    number = await withdrawn(desk)
    desk.approvals.approve(number)
    desk.pass_time(GRANT_SECONDS)
    desk.approvals.approve(number)
    desk.pass_time(GRANT_SECONDS - 1)
    assert not (await desk.ask()).is_error


async def test_denying_an_earlier_one_forgets_it_and_its_grant(desk: Desk) -> None:
    number = await withdrawn(desk)
    desk.approvals.approve(number)
    assert desk.approvals.deny(number) == "request 1 was withdrawn before; it is forgotten"
    assert desk.numbers() == ([], [])
    assert desk.grants.all() == []
    with pytest.raises(ControlError, match="it has been denied"):
        desk.approvals.approve(number)
    again = desk.ask()
    await desk.waiting(again)
    await gone(again)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": "1"}),
        ({"n": 0}, {"n": False}),
        ({"n": float("inf")}, {"n": None}),
        ({"n": float("inf")}, {"n": "Infinity"}),
        ({"n": None}, {}),
        ({"n": ""}, {"n": None}),
        ({"n": []}, {"n": {}}),
        ({"n": [1, 2]}, {"n": [2, 1]}),
        ({"n": 2**53}, {"n": 2**53 + 1}),
        ({"n": "a"}, {"n": "а"}),
        ({"n": "é"}, {"n": "e\u0301"}),
        ({"n": "a"}, {"n": "a\u200b"}),
        ({"n": "a "}, {"n": "a"}),
        ({"n": "a"}, {"N": "a"}),
        ({"n": "\\u202e"}, {"n": "\u202e"}),
        ({}, None),
        ({}, []),
    ],
)
async def test_changed_arguments_are_another_question(desk: Desk, before: object, after: object) -> None:
    desk.approvals.approve(await withdrawn(desk, before))
    changed = desk.ask(after)
    await desk.waiting(changed)
    assert desk.ran == []
    await gone(changed)
    assert not (await desk.ask(before)).is_error


async def test_the_order_of_members_changes_nothing(desk: Desk) -> None:
    desk.approvals.approve(await withdrawn(desk, {"a": 1, "b": {"c": 2, "d": 3}}))
    assert not (await desk.ask({"b": {"d": 3, "c": 2}, "a": 1})).is_error


async def test_another_client_directory_or_tool_is_another_question(desk: Desk) -> None:
    desk.approvals.approve(await withdrawn(desk))
    others = [desk.ask(client="omp 2"), desk.ask(directory="/"), desk.ask(tool="sh"), desk.ask(client="")]
    await desk.waiting(*others)
    assert len(desk.approvals.waiting()) == 4
    for other in others:
        await gone(other)
    assert desk.ran == []


async def test_a_client_without_a_name_is_known_by_its_session(desk: Desk) -> None:
    call = desk.ask(client="", session="s1")
    request = await desk.waiting(call)
    await gone(call)
    desk.approvals.approve(request.id)
    other = desk.ask(client="", session="s2")
    named = desk.ask(client="s1", session="s1")
    await desk.waiting(other, named)
    assert desk.ran == []
    assert not (await desk.ask(client="", session="s1")).is_error
    await gone(other)
    await gone(named)


async def test_arguments_that_are_nested_too_deep_are_refused(desk: Desk) -> None:
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ToolError, match="nested too deep"):
        await desk.ask(deep)
    assert desk.numbers() == ([], [])


# Joined.


async def test_a_retry_joins_and_both_get_the_one_result(desk: Desk) -> None:
    first, second, third = desk.ask(), desk.ask(session="s2"), desk.ask()
    request = await desk.waiting(first, second, third)
    assert desk.asked == [request.id]
    assert len(request.waiters) == 3
    desk.approvals.approve(request.id)
    results = [await one for one in (first, second, third)]
    assert desk.ran == ["call-3"]  # the newest: an older one may have gone without a word
    assert results[0] is results[1] is results[2]


async def test_denied_all_that_joined_are_told(desk: Desk) -> None:
    calls = [desk.ask(), desk.ask()]
    desk.approvals.deny((await desk.waiting(*calls)).id, "no")
    for call in calls:
        with pytest.raises(Denied, match=r"^denied: no"):
            await call


async def test_the_request_waits_as_long_as_one_of_them_does(desk: Desk) -> None:
    first, second = desk.ask(), desk.ask()
    request = await desk.waiting(first, second)
    await gone(second)
    assert desk.numbers() == ([request.id], [])
    desk.approvals.approve(request.id)
    assert not (await first).is_error
    assert desk.ran == ["call-1"]


async def test_a_runner_that_is_cancelled_before_it_runs_hands_over(desk: Desk) -> None:
    first, second, third = desk.ask(), desk.ask(), desk.ask()
    request = await desk.waiting(first, second, third)
    desk.approvals.approve(request.id)
    await gone(third)
    await turns(2 * TURNS)
    assert desk.ran == ["call-2"]
    assert await first is await second
    assert desk.grants.all() == []


async def test_when_all_are_cancelled_after_the_approval_a_grant_is_left(desk: Desk) -> None:
    first, second = desk.ask(), desk.ask()
    request = await desk.waiting(first, second)
    desk.approvals.approve(request.id)
    first.cancel()
    second.cancel()
    await turns()
    assert desk.ran == []
    assert desk.numbers() == ([], [request.id])
    assert [one.kind for one in desk.grants.all()] == [Kind.ONCE]
    assert not (await desk.ask()).is_error
    assert desk.grants.all() == []


async def test_a_runner_that_is_cancelled_while_it_runs_tells_the_others(desk: Desk) -> None:
    desk.release.clear()
    first, second = desk.ask(), desk.ask()
    desk.approvals.approve((await desk.waiting(first, second)).id)
    await turns()
    assert desk.ran == ["call-2"]
    await gone(second)
    assert (await first).is_error
    assert desk.ran == ["call-2"]
    assert desk.grants.all() == []


async def test_a_follower_that_leaves_changes_nothing_for_the_others(desk: Desk) -> None:
    desk.release.clear()
    calls = [desk.ask(), desk.ask(), desk.ask()]
    desk.approvals.approve((await desk.waiting(*calls)).id)
    await turns()
    await gone(calls[0])
    desk.release.set()
    assert await calls[1] is await calls[2]


async def test_one_session_of_two_that_joined_ends_while_its_caller_hangs_up(desk: Desk) -> None:
    for hang_up_first in (True, False):
        mine, other = desk.ask(session="s1"), desk.ask(session="s2")
        request = await desk.waiting(mine, other)
        if hang_up_first:
            mine.cancel()
        desk.approvals.end_session("s1")
        mine.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mine
        assert desk.numbers()[0] == [request.id]
        desk.approvals.approve(request.id)
        assert not (await other).is_error


# In the same instant.


@pytest.mark.parametrize("before", range(CONFIRM_TURNS + 1))
async def test_approved_and_then_cancelled_before_it_runs(desk: Desk, before: int) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    desk.approvals.approve(request.id)
    await turns(before)
    assert desk.ran == []
    await gone(call)
    await turns()
    assert desk.ran == []
    assert [(one.kind, one.summary) for one in desk.grants.all()] == [(Kind.ONCE, request.summary)]
    assert desk.numbers() == ([], [request.id])
    assert not (await desk.ask()).is_error


async def test_cancelled_and_then_approved_in_one_instant(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    call.cancel()
    assert (
        desk.approvals.approve(request.id)
        == "request 1 approved: its caller has just gone; the next identical call runs"
    )
    await turns()
    assert desk.ran == []
    assert desk.numbers() == ([], [request.id])
    assert not (await desk.ask()).is_error
    assert desk.ran == ["call-2"]


async def test_cancelled_and_then_denied_in_one_instant(desk: Desk) -> None:
    call = desk.ask()
    request = await desk.waiting(call)
    call.cancel()
    desk.approvals.deny(request.id)
    await turns()
    assert call.cancelled()
    assert desk.numbers() == ([], [])
    assert desk.grants.all() == []


# Sessions and grants.


async def test_a_grant_goes_to_the_session_that_was_shown_whoever_joined_since(desk: Desk) -> None:
    shown = desk.ask("x", session="s1")
    await turns()
    joined = desk.ask("x", session="s2")
    await turns()
    (request,) = desk.approvals.waiting()
    assert request.call.session == "s1"
    desk.approvals.approve(request.id, Kind.TOOL)
    await asyncio.gather(shown, joined)
    (grant,) = desk.grants.all()
    assert grant.session == "s1"
    other = desk.ask("y", session="s2")
    await turns()
    assert not other.done(), "the session that joined is asked"
    other.cancel()


@pytest.mark.parametrize("after", range(CONFIRM_TURNS))
async def test_a_session_that_ends_right_after_the_approval_runs_nothing(desk: Desk, after: int) -> None:
    call = desk.ask("x")
    await turns()
    (request,) = desk.approvals.waiting()
    desk.approvals.approve(request.id)
    for _ in range(after):
        await asyncio.sleep(0)
    desk.approvals.end_session("s1")
    with pytest.raises(ToolError, match="withdrawn: its session ended; nothing ran"):
        await call
    assert desk.ran == []
    assert [one.kind for one in desk.grants.all()] == [Kind.ONCE], "the next identical call runs"


async def test_a_session_that_has_ended_is_granted_nothing(desk: Desk) -> None:
    call = desk.ask("x")
    await turns()
    (request,) = desk.approvals.waiting()
    desk.approvals.end_session("s1")
    with pytest.raises(ToolError):
        await call
    for kind in (Kind.CALL, Kind.TOOL):
        with pytest.raises(ControlError, match="its session ended; approve it once"):
            desk.approvals.approve(request.id, kind)
    assert desk.grants.all() == []
    desk.approvals.approve(request.id)
    assert [one.kind for one in desk.grants.all()] == [Kind.ONCE]


async def test_the_end_of_a_session_ends_what_was_granted_for_it_and_not_what_waits_for_a_retry(desk: Desk) -> None:
    lasting, once = desk.ask("a"), await withdrawn(desk, "b")
    desk.approvals.approve(1, Kind.CALL)
    await lasting
    desk.approvals.approve(once)
    desk.approvals.end_session("s1")
    assert [one.kind for one in desk.grants.all()] == [Kind.ONCE]
    again = desk.ask("a")
    await desk.waiting(again)
    assert not (await desk.ask("b", session="s2")).is_error
    await gone(again)


async def test_a_revoked_grant_lets_nothing_run(desk: Desk) -> None:
    call = desk.ask()
    await desk.waiting(call)
    desk.approvals.approve(1, Kind.TOOL)
    await call
    assert desk.grants.revoke(1) is not None
    again = desk.ask()
    await desk.waiting(again)
    assert desk.ran == ["call-1"]
    await gone(again)


# Bounds.


async def test_only_so_many_are_remembered_as_asked_earlier(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_EARLIER", 3)
    for number in range(5):
        await withdrawn(desk, number)
    assert desk.numbers() == ([], [5, 4, 3])
    with pytest.raises(ControlError, match=r"^request 1: there is none"):
        desk.approvals.approve(1)


async def test_only_so_many_bytes_are_remembered_as_asked_earlier(desk: Desk) -> None:
    assert requests.MOST_EARLIER_BYTES == 16 * 1024 * 1024
    five = 5 * 1024 * 1024
    for letter in "abcd":
        await withdrawn(desk, letter * five)
    assert desk.numbers() == ([], [4, 3, 2])
    await withdrawn(desk, "e" * (requests.MOST_EARLIER_BYTES + 1))
    assert desk.numbers() == ([], [])
    await withdrawn(desk)
    assert desk.numbers() == ([], [6])


async def test_what_was_asked_earlier_is_forgotten_after_an_hour(desk: Desk) -> None:
    await withdrawn(desk, "a")
    desk.pass_time(1)
    await withdrawn(desk, "b")
    desk.pass_time(EARLIER_SECONDS)
    assert desk.numbers() == ([], [2])
    desk.pass_time(1)
    with pytest.raises(ControlError):
        desk.approvals.approve(2)


async def test_only_so_many_answers_are_remembered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_ANSWERS", 2)
    calls = [desk.ask(number) for number in range(3)]
    await desk.waiting(*calls)
    for number in (1, 2, 3):
        desk.approvals.approve(number)
    with pytest.raises(ControlError, match=r"^request 1: there is none, or no longer"):
        desk.approvals.deny(1)
    with pytest.raises(ControlError, match=r"^request 2: it has been approved"):
        desk.approvals.deny(2)
    for call in calls:
        await call


async def test_thousands_that_wait_are_withdrawn_cleanly(desk: Desk) -> None:
    calls = [desk.ask(number) for number in range(2000)]
    await desk.waiting(*calls)
    assert desk.approvals.waits == 2000
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert desk.approvals.waits == 0
    assert len(desk.approvals.earlier()) == requests.MOST_EARLIER
    assert desk.ran == []


# Anything in any order.


class Wild:
    """A desk at which a random hand asks, cancels, answers, waits and ends sessions; and what may never happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.desk = Desk(timeout=50)
        self.calls: list[asyncio.Task[Result]] = []
        self.marks: dict[str, str] = {}
        self.gone: set[str] = set()
        self.once: dict[str, int] = {}
        self.lasting = False

    def ask(self) -> None:
        arguments, session = self.random.choice("ab"), self.random.choice(("s1", "s2"))
        self.calls.append(self.desk.ask(arguments, session=session))
        self.marks[f"call-{len(self.calls)}"] = arguments

    def cancel(self) -> None:
        number = self.random.randrange(len(self.calls)) if self.calls else 0
        if self.calls and f"call-{number + 1}" not in self.desk.ran and not self.calls[number].done():
            self.calls[number].cancel()
            self.gone.add(f"call-{number + 1}")

    def answer(self) -> None:
        there = [*self.desk.approvals.waiting(), *self.desk.approvals.earlier()]
        if not there:
            return
        request = self.random.choice(there)
        mark = request.arguments.decode().strip('"')
        kind = self.random.choice((Kind.ONCE, Kind.ONCE, Kind.ONCE, Kind.CALL))
        try:
            self.desk.approvals.approve(request.id, kind)
        except ControlError:
            return
        if kind is Kind.ONCE:
            self.once[mark] = self.once.get(mark, 0) + 1
        else:
            self.lasting = True

    def deny(self) -> None:
        there = [*self.desk.approvals.waiting(), *self.desk.approvals.earlier()]
        if there:
            self.desk.approvals.deny(self.random.choice(there).id)

    async def step(self) -> None:
        match self.random.randrange(10):
            case 0 | 1 | 2:
                self.ask()
            case 3 | 4:
                self.cancel()
            case 5 | 6:
                self.answer()
            case 7:
                self.deny()
            case 8:
                self.desk.pass_time(self.random.choice((1, 20, 51)))
            case 9:
                self.desk.approvals.end_session(self.random.choice(("s1", "s2")))
        await turns(self.random.choice((0, 0, 1, 2, CONFIRM_TURNS, TURNS)))

    def check(self) -> None:
        ran = self.desk.ran
        assert len(ran) == len(set(ran))
        assert not self.gone & set(ran), "what was cancelled has run"
        if not self.lasting:
            for mark in "ab":
                runs = sum(self.marks[call] == mark for call in ran)
                assert runs <= self.once.get(mark, 0), "more has run than was approved"

    async def finish(self) -> None:
        await turns()
        self.desk.approvals.withdraw_all("the end", "the end")
        await turns()
        results = await asyncio.gather(*self.calls, return_exceptions=True)
        expected = (Result, ToolError, asyncio.CancelledError)
        assert all(isinstance(result, expected) for result in results), results
        self.desk.pass_time(EARLIER_SECONDS + GRANT_SECONDS + 1)
        for session in ("s1", "s2"):
            self.desk.approvals.end_session(session)
        assert self.desk.numbers() == ([], [])
        assert self.desk.grants.all() == []
        assert self.desk.approvals._by_print == {}
        assert all(alarm.cancelled for alarm in self.desk.alarms)


@pytest.mark.parametrize("hundred", range(5))
async def test_nothing_runs_unasked_twice_or_for_nobody_whatever_the_order(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        wild = Wild(seed)
        for _ in range(40):
            await wild.step()
            wild.check()
        await wild.finish()
        wild.check()
