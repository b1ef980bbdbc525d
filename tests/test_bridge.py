"""The one road for a call, where the contract tests do not reach: stopping, watching, reporting."""

import asyncio
from pathlib import Path

import pytest

from a2a_bridge.approval.grants import Grants
from a2a_bridge.approval.policy import Mode, Policy
from a2a_bridge.approval.requests import Approvals
from a2a_bridge.bridge import PAUSED, STOPPING, Bridge, Rules
from a2a_bridge.calls import FinishedCall, Outcome
from a2a_bridge.errors import Withdrawn
from a2a_bridge.exposure import Exposure
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.limits import Limits
from a2a_bridge.tool import Result, Text
from tests.support.callers import Client, MemoryCaller


class NoAudit:
    """Remembers which records were written."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def start(self, *_: object) -> None:
        self.phases.append("start")

    def done(self, *_: object) -> None:
        self.phases.append("done")

    def flush_starts(self) -> None:
        """Everything counts as written at once."""

    def flush(self) -> None:
        """The same."""


class Parts:
    """A bridge with everything that it knows."""

    def __init__(self, mode: Mode = "yolo", limits: Limits | None = None) -> None:
        self.host = FakeHost()
        self.audit = NoAudit()
        self.settled: list[FinishedCall] = []
        self.reports: list[str] = []
        ids = iter(f"call-{number}" for number in range(100))
        clock = iter(float(number) for number in range(1000))
        self.approvals = Approvals(Policy(mode), Grants(lambda: 0.0, 600), lambda: 0.0)
        rules = Rules(Exposure(), self.approvals, limits or Limits())
        self.bridge = Bridge(
            self.host, rules, self.audit, ids.__next__, self.reports.append, self.settled.append, clock.__next__
        )

    async def hanging(self) -> "asyncio.Task[Result]":
        self.host.started.clear()
        call = asyncio.create_task(self.bridge.call("sid", "client", "hang", {}))
        await self.host.started.wait()
        return call


@pytest.fixture
async def parts() -> Parts:
    return Parts()


async def test_every_outcome_is_watched(parts: Parts) -> None:
    await parts.bridge.call("sid", "omp 1", "echo", {"text": "x"})
    await parts.bridge.call("sid", "omp 1", "fail", {})
    hanging = await parts.hanging()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert [one.outcome for one in parts.settled] == [Outcome.DONE, Outcome.FAILED, Outcome.ABANDONED]
    assert [one.call.id for one in parts.settled] == ["call-0", "call-1", "call-2"]
    assert parts.settled[0].call.client == "omp 1"
    assert parts.settled[0].seconds > 0
    assert parts.audit.phases == ["start", "done"] * 3
    assert parts.bridge.running() == []


async def test_stop_without_calls_ends_at_once(parts: Parts) -> None:
    await parts.bridge.stop(grace=1e9)
    result = await parts.bridge.call("sid", "", "echo", {})
    assert result == Result((Text(STOPPING),), is_error=True)
    assert not parts.host.seen


async def test_stop_waits_for_calls_that_end_in_time(parts: Parts) -> None:
    calls = [await parts.hanging() for _ in range(3)]
    stopping = asyncio.create_task(parts.bridge.stop(grace=1e9))
    await asyncio.sleep(0)
    parts.host.release.set()
    await stopping
    assert [(await call).is_error for call in calls] == [False] * 3


async def test_stop_ends_the_others_with_an_answer(parts: Parts) -> None:
    calls = [await parts.hanging() for _ in range(3)]
    await parts.bridge.stop(grace=0)
    assert [(await call).content for call in calls] == [(Text(STOPPING),)] * 3
    assert parts.host.cancelled == 3
    assert parts.audit.phases.count("done") == 3


async def test_a_host_that_swallows_the_cancel_does_not_fool_the_caller(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stubborn(host: FakeHost, *_: object) -> Result:
        host.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Result((Text("done all the same"),))
        raise AssertionError

    monkeypatch.setattr(FakeHost, "call", stubborn)
    hanging = await parts.hanging()
    parts.bridge.cancel("sid", lambda key: True)
    result = await hanging
    assert result == Result((Text("cancelled by the caller"),), is_error=True)
    assert hanging.cancelling() == 0


async def test_cancelling_twice_is_cancelling_once(parts: Parts) -> None:
    hanging = await parts.hanging()
    parts.bridge.cancel("sid", lambda key: True)
    parts.bridge.cancel("sid", lambda key: True)
    assert (await hanging).is_error
    assert parts.host.cancelled == 1


async def test_a_bug_in_a_tool_is_told_to_the_owner_with_its_place(parts: Parts) -> None:
    result = await parts.bridge.call("sid", "", "raise", {})
    assert result.content == (Text("something inside broke"),)
    (report,) = parts.reports
    assert "tool 'raise' raised RuntimeError: something inside broke" in report
    assert "fake.py:" in report


async def test_a_refusal_is_not_reported(parts: Parts) -> None:
    await parts.bridge.call("sid", "", "no-such-tool", {})
    assert parts.reports == []


async def test_the_host_learns_who_asks(tmp_path: Path) -> None:
    caller = MemoryCaller(tmp_path)
    client = Client(caller)
    session = await client.open(name="lab\x1b[31m", version="2.0")
    await client.call("echo", {})
    _, _, call = caller.host.seen[-1]
    assert (call.session, call.client) == (session, "lab[31m 2.0")
    caller.journal.close()


@pytest.fixture
def unanswered(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call waits for its human, who does not come."""

    async def call(*_: object) -> Result:
        parts.host.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Withdrawn("withdrawn") from None
        raise AssertionError

    monkeypatch.setattr(parts.host, "call", call)


@pytest.mark.usefixtures("unanswered")
async def test_a_call_that_was_withdrawn_has_no_done(parts: Parts) -> None:
    """L5: nothing of it ran, and nobody is there to hear so."""
    call = await parts.hanging()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert parts.audit.phases == ["start"]
    assert parts.bridge.running() == []


@pytest.mark.usefixtures("unanswered")
async def test_a_call_that_was_withdrawn_and_cancelled_is_answered(parts: Parts) -> None:
    call = await parts.hanging()
    parts.bridge.cancel("sid", lambda _: True)
    assert (await call).content == (Text("cancelled by the caller"),)
    assert parts.audit.phases == ["start", "done"]


@pytest.mark.parametrize("end", ["cancel", "pause"])
async def test_what_the_owner_ends_in_the_instant_of_approving_it_runs_never(end: str) -> None:
    parts = Parts("always-ask")
    call = asyncio.create_task(parts.bridge.call("sid", "client", "echo", {"text": "x"}))
    while not parts.approvals.waiting():
        await asyncio.sleep(0)
    parts.approvals.approve(1)
    if end == "cancel":
        (running,) = parts.bridge.running()
        parts.bridge.end_call(running.call.id)
        words = "cancelled by the owner"
    else:
        await parts.bridge.pause()
        words = PAUSED
    assert (await call).content == (Text(words),)
    assert not parts.host.seen
    assert parts.approvals.grants.all() == [], "nor does the next identical call"


@pytest.mark.parametrize("name", ["n" * 5000, "raise", "fail"])
async def test_an_error_is_no_longer_than_any_other_result(name: str) -> None:
    parts = Parts(limits=Limits(result_bytes=10))
    result = await parts.bridge.call("sid", "", name, {})
    assert result.is_error
    (block,) = result.content
    assert isinstance(block, Text)
    assert block.text[10:].startswith("\n[cut: ")
