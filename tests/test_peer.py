"""The JSON-RPC peer: both ends ask, answers come in any order, and a link that breaks fails what waits."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_bridge.errors import ControlError, PeerError
from a2a_bridge.peer import LONGEST_LINE, MOST_BAD_LINES, MOST_UNREAD_BYTES, Handler, Peer
from a2a_bridge.wire.framing import Lines
from a2a_bridge.wire.tolerant_json import read_object


class Pipe:
    """One direction in memory: what is written is read at the other end."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=LONGEST_LINE)

    def write(self, data: bytes) -> None:
        self.reader.feed_data(data)

    @property
    def transport(self) -> asyncio.WriteTransport:
        return Unread(self)


class Unread(asyncio.WriteTransport):
    """As much of a transport as a peer looks at."""

    held = 0

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def get_write_buffer_size(self) -> int:
        return self.held

    def abort(self) -> None:
        self._pipe.reader.feed_eof()


class Link:
    """Two peers joined by two pipes; `there` and `back` allow raw bytes to be put in."""

    def __init__(self, near: Mapping[str, Handler], far: Mapping[str, Handler]) -> None:
        self.there, self.back = Pipe(), Pipe()
        self.reports: list[str] = []
        self.near = Peer(self.back.reader, self.there, near, self.reports.append)
        self.far = Peer(self.there.reader, self.back, far, self.reports.append)


@asynccontextmanager
async def linked(
    near: Mapping[str, Handler] | None = None, far: Mapping[str, Handler] | None = None
) -> AsyncIterator[Link]:
    link = Link(near or {}, far or {})
    running = [asyncio.create_task(peer.run()) for peer in (link.near, link.far)]
    try:
        yield link
    finally:
        link.there.reader.feed_eof()
        link.back.reader.feed_eof()
        await asyncio.gather(*running)


async def echo(params: Any) -> object:
    return params


async def test_both_ends_ask() -> None:
    async with linked({"echo": echo}, {"echo": echo}) as link:
        assert await link.near.request("echo", {"a": "\u2028\n😀"}) == {"a": "\u2028\n😀"}
        assert await link.far.request("echo", [1]) == [1]


async def test_answers_come_in_any_order() -> None:
    gate = asyncio.Event()

    async def slow(_: Any) -> object:
        await gate.wait()
        return "slow"

    async with linked(far={"slow": slow, "echo": echo}) as link:
        waiting = asyncio.create_task(link.near.request("slow"))
        assert await link.near.request("echo", "quick") == "quick"
        gate.set()
        assert await waiting == "slow"


async def test_errors_have_their_codes_and_a_bug_says_nothing() -> None:
    async def refuses(_: Any) -> object:
        raise ControlError("not now")

    async def breaks(_: Any) -> object:
        raise RuntimeError("inner detail")

    async with linked(far={"refuses": refuses, "breaks": breaks}) as link:
        for method, code, words in (("none", -32601, "no method 'none'"), ("refuses", -32000, "not now")):
            with pytest.raises(PeerError, match=words) as raised:
                await link.near.request(method)
            assert raised.value.code == code
        with pytest.raises(PeerError, match=r"^internal error$"):
            await link.near.request("breaks")
        assert "inner detail" in link.reports[-1]


async def test_a_notification_gets_no_answer() -> None:
    seen = asyncio.Event()

    async def note(_: Any) -> object:
        seen.set()
        return "ignored"

    async with linked(far={"note": note, "echo": echo}) as link:
        link.near.notify("note")
        await seen.wait()
        assert await link.near.request("echo", 1) == 1
        assert not link.reports


@pytest.mark.parametrize(
    ("sent", "read"),
    [(b'"<\\ud800>"', "<\ufffd>"), (b"1" + b"0" * 30, 10**30), (b'{"a":["\\udfff"],"a":1}', {"a": 1})],
)
async def test_legal_json_that_the_fast_decoder_refuses_is_answered(sent: bytes, read: Any) -> None:
    """Or a request that holds it would never end."""

    async def hang(_: Any) -> object:
        return await asyncio.Event().wait()

    async with linked(far={"hang": hang}) as link:
        waiting = asyncio.create_task(link.near.request("hang"))
        await asyncio.sleep(0)
        link.back.reader.feed_data(b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % sent)
        assert await waiting == read


@pytest.mark.parametrize("value", ["half \ud800", {"\udfff": 1}, 10**30, [["\u2028"]]])
async def test_values_that_utf_8_cannot_say_are_sent(value: Any) -> None:
    async with linked(far={"echo": echo}) as link:
        sent = json.dumps(value).encode()
        assert await link.near.request("echo", value) == read_object(b'{"v":%b}' % sent)["v"].value  # type: ignore[index]


@pytest.mark.parametrize("line", [b"garbage", b"[1]", b"[" * 100_000, b'{"id":{}}', b"\xff"])
async def test_a_line_that_is_no_message_is_dropped(line: bytes) -> None:
    async with linked(far={"echo": echo}) as link:
        link.there.write(line + b"\n\n  \n" + b'{"id":999,"result":1}\n')
        assert await link.near.request("echo", 1) == 1
        assert len(link.reports) == 1


async def test_an_end_that_sends_no_messages_is_cut_off() -> None:
    """Each bad line costs the owner one to read, and the loop its time."""
    async with linked(far={"echo": echo}) as link:
        link.there.write(b"garbage\n" * 10_000)
        while len(link.reports) < MOST_BAD_LINES:
            await asyncio.sleep(0)
        link.there.write(b"garbage\n" * 10_000)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(link.reports) == MOST_BAD_LINES


async def test_a_link_that_closes_fails_what_waits_and_what_comes() -> None:
    stopped = asyncio.Event()

    async def hang(_: Any) -> object:
        try:
            return await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(far={"hang": hang}) as link:
        waiting = asyncio.create_task(link.near.request("hang"))
        await asyncio.sleep(0)
        link.back.reader.feed_eof()
        with pytest.raises(PeerError, match="the link was closed"):
            await waiting
        with pytest.raises(PeerError, match="the link was closed"):
            await link.near.request("hang")
        link.near.notify("hang")
        link.there.reader.feed_eof()
        await stopped.wait()


async def test_a_peer_that_never_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(far={"echo": echo}) as link:
        monkeypatch.setattr(Unread, "held", MOST_UNREAD_BYTES + 1)
        link.near.notify("echo")
        assert link.reports == ["a link was cut: its other end asks and does not read"]
        with pytest.raises(PeerError, match="the link was cut"):
            await link.near.request("echo")


def test_a_line_has_a_longest_length() -> None:
    lines = Lines(longest=10)
    assert lines.feed(b"0123456789\n") == [b"0123456789"]
    lines.feed(b"01234")
    with pytest.raises(PeerError, match="longer than 10 bytes"):
        lines.feed(b"567890")
