"""A bridge that asks its owner, served in this process over real HTTP; and the owner's hand, here and in a process."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_bridge import config
from a2a_bridge.approval.requests import ApprovalRequest
from a2a_bridge.calls import FinishedCall
from a2a_bridge.control import client, messages
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.tool import Host
from a2a_bridge.wiring import Paths, RunningBridge, run_bridge
from tests.support.callers import TOKEN, Reply, request
from tests.support.processes import Served

ALWAYS_ASK: dict[str, Any] = {"token": TOKEN, "tools": {"approvalMode": "always-ask"}}


class Lent:
    """The bridge, its host, and what happens in order: questions, and calls that have ended."""

    def __init__(self, live: RunningBridge, host: Host) -> None:
        self.live = live
        self.host = host
        self.told: asyncio.Queue[ApprovalRequest | FinishedCall] = asyncio.Queue()

    def order(self, method: str, **params: object) -> Any:
        """What the owner orders, done when this returns: no other task has had a turn meanwhile."""
        return at_once(self.live.handlers[method](params or None))

    async def question(self) -> ApprovalRequest:
        async with asyncio.timeout(20):
            told = await self.told.get()
        assert isinstance(told, ApprovalRequest), told
        return told

    async def ended(self) -> FinishedCall:
        async with asyncio.timeout(20):
            told = await self.told.get()
        assert isinstance(told, FinishedCall), told
        return told


def at_once(work: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    assert isinstance(work, Coroutine)
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


@asynccontextmanager
async def lent(home: Path, host: Host | None = None, **settings: object) -> AsyncIterator[Lent]:
    """On the loop that runs; it asks about all but reading, if the settings do not say otherwise."""
    file = home / "bridge.json"
    file.write_text(json.dumps(ALWAYS_ASK | settings))
    file.chmod(0o600)
    one: Lent | None = None
    host = FakeHost() if host is None else host
    waiting: list[ApprovalRequest | FinishedCall] = []

    def watch(told: ApprovalRequest | FinishedCall) -> None:
        (one.told.put_nowait if one is not None else waiting.append)(told)

    places = Paths(home / "audit.log", home / "a2a-bridge")
    async with run_bridge(config.load(file), host, places, lambda _: None, watch) as live:
        one = Lent(live, host)
        yield one


def http_call(session: str, name: str, arguments: Mapping[str, object], message_id: object = 1) -> bytes:
    """A `tools/call` as it goes over the wire."""
    message = {"jsonrpc": "2.0", "id": message_id, "method": "tools/call"}
    body = json.dumps({**message, "params": {"name": name, "arguments": arguments}}).encode()
    return request("POST", {"Authorization": f"Bearer {TOKEN}", "Mcp-Session-Id": session}, body)


async def connected(port: int) -> socket.socket:
    """A socket that waits for nothing."""
    link = socket.socket()
    link.setblocking(False)
    await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", port))
    return link


def control(served: Served) -> Path:
    """The bridge's control socket: where commands look for it, or where the scripted bridge has it."""
    found = [served.home / name / f"{served.process.pid}.sock" for name in ("a2a-bridge", "control")]
    return next(path for path in found if path.exists())


def ask(served: Served, method: str, **params: object) -> Any:
    """The owner asks the process, as the commands do."""
    return client.ask(control(served), method, params or None)


def waiting(served: Served) -> list[dict[str, Any]]:
    """The questions that wait."""
    return [one for one in ask(served, messages.APPROVALS) if not one["withdrawn"]]


async def question(served: Served) -> dict[str, Any]:
    """The one that waits, as soon as it does."""
    async with asyncio.timeout(20):
        while not (found := waiting(served)):
            await asyncio.sleep(0.005)
    (one,) = found
    return one


async def answer(call: asyncio.Task[Reply]) -> Reply:
    """Which is near, if nothing is broken."""
    async with asyncio.timeout(10):
        return await call


def words(reply: Any) -> str:
    """The text of a call that was answered with an error."""
    assert reply.status == 200, reply
    assert reply.result["isError"] is True, reply.result
    return str(reply.result["content"][0]["text"])


def text(reply: Any) -> str:
    """The text of one that went well."""
    assert reply.result["isError"] is False, reply.result
    return str(reply.result["content"][0]["text"])
