"""The host omp against an extension in memory: what is asked, what becomes of each answer, and of silence."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from a2a_bridge.errors import HostUnavailable, ToolError, UnknownTool, Withdrawn
from a2a_bridge.hosts.omp import OmpHost
from a2a_bridge.hosts.omp.host import CANCEL_SECONDS, LINK_VERSION, PING_SECONDS, SILENT_SECONDS, WITHDRAWN
from a2a_bridge.peer import Handler, Peer
from a2a_bridge.tool import Call, Image, Result, Text, Tool
from tests.test_peer import Pipe

CALL = Call("call-1", "session", "lab-agent 1.0")
HELLO = {"link": LINK_VERSION, "omp": "18.2.3", "cwd": "/home/me/project"}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, waiting))
        await waiting

    async def advance(self, seconds: float) -> None:
        self._now += seconds
        for due, waiting in self._sleepers:
            if due <= self._now and not waiting.done():
                waiting.set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Extension:
    """The other end of the link. `calls` waits until it is told; `seen` is what it was asked."""

    def __init__(self, host_reader: Pipe, host_writer: Pipe, hello: Mapping[str, Any]) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.answer: Any = {"content": [{"type": "text", "text": "done"}], "isError": False}
        self.gate = asyncio.Event()
        self.gate.set()
        self.awake = asyncio.Event()
        self.awake.set()
        self._pipe = host_reader
        names = ("hello", "ping", "tools/list", "tools/call", "cancel", "ready", "notify", "status", "failed")
        answers: dict[str, Any] = {"hello": dict(hello), "ping": {}}
        handlers: dict[str, Handler] = {name: self._handler(name, answers.get(name)) for name in names}
        self.peer = Peer(host_writer.reader, host_reader, handlers, pytest.fail)

    def _handler(self, name: str, fixed: Any) -> Handler:
        async def handle(params: Any) -> Any:
            await self.awake.wait()
            self.seen.append((name, params))
            if name == "tools/list":
                return {"tools": self.tools}
            if name == "tools/call":
                await self.gate.wait()
                return self.answer
            return fixed

        return handle

    def asked(self, name: str) -> list[Any]:
        return [params for seen, params in self.seen if seen == name]

    def refuse(self, number: int, code: int, message: str) -> None:
        """Answer a request by an error."""
        error = b'{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"%b"}}\n'
        self._pipe.reader.feed_data(error % (number, code, message.encode()))

    def leave(self) -> None:
        self._pipe.reader.feed_eof()


class Pair:
    """A host and the extension that it asks."""

    def __init__(self, hello: Mapping[str, Any] = HELLO) -> None:
        incoming, outgoing = Pipe(), Pipe()
        self.clock = Clock()
        self.reports: list[str] = []
        self.host = OmpHost(incoming.reader, outgoing, self.reports.append, self.clock.sleep)
        self.extension = Extension(incoming, outgoing, hello)
        self._running = asyncio.ensure_future(self.extension.peer.run())

    async def call(self, name: str = "bash", arguments: Any = None) -> Result:
        return await self.host.call(name, arguments or {}, CALL)

    async def close(self) -> None:
        await self.host.close()
        self._running.cancel()
        await settle()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    one = Pair()
    await one.host.start()
    yield one
    await one.close()


async def test_it_is_named_after_its_omp(pair: Pair) -> None:
    assert pair.host.name == "omp 18.2.3 in /home/me/project"


@pytest.mark.parametrize(
    ("hello", "words"),
    [
        ({**HELLO, "link": 2}, "speaks version 2 of the link, this bridge version 1; run a2a-bridge omp install"),
        ({"link": "one"}, "does not answer as it should"),
    ],
)
async def test_an_extension_of_another_kind_is_refused(hello: Mapping[str, Any], words: str) -> None:
    pair = Pair(hello)
    with pytest.raises(HostUnavailable, match=words):
        await pair.host.start()
    await pair.close()


async def test_an_extension_that_says_nothing_is_refused() -> None:
    pair = Pair()
    pair.extension.awake.clear()
    starting = asyncio.ensure_future(pair.host.start())
    await settle()
    await pair.clock.advance(PING_SECONDS)
    await pair.clock.advance(SILENT_SECONDS)
    with pytest.raises(HostUnavailable, match="does not answer"):
        await starting
    await pair.close()


async def test_the_registry_is_asked_anew_and_the_same_while_it_is_the_same(pair: Pair) -> None:
    pair.extension.tools = [{"name": "read", "description": "reads", "inputSchema": {"type": "object"}}]
    first = await pair.host.tools()
    assert first == (Tool("read", "reads", {"type": "object"}),)
    assert await pair.host.tools() is first
    pair.extension.tools = []
    assert await pair.host.tools() == ()
    assert len(pair.extension.asked("tools/list")) == 3


async def test_m5_a_call_goes_through_unchanged(pair: Pair) -> None:
    arguments = {"a": [1, None, 10**30, "\u2028"], "é": {}}
    assert await pair.call("bash", arguments) == Result((Text("done"),))
    (asked,) = pair.extension.asked("tools/call")
    assert asked == {"id": "call-1", "name": "bash", "arguments": arguments, "client": "lab-agent 1.0"}


async def test_m4_blocks(pair: Pair) -> None:
    blocks = [{"type": "image", "data": "AA==", "mimeType": "image/png"}, {"type": "audio", "data": "x"}]
    pair.extension.answer = {"content": blocks, "isError": True}
    assert await pair.call() == Result((Image("AA==", "image/png"), Text('{"type":"audio","data":"x"}')), is_error=True)


async def test_m6_an_unknown_tool(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call("nope"))
    await settle()
    pair.extension.refuse(2, -32602, "nope")
    with pytest.raises(UnknownTool, match="'nope' is not exposed"):
        await call


async def test_another_error_is_the_tools(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    pair.extension.refuse(2, -32603, "it broke")
    with pytest.raises(ToolError, match="it broke"):
        await call


async def test_an_omp_that_is_gone(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    pair.extension.leave()
    with pytest.raises(HostUnavailable, match="omp has ended"):
        await call
    assert pair.host.gone.is_set()
    with pytest.raises(HostUnavailable, match="omp has ended"):
        await pair.call()


async def test_a_cancel_waits_for_the_tools_end(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    call.cancel()
    await settle()
    assert pair.extension.asked("cancel") == [{"id": "call-1"}]
    assert not call.done(), "something of it may still be at work"
    pair.extension.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_cancel_does_not_wait_for_ever(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    call.cancel()
    await settle()
    await pair.clock.advance(CANCEL_SECONDS)
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_l5_a_call_that_had_not_begun_is_withdrawn(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    call.cancel()
    await settle()
    pair.extension.refuse(2, WITHDRAWN, "withdrawn")
    with pytest.raises(Withdrawn):
        await call


async def test_an_omp_that_works_is_not_given_up(pair: Pair) -> None:
    pair.extension.gate.clear()
    call = asyncio.ensure_future(pair.call())
    await settle()
    for _ in range(100):
        await pair.clock.advance(PING_SECONDS)
    assert len(pair.extension.asked("ping")) == 100
    assert not call.done()
    pair.extension.gate.set()
    assert await call == Result((Text("done"),))
    for _ in range(5):
        await pair.clock.advance(PING_SECONDS)
    assert len(pair.extension.asked("ping")) <= 101, "an idle omp is left alone"


async def test_an_omp_that_is_silent_is_given_up_and_found_again(pair: Pair) -> None:
    pair.extension.gate.clear()
    calls = [asyncio.ensure_future(pair.call()) for _ in range(3)]
    await settle()
    pair.extension.awake.clear()
    await pair.clock.advance(PING_SECONDS)
    await pair.clock.advance(SILENT_SECONDS - 0.1)
    assert not any(call.done() for call in calls)
    await pair.clock.advance(0.1)
    for call in calls:
        with pytest.raises(HostUnavailable, match="does not answer"):
            await call
    with pytest.raises(HostUnavailable, match="does not answer"):
        await pair.call()
    assert len(pair.extension.asked("tools/call")) == 3, "what is refused is not sent, to be run later"
    pair.extension.awake.set()
    pair.extension.gate.set()
    await settle()
    assert len(pair.extension.asked("cancel")) == 3
    assert await pair.call() == Result((Text("done"),))


async def test_what_its_human_sees(pair: Pair) -> None:
    pair.host.serving("http://127.0.0.1:7001/", 7001, "abcdef…")
    await settle()
    message = "A2A bridge listening on http://127.0.0.1:7001/ (token abcdef…)"
    assert pair.extension.asked("ready") == [{"port": 7001}]
    assert pair.extension.asked("notify") == [{"message": message, "level": "info"}]
    assert pair.extension.asked("status") == [{"text": "A2A http://127.0.0.1:7001/"}]
    pair.extension.gate.clear()
    calls = [asyncio.ensure_future(pair.call()) for _ in range(2)]
    await settle()
    await pair.clock.advance(1)
    assert pair.extension.asked("status")[-1] == {"text": "A2A http://127.0.0.1:7001/ · 2 calls"}
    pair.extension.gate.set()
    await asyncio.gather(*calls)
    await pair.clock.advance(1)
    assert pair.extension.asked("status")[-1] == {"text": "A2A http://127.0.0.1:7001/"}


async def test_a_busy_second_does_not_redraw_for_each_call(pair: Pair) -> None:
    pair.host.serving("http://127.0.0.1:7001/", 7001, "abcdef…")
    for _ in range(50):
        await pair.call()
    await pair.clock.advance(1)
    assert len(pair.extension.asked("status")) == 1


async def test_what_its_human_asks(pair: Pair) -> None:
    async def command(params: Any) -> object:
        return {"message": params["word"], "level": "info"}

    pair.host.handlers["command"] = command
    assert await pair.extension.peer.request("command", {"word": "status"}) == {"message": "status", "level": "info"}
