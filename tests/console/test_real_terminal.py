"""The console in a real terminal, beside a real bridge, with the official SDK's client calling."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from tests.peers.test_python_sdk import connected
from tests.support.callers import TOKEN
from tests.support.omp import alive, children, until
from tests.support.processes import Served, a2a, environment, records
from tests.support.tmux import Tmux

KEYS = "? keys"
PROMPT = "[a] approve once"


class Desk(Tmux):
    """`a2a-bridge serve` on a terminal, as its owner has it."""

    def __init__(self, home: Path, *options: str, width: int = 80, height: int = 24) -> None:
        file = home / "bridge.json"
        file.write_text(json.dumps({"token": TOKEN}))
        file.chmod(0o600)
        # Its own errors go to a file, where the console must not follow them.
        words = f"exec {sys.executable} -m a2a_bridge serve {' '.join(options)} 2> {home}/stderr"
        env = {**environment(home), "TERM": "xterm-256color"}
        super().__init__(["sh", "-c", words], env, home, width, height)
        self.home = home

    @property
    def bridge(self) -> int:
        return self.pane

    def served(self) -> Served:
        status = json.loads(a2a(self.home, "status", "--json").stdout)
        return Served(status["url"], TOKEN, self.home, None)  # type: ignore[arg-type]


@contextmanager
def serving(home: Path, *options: str, **size: int) -> Iterator[Desk]:
    one = Desk(home, *options, **size)
    try:
        one.shows("http://127.0.0.1:", KEYS)
        yield one
    finally:
        one.end(set(children(one.pane)))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with serving(tmp_path, "--approval-mode", "always-ask") as one:
        yield one


async def sees(desk: Tmux, *words: str, lacks: tuple[str, ...] = ()) -> str:
    """The next such screen, while our own calls go on."""
    return await asyncio.to_thread(lambda: desk.shows(*words, lacks=lacks))


def asks(agent: Client, command: str) -> "asyncio.Task[Any]":
    return asyncio.create_task(agent.call_tool("bash", {"command": command}))


async def opens(desk: Desk, command: str) -> None:
    """The question about that command, and its first half second over."""
    await sees(desk, "1 WAITING", command)
    desk.press("Enter")
    await sees(desk, "APPROVAL 1 of 1", command, PROMPT)  # the answers are shown when keys count


def said(result: Any) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_approve(desk: Desk) -> None:
    async with connected(desk.served()) as agent:
        call = asks(agent, "echo $((6 * 7)) > made; cat made")
        await opens(desk, "echo $((6 * 7)) > made; cat made")
        desk.press("Enter")
        desk.press("Space")
        assert not (desk.home / "made").exists(), "neither Enter nor Space approves"
        desk.press("a")
        result = await call
        assert (said(result), result.is_error) == ("42\n", False)
        await sees(desk, "1 done", "✓", "approved", lacks=(PROMPT,))
        assert records(desk.home / "audit.log")[-1]["decided"] == "approved by the owner"


async def test_deny_with_a_reason(desk: Desk) -> None:
    async with connected(desk.served()) as agent:
        call = asks(agent, "touch made")
        await opens(desk, "touch made")
        desk.press("r")
        desk.type("aasstt not on Fridays")
        await sees(desk, "aasstt not on Fridays")
        desk.press("Enter")
        result = await call
        assert said(result).startswith("denied: aasstt not on Fridays")
        assert result.is_error
        assert not (desk.home / "made").exists(), "letters of a reason approve nothing"
        await sees(desk, "1 failed", "✗", lacks=(PROMPT,))


async def test_a_grant_for_the_session(desk: Desk) -> None:
    async with connected(desk.served()) as agent:
        call = asks(agent, "echo again")
        await opens(desk, "echo again")
        desk.press("s")
        assert said(await call) == "again\n"
        assert said(await agent.call_tool("bash", {"command": "echo again"})) == "again\n"
        await sees(desk, "2 done")
        desk.press("g")
        await sees(desk, "GRANTS", "echo again", "this call, for the session")
        desk.press("x")
        await asyncio.to_thread(until, lambda: "nothing is granted" in a2a(desk.home, "grants").stdout, "it is revoked")
        desk.press("Escape")
        call = asks(agent, "echo again")
        await sees(desk, "1 WAITING", "echo again")
        assert "denied" in a2a(desk.home, "deny", "2").stdout
        assert said(await call).startswith("denied: ")


async def test_cancel_a_call_that_runs(tmp_path: Path) -> None:
    with serving(tmp_path) as desk:
        async with connected(desk.served()) as agent:
            call = asks(agent, "echo $$ > pid; exec sleep 1000")
            await sees(desk, "1 running", "exec sleep 1000")
            await asyncio.to_thread(until, lambda: (tmp_path / "pid").exists(), "the command runs")
            pid = int(await asyncio.to_thread(until, (tmp_path / "pid").read_text, "it has told its number"))
            desk.press("x")
            await sees(desk, "y yes")
            desk.press("y")
            assert said(await call) == "cancelled by the owner"
            await asyncio.to_thread(until, lambda: not alive(pid), "its process has ended")
            await sees(desk, "1 failed", "0 running")


async def test_pause_and_resume(tmp_path: Path) -> None:
    with serving(tmp_path) as desk:
        async with connected(desk.served()) as agent:
            call = asks(agent, "sleep 1000")
            await sees(desk, "1 running")
            desk.press("p")
            assert said(await call).startswith("paused by the owner; ")
            await sees(desk, "PAUSED")
            assert said(await agent.call_tool("bash", {"command": "echo x"})).startswith("paused by the owner; ")
            desk.press("p")
            await sees(desk, "y yes")
            desk.press("y")
            await sees(desk, "0 running", lacks=("PAUSED",))
            assert said(await agent.call_tool("bash", {"command": "echo x"})) == "x\n"


async def test_rotate(desk: Desk) -> None:
    desk.press("R")
    await sees(desk, "y yes")
    desk.press("y")
    await sees(desk, "rotated", lacks=(f"token {TOKEN[:6]}",))
    token = json.loads((desk.home / "bridge.json").read_text())["token"]
    assert token != TOKEN
    await sees(desk, f"token {token[:6]}…", lacks=(token,))


async def test_the_title_and_the_size(tmp_path: Path) -> None:
    with serving(tmp_path, "--approval-mode", "always-ask", width=200, height=50) as desk:
        async with connected(desk.served()) as agent:
            call = asks(agent, "echo wide")
            await sees(desk, "1 WAITING", "echo wide")
            assert len(desk.screen().rstrip("\n").split("\n")) == 50
            await asyncio.to_thread(until, lambda: "1" in desk.title(), "the title tells of it")
            assert "approved" in a2a(desk.home, "approve", "1").stdout, "from another terminal"
            assert said(await call) == "wide\n"
            await sees(desk, "1 done", lacks=("WAITING",))


def test_q_asks_and_ends_the_bridge(desk: Desk) -> None:
    desk.press("q")
    desk.shows("stop the bridge")
    desk.press("y")
    until(lambda: not alive(desk.bridge), "the bridge has ended")


def test_a_signal_ends_both(desk: Desk) -> None:
    (console,) = children(desk.bridge, "console")
    os.kill(desk.bridge, 15)
    until(lambda: not alive(desk.bridge) and not alive(console), "both have ended")


def test_a_console_that_dies_leaves_the_bridge(desk: Desk) -> None:
    """And lines take the place of the screen."""
    (console,) = children(desk.bridge, "console")
    os.kill(console, 9)
    desk.shows("A2A bridge listening on http://127.0.0.1:")
    call = a2a(desk.home, "call", "read", "path=.")
    assert call.returncode == 0
    desk.shows("read . a2a-bridge", "✓")


async def test_an_attached_console_outlives_the_bridge(tmp_path: Path) -> None:
    with serving(tmp_path) as desk:
        words = [sys.executable, "-m", "a2a_bridge", "console", "--pid", str(desk.bridge)]
        other = Tmux(words, {**environment(tmp_path), "TERM": "xterm-256color"}, tmp_path, 80, 24)
        try:
            other.shows("http://127.0.0.1:", KEYS)
            os.kill(desk.bridge, 15)
            other.shows("the bridge has ended")
            other.press("q")
            until(lambda: not alive(other.pane), "it has left")
        finally:
            other.end(set())


def test_without_a_terminal_it_says_what_to_do(tmp_path: Path) -> None:
    ended = a2a(tmp_path, "console")
    assert ended.returncode == 1
    assert "the console needs a terminal" in ended.stderr
