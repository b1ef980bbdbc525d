"""A connection in memory, with the real endpoint behind it: order, bounds, both directions of backpressure, the end."""

import asyncio
import json

import pytest

from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.http.connection import MAX_ANSWERED_AT_ONCE, MAX_DROPPED_BYTES, MAX_PIPELINED_BYTES
from a2a_bridge.http.server import Server, Timeouts
from a2a_bridge.tool import Call
from tests.support.asking import http_call
from tests.support.callers import TOKEN, Client, MemoryCaller, all_parsed, request
from tests.support.processes import records
from tests.support.transport import MemoryConnection

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


class Wire(MemoryConnection):
    """A connection of a client with a session."""

    def __init__(self, memory: MemoryCaller, session: str, server: Server | None = None) -> None:
        super().__init__(memory.endpoint, server)
        self.session = session

    def ping(self, number: int = 1) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode()
        return request("POST", AUTHORIZED | {"Mcp-Session-Id": self.session}, body)

    def call(self, name: str, number: int = 1, **arguments: object) -> bytes:
        return http_call(self.session, name, arguments, number)

    async def ids(self) -> list[object]:
        """Of the answers so far."""
        return [reply.json["id"] for reply in all_parsed(await self.settled())]


@pytest.fixture
async def wire(memory: MemoryCaller) -> Wire:
    return Wire(memory, await Client(memory).open())


@pytest.mark.parametrize("size", [0, 1, 7, 100])
async def test_a_pipeline_is_answered_in_order_whatever_waits(wire: Wire, memory: MemoryCaller, size: int) -> None:
    data = wire.ping(1) + wire.call("hang", 2) + wire.ping(3) + wire.call("echo", 4) + wire.ping(5)
    wire.feed(data, size)
    await memory.host.started.wait()
    assert await wire.ids() == [1]
    memory.host.release.set()
    assert await wire.ids() == [1, 2, 3, 4, 5]


async def test_what_needs_no_waiting_goes_out_at_once_in_one_write(wire: Wire) -> None:
    wire.feed(b"".join(wire.ping(number) for number in range(50)))
    assert wire.transport.writes == 1
    assert len(all_parsed(wire.transport.sent)) == 50


async def test_a_long_pipeline_leaves_turns_to_others(wire: Wire) -> None:
    many = MAX_ANSWERED_AT_ONCE + 10
    wire.feed(b"".join(wire.ping(number) for number in range(many)))
    assert len(all_parsed(wire.transport.sent)) == MAX_ANSWERED_AT_ONCE
    assert await wire.ids() == list(range(many))


async def test_a_long_pipeline_is_answered_whole_behind_a_half_close(wire: Wire) -> None:
    many = 2 * MAX_ANSWERED_AT_ONCE + 10
    wire.feed(b"".join(wire.ping(number) for number in range(many)))
    assert wire.protocol.eof_received()
    assert await wire.ids() == list(range(many))
    assert wire.transport.closed


async def test_behind_a_call_that_runs_reading_pauses_at_a_bound_and_goes_on(wire: Wire, memory: MemoryCaller) -> None:
    wire.feed(wire.call("hang", 1))
    piece = wire.ping(2) * 100
    fed = 0
    while not wire.paused():
        wire.feed(piece)
        fed += 100
        assert fed * len(wire.ping(2)) < MAX_PIPELINED_BYTES + 2 * len(piece)
    memory.host.release.set()
    while wire.paused() or len(all_parsed(wire.transport.sent)) < fed + 1:
        await asyncio.sleep(0)
    assert len(await wire.ids()) == fed + 1


async def test_a_peer_that_does_not_read_is_not_answered_further(wire: Wire) -> None:
    wire.transport.stalled = True
    for number in range(10_000):
        if not wire.paused():
            wire.feed(wire.ping(number) * 10)
            await asyncio.sleep(0)
    assert wire.paused()
    assert len(wire.transport.sent) < 256 * 1024
    wire.transport.stalled = False
    wire.transport.unsent = 0
    wire.protocol.resume_writing()
    while wire.paused():
        await asyncio.sleep(0)


@pytest.mark.parametrize("behind", ["", "ping", "part"])
async def test_t9_a_half_closed_client_gets_its_answer(wire: Wire, memory: MemoryCaller, behind: str) -> None:
    more = {"": b"", "ping": wire.ping(2), "part": wire.ping(2)[:-1]}[behind]
    wire.feed(wire.call("hang", 1) + more)
    await memory.host.started.wait()
    assert wire.protocol.eof_received()
    assert await wire.ids() == []
    memory.host.release.set()
    assert await wire.ids() == ([1, 2] if behind == "ping" else [1])
    assert wire.transport.closed
    assert memory.host.cancelled == 0


async def test_an_end_with_nothing_to_answer_closes(wire: Wire) -> None:
    wire.feed(wire.ping() + wire.ping()[:30])
    wire.protocol.eof_received()
    assert wire.transport.closed


async def test_a_half_closed_client_is_probed_with_interim_replies_while_its_call_runs(
    wire: Wire, memory: MemoryCaller
) -> None:
    wire.feed(wire.call("hang", 1))
    wire.protocol.eof_received()
    wire.protocol.probe()
    assert wire.transport.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.transport.unsent = 1
    wire.protocol.probe()
    assert wire.transport.sent.count(b"100 Continue") == 1, "a probe waits for the one before"
    wire.transport.unsent = 0
    memory.host.release.set()
    assert await wire.ids() == [1]


async def test_http_1_0_gets_no_interim_reply(wire: Wire) -> None:
    wire.feed(wire.call("hang", 1).replace(b"HTTP/1.1", b"HTTP/1.0"))
    wire.protocol.eof_received()
    wire.protocol.probe()
    assert wire.transport.sent == b""


async def test_a_lost_connection_cancels_its_call_and_runs_nothing_more(wire: Wire, memory: MemoryCaller) -> None:
    wire.feed(wire.call("hang", 1) + wire.call("echo", 2))
    await memory.host.started.wait()
    wire.protocol.connection_lost(None)
    await wire.settled()
    assert memory.host.cancelled == 1
    assert [name for name, *_ in memory.host.seen] == ["hang"]
    assert [record["phase"] for record in records(memory.audit)] == ["start", "done"]
    assert wire.transport.sent == b""


async def test_a_call_lost_before_its_first_step_is_forgotten(wire: Wire, memory: MemoryCaller) -> None:
    wire.feed(wire.call("hang", 1))
    wire.protocol.connection_lost(None)
    await wire.settled()
    assert memory.bridge.running() == []
    assert [record["phase"] for record in records(memory.audit)] == ["start", "done"]


@pytest.mark.parametrize("head", [b"Connection: close", b"Connection: keep-alive"])
@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
@pytest.mark.parametrize("name", ["", "echo"])
async def test_keep_alive_and_close(wire: Wire, head: bytes, version: bytes, name: str) -> None:
    data = wire.call(name) if name else wire.ping()
    wire.feed(data.replace(b"HTTP/1.1", version).replace(b"Host: bridge", head))
    (reply,) = all_parsed(await wire.settled())
    assert wire.transport.ended is head.endswith(b"close")
    expected = "close" if head.endswith(b"close") else "keep-alive" if version == b"HTTP/1.0" else None
    assert reply.headers.get("connection") == expected
    wire.feed(wire.ping(2))
    assert len(all_parsed(await wire.settled())) == (1 if head.endswith(b"close") else 2)


async def test_after_a_reply_that_ends_the_connection_what_comes_is_dropped_up_to_a_bound(wire: Wire) -> None:
    wire.feed(b"nonsense\r\n\r\n" + wire.ping())
    assert [reply.status for reply in all_parsed(await wire.settled())] == [400]
    assert wire.transport.ended
    for _ in range(MAX_DROPPED_BYTES // 65536):
        wire.feed(b"x" * 65536)
    assert not wire.transport.closed
    wire.feed(b"x")
    assert wire.transport.aborted


async def test_starts_that_come_together_are_written_together_before_any_tool_runs(
    memory: MemoryCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1: one write for the starts, one for the ends; the records are on disk before tools run and replies are sent."""
    session = await Client(memory).open()
    wires = [Wire(memory, session) for _ in range(5)]
    memory.journal._later = lambda flush: None
    seen: list[tuple[str, int]] = []
    call = type(memory.host).call

    def watched(host: FakeHost, name: str, arguments: object, about: Call) -> object:
        seen.append(("run", len(records(memory.audit))))
        return call(host, name, arguments, about)

    monkeypatch.setattr(type(memory.host), "call", watched)
    for wire in wires:
        wire.feed(wire.call("echo", text="x"))
        assert records(memory.audit) == [], "they are still gathered"
    while not all(wire.transport.sent for wire in wires):
        sent = sum(bool(wire.transport.sent) for wire in wires)
        done = sum(record["phase"] == "done" for record in records(memory.audit))
        assert sent <= done
        await asyncio.sleep(0)
    assert seen == [("run", 5)] * 5
    assert [record["phase"] for record in records(memory.audit)] == ["start"] * 5 + ["done"] * 5


class TestTime:
    """The server's ticks, a second each, by hand."""

    @pytest.fixture
    def server(self, memory: MemoryCaller) -> Server:
        return Server(memory.endpoint, lambda _: None, 100, timeouts=Timeouts())

    @pytest.fixture
    async def timed(self, memory: MemoryCaller, server: Server) -> Wire:
        return Wire(memory, await Client(memory).open(), server)

    async def lasts(self, wire: Wire, server: Server, most: int = 1000, data: bytes = b"") -> int:
        """Ticks until the connection ends, `data` being fed a byte at each."""
        for tick in range(1, most):
            wire.feed(data[tick - 1 : tick])
            server.tick()
            if wire.transport.closed:
                return tick
        return most

    async def test_nothing_at_all(self, timed: Wire, server: Server) -> None:
        assert await self.lasts(timed, server) == Timeouts().head

    async def test_a_head_that_trickles(self, timed: Wire, server: Server) -> None:
        assert await self.lasts(timed, server, data=timed.ping()) == Timeouts().head

    async def test_an_idle_connection(self, timed: Wire, server: Server) -> None:
        timed.feed(timed.ping())
        assert await self.lasts(timed, server) == Timeouts().idle

    async def test_a_head_after_idle_time_has_all_of_its_own(self, timed: Wire, server: Server) -> None:
        timed.feed(timed.ping())
        assert await self.lasts(timed, server, 200) == 200
        timed.feed(timed.ping()[:20])
        assert await self.lasts(timed, server) == Timeouts().head

    async def test_a_body_that_stops(self, timed: Wire, server: Server) -> None:
        timed.feed(timed.ping()[:-1])
        assert await self.lasts(timed, server) == Timeouts().body

    async def test_a_body_that_grows(self, timed: Wire, server: Server) -> None:
        for byte in timed.ping():
            timed.feed(bytes([byte]))
            if timed.protocol.state == "body":
                assert await self.lasts(timed, server, Timeouts().body - 1) == Timeouts().body - 1
        assert (await timed.ids()) == [1]

    async def test_a_call_takes_any_time(self, timed: Wire, server: Server, memory: MemoryCaller) -> None:
        timed.feed(timed.call("hang"))
        assert await self.lasts(timed, server, 5000) == 5000
        memory.host.release.set()
        assert await timed.ids() == [1]
        assert await self.lasts(timed, server) == Timeouts().idle

    async def test_a_peer_that_does_not_take_its_reply(self, timed: Wire, server: Server) -> None:
        timed.transport.stalled = True
        timed.feed(timed.call("echo", text="x" * 100_000))
        await timed.settled()
        for _ in range(3):
            assert await self.lasts(timed, server, Timeouts().write - 1) == Timeouts().write - 1
            timed.transport.unsent -= 1  # it takes a byte
        assert await self.lasts(timed, server) <= Timeouts().write + 2

    async def test_the_rest_of_a_refused_connection(self, timed: Wire, server: Server) -> None:
        timed.feed(b"nonsense\r\n\r\n")
        assert await self.lasts(timed, server) == Timeouts().linger


class TestNumbers:
    """Bounds on connections."""

    async def test_the_oldest_without_authentication_makes_room(self, memory: MemoryCaller) -> None:
        session = await Client(memory).open()
        server = Server(memory.endpoint, lambda _: None, 100, max_unauthenticated=3)
        good = Wire(memory, session, server)
        good.feed(good.ping())
        strangers = [Wire(memory, session, server) for _ in range(5)]
        strangers[0].feed(b"GET / HTTP/1.1\r\n\r\n")
        await good.settled()
        assert [one.transport.aborted for one in strangers] == [True, True, False, False, False]
        good.feed(good.ping(2))
        assert await good.ids() == [1, 2]

    async def test_at_most_as_many_as_there_are_files_for_and_the_owner_hears_of_it_once(
        self, memory: MemoryCaller
    ) -> None:
        session = await Client(memory).open()
        reports: list[str] = []
        server = Server(memory.endpoint, reports.append, 3)
        good = [Wire(memory, session, server) for _ in range(3)]
        for one in good:
            one.feed(one.ping())
        late = [Wire(memory, session, server) for _ in range(3)]
        assert [one.transport.aborted for one in [*good, *late]] == [False] * 3 + [True] * 3
        assert len(reports) == 1
        assert "3 connections are open" in reports[0]

    async def test_close_ends_all_of_them(self, memory: MemoryCaller) -> None:
        session = await Client(memory).open()
        server = Server(memory.endpoint, lambda _: None, 100)
        wires = [Wire(memory, session, server) for _ in range(3)]
        wires[0].feed(wires[0].ping())
        wires[1].feed(wires[1].ping()[:-1])
        await server.close()
        assert all(one.transport.closed for one in wires)
