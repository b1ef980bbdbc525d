"""omp's own gate decides about remote calls, and its human sees that they are remote."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.omp.conftest import client_of
from tests.omp.test_tools import soon, text_of
from tests.support.callers import Client
from tests.support.omp import Home, Omp, omp
from tests.support.processes import records


@pytest.fixture
async def asking(home: Home) -> AsyncIterator[Omp]:
    """An omp that asks before all but reading."""
    home.settings("tools: { approvalMode: always-ask, approval: { glob: deny, grep: prompt } }\n")
    with omp(home) as one:
        yield one


async def client(one: Omp) -> Client:
    opened = client_of(one)
    await opened.open(name="lab-agent", version="1.0")
    return opened


def remote_bash(caller: Client, file: Path, message_id: Any = 1) -> "asyncio.Task[Any]":
    """A call that leaves a trace when it runs."""
    command = f"echo ran >> {file}; echo done"
    return asyncio.create_task(caller.call("bash", {"command": command}, message_id))


async def prompts(one: Omp, count: int = 1) -> list[dict[str, Any]]:
    return await asyncio.to_thread(one.approvals, count)


async def test_m7_a_call_waits_for_its_human_and_others_do_not(asking: Omp, tmp_path: Path) -> None:
    caller, trace = await client(asking), tmp_path / "trace"
    waiting = remote_bash(caller, trace)
    (prompt,) = await prompts(asking)
    assert prompt["title"].startswith("Allow tool: bash\n")
    assert (await caller.message("ping")).result == {}
    assert "trace" not in await text_of(caller, "read", path=".")
    done = [record["tool"] for record in records(asking.home.audit) if record["phase"] == "done"]
    started = [record["tool"] for record in records(asking.home.audit) if record["phase"] == "start"]
    assert (started, done) == (["bash", "read"], ["read"])
    assert not trace.exists()
    asking.answer(prompt, "Approve")
    assert (await waiting).result["content"][0]["text"].startswith("done\n")
    assert trace.read_text() == "ran\n"


async def test_a_denial_is_the_answer(asking: Omp, tmp_path: Path) -> None:
    caller, trace = await client(asking), tmp_path / "trace"
    waiting = remote_bash(caller, trace)
    (prompt,) = await prompts(asking)
    asking.answer(prompt, "Deny")
    result = (await waiting).result
    assert result == {"content": [{"type": "text", "text": "Tool call denied by user: bash"}], "isError": True}
    assert not trace.exists()


async def test_omps_rules_hold(asking: Omp) -> None:
    caller = await client(asking)
    denied = await text_of(caller, "glob", is_error=True, path="*")
    assert denied.startswith('Tool "glob" is blocked by user policy')
    waiting = asyncio.create_task(caller.call("grep", {"pattern": "x", "path": "."}))
    (prompt,) = await prompts(asking)
    asking.answer(prompt, "Deny")
    assert (await waiting).result["isError"] is True


async def test_the_human_is_told_who_asks_for_what_before_the_prompt(asking: Omp, tmp_path: Path) -> None:
    caller = await client(asking)
    waiting = remote_bash(caller, tmp_path / "trace")
    (prompt,) = await prompts(asking)
    before = asking.lines[: asking.lines.index(prompt)]
    (notice,) = [line for line in before if line.get("method") == "notify" and "REMOTE" in line["message"]]
    assert notice["notifyType"] == "warning"
    for words in ("bash", "lab-agent 1.0", f"echo ran >> {tmp_path}"):
        assert words in notice["message"]
    (widget,) = [line["widgetLines"] for line in before if line.get("widgetKey") == "a2a"]
    assert len(widget) == 1
    assert "REMOTE" in widget[0]
    asking.answer(prompt, "Deny")
    await waiting
    await soon(lambda: asking.requests("setWidget")[-1].get("widgetLines") is None)


async def test_what_cannot_be_seen_is_shown(asking: Omp) -> None:
    """Characters that turn the line around or clear the screen must not hide what is asked."""
    caller = await client(asking)
    command = "echo \u202e\x1b[2J\u200b " + "x" * 1000 + "; rm -rf everything"
    waiting = asyncio.create_task(caller.call("bash", {"command": command}))
    (prompt,) = await prompts(asking)
    (said,) = [text for level, text in asking.notices() if level == "warning"]
    assert "echo \\u{202e}" in said
    assert "\\u{200b}" in said
    assert not [one for one in said if one in "\u202e\x1b\u200b"]
    assert "characters)" in said, "that it is cut is told; omp's own prompt shows it whole"
    asking.answer(prompt, "Deny")
    await waiting


async def test_several_prompts_are_answered_in_any_order(asking: Omp, tmp_path: Path) -> None:
    caller = await client(asking)
    waiting = [remote_bash(caller, tmp_path / str(number), number) for number in range(3)]
    found = await prompts(asking, 3)
    by_number = {number: one for one in found for number in range(3) if f"{tmp_path}/{number};" in one["title"]}
    asking.answer(by_number[2], "Approve")
    assert (await waiting[2]).result["isError"] is False
    asking.answer(by_number[0], "Deny")
    assert (await waiting[0]).result["isError"] is True
    asking.answer(by_number[1], "Approve")
    assert (await waiting[1]).result["isError"] is False
    assert [(tmp_path / str(number)).exists() for number in range(3)] == [False, True, True]


def stubborn(caller: Client, file: Path, message_id: Any = 1) -> "asyncio.Task[Any]":
    """A call of a tool that does not care whether it was cancelled."""
    return asyncio.create_task(caller.call("stubborn", {"file": str(file)}, message_id))


@pytest.mark.parametrize("ask", [remote_bash, stubborn])
async def test_a_caller_that_cancels_is_answered_at_once_and_nothing_runs(
    asking: Omp, tmp_path: Path, ask: Callable[..., "asyncio.Task[Any]"]
) -> None:
    caller, trace = await client(asking), tmp_path / "trace"
    waiting = ask(caller, trace, "c")
    (prompt,) = await prompts(asking)
    began = asyncio.get_running_loop().time()
    await caller.message("notifications/cancelled", {"requestId": "c"})
    assert (await waiting).result["content"][0]["text"] == "cancelled by the caller"
    assert asyncio.get_running_loop().time() - began < 0.5
    await nothing_comes_of(asking, prompt, trace)


@pytest.mark.parametrize("ask", [remote_bash, stubborn])
async def test_l5_a_caller_that_hangs_up_leaves_a_start_without_done(
    asking: Omp, tmp_path: Path, ask: Callable[..., "asyncio.Task[Any]"]
) -> None:
    caller, trace = await client(asking), tmp_path / "trace"
    waiting = ask(caller, trace)
    (prompt,) = await prompts(asking)
    waiting.cancel()
    await nothing_comes_of(asking, prompt, trace)
    logged = [(record["tool"] in ("bash", "stubborn"), record["phase"]) for record in records(asking.home.audit)]
    assert logged[0] == (True, "start")
    assert (True, "done") not in logged


async def nothing_comes_of(one: Omp, prompt: Any, trace: Path) -> None:
    """omp's prompt is closed and its human told; an answer that comes all the same runs nothing: another call,
    asked for after it, runs and ends."""
    await asyncio.to_thread(one.notice, "REMOTE call withdrawn by", "info")
    await soon(lambda: [line for line in one.requests("cancel") if line["targetId"] == prompt["id"]])
    await soon(lambda: one.requests("setWidget")[-1].get("widgetLines") is None)
    one.answer(prompt, "Approve")
    second = await client(one)
    after = asyncio.create_task(second.call("write", {"path": "after.txt", "content": "x"}))
    found = await prompts(one, 2)
    one.answer(found[1], "Approve")
    assert (await after).result["isError"] is False
    assert not trace.exists()


async def test_what_a_tool_calls_in_its_turn_is_asked_about_as_remote(home: Home) -> None:
    home.settings("tools: { approvalMode: always-ask, approval: { eval: allow } }\n")
    with omp(home) as one:
        caller = await client(one)
        code = "return await tool.bash({command: 'echo inner'})"
        waiting = asyncio.create_task(caller.call("eval", {"language": "js", "code": code}))
        (prompt,) = await prompts(one)
        said = await asyncio.to_thread(one.notice, "REMOTE call", "warning")
        assert 'asked by "lab-agent 1.0": bash within eval' in said
        one.answer(prompt, "Deny")
        assert "denied" in str((await waiting).result)


async def test_no_argument_hides_behind_a_long_one(asking: Omp) -> None:
    caller = await client(asking)
    arguments = {"command": "make " + "-j4 " * 100, "env": {"PATH": "/tmp/evil"}, "cwd": "/tmp/evil"}
    waiting = asyncio.create_task(caller.call("bash", arguments))
    (prompt,) = await prompts(asking)
    (said,) = [text for level, text in asking.notices() if level == "warning"]
    assert 'env: {"PATH":"/tmp/evil"}' in said
    assert 'cwd: "/tmp/evil"' in said
    asking.answer(prompt, "Deny")
    await waiting


async def test_not_more_wait_than_a_human_can_look_at(asking: Omp, tmp_path: Path) -> None:
    caller = await client(asking)
    waiting = [remote_bash(caller, tmp_path / str(number), number) for number in range(20)]
    found = await prompts(asking, 16)
    await soon(lambda: sum(call.done() for call in waiting) == 4)
    refused = [call.result().result for call in waiting if call.done()]
    assert all(one["isError"] and one["content"][0]["text"].startswith("limit: 16 remote calls") for one in refused)
    for prompt in found:
        asking.answer(prompt, "Deny")
    await asyncio.gather(*waiting)


async def test_nothing_runs_for_a_bridge_that_was_stopped(asking: Omp, tmp_path: Path) -> None:
    caller, trace = await client(asking), tmp_path / "trace"
    waiting = remote_bash(caller, trace)
    (prompt,) = await prompts(asking)
    asking.command("/a2a restart")
    result = (await waiting).result
    assert result["isError"] is True
    assert result["content"][0]["text"] == "host unavailable: the bridge was stopped by its owner"
    await asyncio.to_thread(asking.served, 1)
    asking.answer(prompt, "Approve")
    fresh = client_of(asking, since=1)
    await fresh.open()
    await text_of(fresh, "read", path=".")
    assert not trace.exists()
