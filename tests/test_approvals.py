"""The road of a call past its owner: what runs, what is asked about, what each caller reads, what the audit says."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_bridge.approval.grants import Kind
from a2a_bridge.approval.policy import Policy
from a2a_bridge.approval.requests import GAVE_UP
from a2a_bridge.bridge import PAUSED, SHARED, SHARED_FATE, STOPPING
from a2a_bridge.errors import ControlError
from a2a_bridge.sessions import MOST_SESSIONS
from a2a_bridge.tool import Access
from tests.support.asking import answer, text, words
from tests.support.callers import Client, MemoryCaller, Reply
from tests.support.processes import records

Pending = asyncio.Task[Reply]


class Lab:
    """A bridge in memory that asks, and a client of it."""

    def __init__(self, caller: MemoryCaller) -> None:
        self.caller = caller
        self.host = caller.host
        self.approvals = caller.approvals
        self.bridge = caller.bridge
        self.client = Client(caller)

    def rules(self, mode: Any = "always-ask", **rules: str) -> None:
        self.approvals.policy = Policy(mode, rules)

    async def asks(self, name: str = "echo", client: Client | None = None, **arguments: object) -> tuple[Pending, int]:
        """A call that waits, and the number of its question."""
        before = {one.id: one.times for one in self.approvals.waiting()}
        callers = sum(len(one.waiters) for one in self.approvals.waiting())
        self.asked = getattr(self, "asked", 0) + 1
        call = asyncio.create_task((client or self.client).call(name, arguments, self.asked))
        await self.until(lambda: sum(len(one.waiters) for one in self.approvals.waiting()) == callers + 1)
        new = [one.id for one in self.approvals.waiting() if one.id not in before]
        return call, new[0] if new else max(before)

    async def until(self, holds: Callable[[], object]) -> None:
        """In a bounded number of the loop's turns."""
        for _ in range(200):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never comes to that")

    async def hang_up(self, call: Pending) -> None:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer(call)

    @property
    def audit(self) -> list[dict[str, Any]]:
        return records(self.caller.audit)

    @property
    def done(self) -> list[dict[str, Any]]:
        return [record for record in self.audit if record["phase"] == "done"]


@pytest.fixture
async def lab(memory: MemoryCaller) -> Lab:
    one = Lab(memory)
    one.rules()
    await one.client.open(name="lab", version="1")
    return one


# What decides.


async def test_what_the_mode_allows_runs_unasked_and_the_audit_says_why(lab: Lab) -> None:
    lab.host.tiers["echo"] = "read"
    assert text(await lab.client.call("echo", {"text": "x"})) == "x"
    (done,) = lab.done
    assert done["decided"] == "mode always-ask, tier read, no rule"


async def test_without_mode_and_rules_nothing_is_decided_and_the_record_is_as_before(lab: Lab) -> None:
    lab.rules("yolo")
    await lab.client.call("echo", {"text": "x"})
    start, done = lab.audit
    assert set(start) == {"ts", "phase", "id", "sid", "tool", "args"}
    assert set(done) == set(start) | {"isError"}


async def test_the_fields_of_l1_stay_and_decided_comes_with_them(lab: Lab) -> None:
    call, number = await lab.asks(text="x")
    lab.approvals.approve(number)
    await answer(call)
    start, done = lab.audit
    assert set(start) == {"ts", "phase", "id", "sid", "tool", "args"}
    assert set(done) == set(start) | {"isError", "decided"}
    assert done["decided"] == "approved by the owner"
    assert {name: done[name] for name in ("id", "sid", "tool", "args")} == {
        name: start[name] for name in ("id", "sid", "tool", "args")
    }


async def test_a_rule_that_denies_is_the_answer(lab: Lab) -> None:
    lab.rules("yolo", echo="deny")
    reply = await lab.client.call("echo", {})
    assert words(reply).startswith("denied: rule echo: deny; nothing ran")
    assert not lab.host.seen
    assert lab.done[0]["isError"] is True


async def test_a_denied_tool_that_is_not_exposed_reads_as_unknown(lab: Lab) -> None:
    lab.rules("yolo", fail="deny")
    assert words(await lab.client.call("fail", {})) == "tool 'fail' is not exposed by this bridge"
    assert lab.approvals.waits == 0


async def test_a_grant_decides_and_is_named(lab: Lab) -> None:
    call, number = await lab.asks(text="x")
    lab.approvals.approve(number, Kind.CALL)
    await answer(call)
    assert text(await lab.client.call("echo", {"text": "x"})) == "x"
    assert [record["decided"] for record in lab.done] == [
        "approved by the owner (grant 1: this call, for the session)",
        "grant 1: this call, for the session",
    ]


async def test_a_host_that_asks_its_own_human_is_never_asked_about(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.host, "access", lambda *_: None)
    lab.rules("always-ask", echo="deny")
    assert text(await lab.client.call("echo", {"text": "x"})) == "x"
    assert "decided" not in lab.done[0]


async def test_a_host_whose_access_has_a_bug_is_asked_about_as_exec(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def access(*_: object) -> Access:
        raise RuntimeError("a bug")

    monkeypatch.setattr(lab.host, "access", access)
    lab.rules("write")
    call, number = await lab.asks(text="x")
    assert lab.approvals.find(number).access == Access("exec")
    assert lab.approvals.find(number).reason == "mode write, tier exec, no rule"
    assert "tool 'echo': its access cannot be told: RuntimeError: a bug" in lab.caller.reports[0]
    lab.approvals.approve(number)
    assert text(await answer(call)) == "x"


async def test_while_a_call_waits_nothing_of_it_runs_and_others_are_served(lab: Lab) -> None:
    lab.host.tiers["image"] = "read"
    call, number = await lab.asks(text="x")
    assert (await lab.client.message("ping")).result == {}
    assert (await lab.client.message("tools/list")).result["tools"]
    assert (await lab.client.call("image", {}, 77)).result["isError"] is False
    assert [name for name, _, _ in lab.host.seen] == ["image"]
    lab.approvals.approve(number)
    assert text(await answer(call)) == "x"
    assert [name for name, _, _ in lab.host.seen] == ["image", "echo"]


# What the caller reads.


async def deny(lab: Lab, number: int) -> None:
    lab.approvals.deny(number)


async def deny_with_reason(lab: Lab, number: int) -> None:
    lab.approvals.deny(number, "use the simulator")


async def cancel_as_caller(lab: Lab, number: int) -> None:
    reply = await lab.client.message("notifications/cancelled", {"requestId": lab.asked}, None)
    assert reply.status == 202


async def cancel_as_owner(lab: Lab, number: int) -> None:
    lab.bridge.end_call(lab.approvals.find(number).call.id)


async def delete_session(lab: Lab, number: int) -> None:
    assert (await lab.caller.send("DELETE", lab.client.headers())).status == 204


async def evict(lab: Lab, number: int) -> None:
    for _ in range(MOST_SESSIONS):
        await Client(lab.caller).open()
        lab.caller.now += 1


async def stop(lab: Lab, number: int) -> None:
    async with asyncio.timeout(10):
        await lab.bridge.stop(grace=1e9)


async def pause(lab: Lab, number: int) -> None:
    await lab.bridge.pause()


WITHDRAWN = "withdrawn: its session ended; nothing ran. Open a new session and call again"


@pytest.mark.parametrize(
    ("act", "said", "earlier"),
    [
        (deny, "denied: by the owner (who gave no reason; nothing ran). Do not repeat the call as it is", ""),
        (
            deny_with_reason,
            "denied: use the simulator (the owner's reason; nothing ran). Do not repeat the call as it is",
            "",
        ),
        (cancel_as_caller, "cancelled by the caller", GAVE_UP),
        (cancel_as_owner, "cancelled by the owner", GAVE_UP),
        (delete_session, WITHDRAWN, "its session ended"),
        (evict, WITHDRAWN, "its session ended"),
        (stop, STOPPING, "the bridge stopped"),
        (pause, PAUSED, "the owner paused the bridge"),
    ],
)
async def test_what_a_call_that_waited_is_answered(
    lab: Lab, act: Callable[[Lab, int], Awaitable[None]], said: str, earlier: str
) -> None:
    call, number = await lab.asks(text="x")
    await act(lab, number)
    assert words(await answer(call)) == said
    assert not lab.host.seen
    assert lab.approvals.waits == 0
    assert [one.withdrawn for one in lab.approvals.earlier()] == ([earlier] if earlier else [])
    (done,) = [record for record in lab.done if record["tool"] == "echo"]
    assert done["isError"] is True
    assert lab.bridge.running() == []


async def test_a_call_whose_caller_hung_up_has_a_start_and_no_done(lab: Lab) -> None:
    call, _ = await lab.asks(text="x")
    await lab.hang_up(call)
    assert [record["phase"] for record in lab.audit] == ["start"]
    assert [one.withdrawn for one in lab.approvals.earlier()] == [GAVE_UP]
    assert not lab.host.seen


async def test_only_the_calls_of_the_session_that_ends_are_withdrawn(lab: Lab) -> None:
    other = Client(lab.caller)
    await other.open(name="lab", version="1")
    first, _ = await lab.asks(text="x")
    second, number = await lab.asks(client=other, text="x")
    await delete_session(lab, 0)
    assert words(await answer(first)) == WITHDRAWN
    assert lab.approvals.waits == 1
    lab.approvals.approve(number)
    assert text(await answer(second)) == "x"
    assert len(lab.host.seen) == 1


# Orders of the owner's in the same instant as the approval.


@pytest.mark.parametrize("turns", range(40))
async def test_a_pause_right_after_the_approval_holds(lab: Lab, turns: int) -> None:
    call, number = await lab.asks(name="hang")
    lab.approvals.approve(number)
    for _ in range(turns):
        await asyncio.sleep(0)
    await lab.bridge.pause()
    ran = len(lab.host.seen)
    assert lab.host.cancelled == ran
    assert words(await answer(call)) == PAUSED
    assert len(lab.host.seen) == ran


async def test_a_stop_right_after_the_approval_holds(lab: Lab) -> None:
    call, number = await lab.asks(text="x")
    lab.approvals.approve(number)
    await lab.bridge.stop(grace=1e9)
    assert words(await answer(call)) == STOPPING
    assert not lab.host.seen


# Retries.


async def test_an_approval_that_comes_too_late_serves_the_retry_once(lab: Lab) -> None:
    call, number = await lab.asks(text="x")
    await lab.hang_up(call)
    said = lab.approvals.approve(number)
    assert "nothing runs now; unasked runs the next identical call within 600 s (grant 1)" in said
    assert not lab.host.seen
    again = Client(lab.caller)
    await again.open(name="lab", version="1")
    assert text(await again.call("echo", {"text": "x"})) == "x"
    assert lab.done[0]["decided"] == "grant 1: once"
    third, _ = await lab.asks(client=again, text="x")
    assert len(lab.host.seen) == 1
    await lab.hang_up(third)


@pytest.mark.parametrize("different", ["client", "arguments", "tool", "late"])
async def test_it_serves_nothing_else(lab: Lab, different: str) -> None:
    call, number = await lab.asks(text="x", n=1)
    await lab.hang_up(call)
    lab.approvals.approve(number)
    other = Client(lab.caller)
    await other.open(name="lab", version="2" if different == "client" else "1")
    lab.caller.now += 600 if different == "late" else 599
    name = "image" if different == "tool" else "echo"
    arguments: dict[str, object] = {"text": "x", "n": 1.0 if different == "arguments" else 1}
    retry, _ = await lab.asks(name=name, client=other, **arguments)
    assert not lab.host.seen
    await lab.hang_up(retry)


async def test_a_retry_is_told_as_such(lab: Lab) -> None:
    for times in (1, 2, 3):
        call, number = await lab.asks(text="x")
        assert lab.approvals.find(number).times == times
        await lab.hang_up(call)
        assert len(lab.approvals.earlier()) == 1


async def test_a_retry_joins_what_waits_and_it_runs_once_for_both(lab: Lab) -> None:
    other = Client(lab.caller)
    await other.open(name="lab", version="1")
    first, number = await lab.asks(text="x")
    second, same = await lab.asks(client=other, text="x")
    assert number == same
    lab.approvals.approve(number)
    assert len((await answer(second)).result["content"]) == 1
    assert [block["text"] for block in (await answer(first)).result["content"]] == ["x", SHARED]
    assert len(lab.host.seen) == 1
    assert sorted(record["decided"] for record in lab.done) == ["approved by the owner", "with an identical call"]


async def test_a_denial_is_for_all_who_joined(lab: Lab) -> None:
    first, number = await lab.asks(text="x")
    second, _ = await lab.asks(text="x")
    lab.approvals.deny(number, "no")
    assert words(await answer(first)) == words(await answer(second))


async def test_those_who_joined_do_not_wait_for_ever_when_the_one_that_runs_is_cancelled(lab: Lab) -> None:
    first, number = await lab.asks(name="hang")
    second, _ = await lab.asks(name="hang")
    lab.approvals.approve(number)
    await lab.host.started.wait()
    await lab.hang_up(second)
    assert words(await answer(first)) == SHARED_FATE
    assert lab.host.cancelled == 1


@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
async def test_of_those_who_joined_one_that_is_still_there_runs(lab: Lab, gone: tuple[int, ...]) -> None:
    calls = [await lab.asks(text="x") for _ in range(3)]
    lab.approvals.approve(calls[0][1])
    for index in gone:
        calls[index][0].cancel()
    left = [call for index, (call, _) in enumerate(calls) if index not in gone]
    assert {text(await answer(call)) for call in left} == {"x"}
    assert len(lab.host.seen) == 1
    assert lab.approvals.grants.all() == []


async def test_the_first_answer_counts_and_a_later_one_is_told(lab: Lab) -> None:
    call, number = await lab.asks(text="x")
    lab.approvals.approve(number)
    with pytest.raises(ControlError, match=f"request {number}: it has been approved; a2a-bridge approvals shows"):
        lab.approvals.deny(number)
    assert text(await answer(call)) == "x"
    with pytest.raises(ControlError, match=f"request {number}: it has been approved"):
        lab.approvals.approve(number)
    assert len(lab.host.seen) == 1


# What is shown is what runs.


async def test_the_arguments_that_run_are_those_that_are_shown(lab: Lab) -> None:
    """Numbers that JSON can write and few can read, members in their order, a name given twice."""
    sent = b'{"n":1e999,"m":-1e999,"big":%d,"z":-0.0,"i":1.0,"two":1,"two":2,"b":1,"a":[{}]}' % 2**70
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":%b}}' % sent
    call = asyncio.create_task(lab.client.post(body))
    await lab.until(lambda: lab.approvals.waits)
    (request,) = lab.approvals.waiting()
    shown = json.loads(request.arguments)
    lab.approvals.approve(request.id)
    await answer(call)
    ((_, got, _),) = lab.host.seen
    assert repr(shown) == repr(got)
    assert shown["big"] == 2**70
    assert list(shown) == ["n", "m", "big", "z", "i", "two", "b", "a"]
