"""M1 to M9, and cancelling."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.tool import Tool
from a2a_bridge.wire import jsonrpc
from a2a_bridge.wire.mcp import content_block
from tests.support.callers import Client, HttpCaller, MemoryCaller, read_reply, request
from tests.support.processes import records

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "omp-a2a-bridge", "version": "0.1.0"},
}


@pytest.mark.parametrize("params", [None, {}, [], "x", {"protocolVersion": "1999-01-01"}, {"clientInfo": 5}])
async def test_m1_initialize_answers_one_thing(client: Client, params: Any) -> None:
    reply = await client.message("initialize", params, message_id=3)
    assert reply.json == {"jsonrpc": "2.0", "id": 3, "result": INITIALIZED}


async def test_m2_ping_answers_while_calls_hang(client: Client) -> None:
    hanging = [asyncio.create_task(client.call("hang", message_id=f"h{number}")) for number in range(20)]
    assert (await client.message("ping")).result == {}
    for number in range(20):
        await cancelled(client, f"h{number}", hanging[number])


async def cancelled(client: Client, message_id: Any, hanging: "asyncio.Task[Any]") -> Any:
    """Send cancels until the call has begun and ended; its reply."""
    while not hanging.done():
        await client.message("notifications/cancelled", {"requestId": message_id}, message_id=None)
        await asyncio.wait([hanging], timeout=0.02)
    return hanging.result()


async def test_m3_the_list_has_exactly_three_keys_and_no_cursor(client: Client) -> None:
    listed = (await client.message("tools/list", {"cursor": "ignored"})).result
    assert set(listed) == {"tools"}
    for tool in listed["tools"]:
        assert set(tool) == {"name", "description", "inputSchema"}
        assert tool["inputSchema"]["type"] == "object"
    names = [tool["name"] for tool in listed["tools"]]
    assert "echo" in names
    assert "mcp__far_echo" in names
    assert "fail" not in names, "it is denied"


async def test_m3_the_registry_is_asked_anew(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    before = (await client.message("tools/list")).result["tools"]
    memory.host.registry = (*memory.host.registry, Tool("late", "came later", {"type": "object"}))
    after = (await client.message("tools/list")).result["tools"]
    assert [tool["name"] for tool in after if tool not in before] == ["late"]


async def test_m3_a_list_that_is_changed_in_place_is_seen(
    memory: MemoryCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(memory)
    await client.open()
    registry = [Tool("one", "", {"type": "object"})]

    async def tools(_: FakeHost) -> list[Tool]:
        return registry

    monkeypatch.setattr(FakeHost, "tools", tools)
    monkeypatch.setattr(FakeHost, "known_tools", None)
    assert len((await client.message("tools/list")).result["tools"]) == 1
    registry.append(Tool("two", "", {"type": "object"}))
    assert len((await client.message("tools/list")).result["tools"]) == 2


async def test_m4_results(client: Client) -> None:
    reply = await client.call("echo", {"text": "hallo"})
    assert reply.result == {"content": [{"type": "text", "text": "hallo"}], "isError": False}
    image, text = (await client.call("image")).result["content"]
    assert set(image) == {"type", "data", "mimeType"}
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert text == {"type": "text", "text": "a pixel"}


async def test_m4_what_utf8_cannot_say_becomes_u_fffd(client: Client) -> None:
    assert (await client.call("surrogate")).result["content"][0]["text"] == "lone \ufffd surrogate"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "resource", "uri": "x"},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "image", "data": "x"},
        {"type": "audio", "data": "x", "mimeType": "audio/wav"},
        {},
    ],
)
def test_m4_other_blocks_pass_as_text_that_holds_their_json(block: dict[str, Any]) -> None:
    assert json.loads(content_block(block).text) == block  # type: ignore[union-attr]


async def test_m5_a_tool_that_raises_is_an_error_result(client: Client) -> None:
    reply = await client.call("raise")
    assert reply.status == 200
    assert reply.result == {"content": [{"type": "text", "text": "something inside broke"}], "isError": True}


async def test_m5_a_failing_tool_is_an_error_result(memory: MemoryCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(memory)
    await client.open()

    async def call(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(FakeHost, "call", call)
    assert (await client.call("echo")).result["isError"] is True
    assert "SystemExit" in memory.reports[-1]


async def test_m5_arguments_are_optional(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    await client.message("tools/call", {"name": "echo"})
    await client.message("tools/call", {"name": "echo", "arguments": None})
    assert [arguments for _, arguments, _ in memory.host.seen] == [{}, {}]


@pytest.mark.parametrize("name", ["fail", "no-such-tool", "xd://echo", "Echo", "echo ", "", "a'b\"c\n", "é😀"])
async def test_m6_denied_and_unknown_get_the_same_words(client: Client, name: str) -> None:
    text = f"tool '{name}' is not exposed by this bridge"
    assert (await client.call(name)).result == {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.parametrize("params", [None, [], "echo", 5, {}, {"name": 5}, {"name": None}, {"name": ["echo"]}])
async def test_m6_a_missing_name_is_the_empty_one(client: Client, params: Any) -> None:
    reply = await client.message("tools/call", params)
    assert reply.result["content"][0]["text"] == "tool '' is not exposed by this bridge"


async def test_m6_a_denied_tool_never_reaches_the_host(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    await client.call("fail")
    assert not memory.host.seen


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/", "notifications/x/y"])
@pytest.mark.parametrize("message_id", [None, 5, "x"])
async def test_m8_notifications_are_202_and_empty(client: Client, method: str, message_id: Any) -> None:
    reply = await client.message(method, {"anything": [1]}, message_id)
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("message_id", [1, "one", 0, -7, 1.5, [1, 2], True, "\ud800", 10**30])
async def test_m8_cancelled_ends_the_call(client: Client, message_id: Any) -> None:
    hanging = asyncio.create_task(client.call("hang", message_id=message_id))
    reply = await cancelled(client, message_id, hanging)
    assert reply.status == 200
    assert reply.result == {"content": [{"type": "text", "text": "cancelled by the caller"}], "isError": True}


NO_REQUEST_ID: list[Any] = [None, [], "x", {}]


async def test_m8_cancelled_means_the_same_session_and_the_same_id(memory: MemoryCaller) -> None:
    client, other = Client(memory), Client(memory)
    await client.open()
    await other.open()
    hanging = asyncio.create_task(client.call("hang", message_id=1))
    await memory.host.started.wait()
    for one, named in ((other, 1), (client, "1"), (client, True), (client, None), (client, 2), (client, [1])):
        await one.message("notifications/cancelled", {"requestId": named})
    for params in NO_REQUEST_ID:
        await client.message("notifications/cancelled", params)
    await asyncio.sleep(0)
    assert not hanging.done()
    await client.message("notifications/cancelled", {"requestId": 1.0})
    assert (await hanging).result["isError"] is True
    assert memory.host.cancelled == 1


@pytest.mark.parametrize(
    ("sent", "named"),
    [(b"1", 1.0), (b"1e999", float("inf")), (b'"\\ud800"', "\ufffd"), (b'"\\u0061"', "a"), (b"null", None)],
)
def test_m8_ids_that_are_equal_as_json(sent: bytes, named: Any) -> None:
    assert jsonrpc.request_key(sent) == jsonrpc.id_key(named)


async def test_m8_a_call_without_an_id_cannot_be_named(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    hanging = asyncio.create_task(client.call("hang", message_id=None))
    await memory.host.started.wait()
    await client.message("notifications/cancelled", {"requestId": None})
    memory.host.release.set()
    assert (await hanging).result["isError"] is False


@pytest.mark.parametrize("method", ["resources/list", "prompts/get", "server/discover", "", "PING", "tools/call "])
async def test_m9_an_unknown_method_is_http_200(client: Client, method: str) -> None:
    assert (await client.message(method, message_id=9)).error == (200, -32601, "method not found", 9)


async def test_m9_without_an_id_the_answer_has_null(client: Client) -> None:
    assert (await client.post(b'{"jsonrpc":"2.0","method":"nope"}')).error == (200, -32601, "method not found", None)


async def test_a_caller_that_hangs_up_cancels_its_call(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    before = len(records(http.audit))
    async with http.connection() as (_, writer):
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}'
        writer.write(request("POST", client.headers(), body))
        await eventually(lambda: len(records(http.audit)) == before + 1)
        writer.close()
        await eventually(lambda: len(records(http.audit)) == before + 2)
    start, done = records(http.audit)[-2:]
    assert (start["phase"], start["tool"], done["phase"], done["isError"]) == ("start", "hang", "done", True)
    assert start["id"] == done["id"]


async def test_a_pipeline_that_grows_while_a_call_hangs_does_not_hide_the_end(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    before = len(records(http.audit))
    hang = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}'
    async with http.connection() as (_, writer):
        writer.write(request("POST", client.headers(), hang))
        await eventually(lambda: len(records(http.audit)) == before + 1)
        for _ in range(20):  # past the moment at which the connection begins to be watched
            await client.message("ping")
            writer.write(request("POST", client.headers(), hang))
            await asyncio.sleep(0.01)
        writer.write(request("POST", client.headers(content_length="200000"), b" " * 100_000))
        await writer.drain()
    await eventually(lambda: len(records(http.audit)) == before + 2)


@pytest.mark.parametrize("name", [b"a: " + b"b" * 100, b"endless: "])
async def test_a_head_has_a_bound(http: HttpCaller, name: bytes) -> None:
    """Whether of many headers or of one; no token is needed to send it."""
    async with http.connection() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n")
        piece = (name + b"\r\n") * 700 if len(name) > 20 else name + b"x" * 70_000
        writer.write(piece)
        reply = await read_reply(reader)
        assert reply.error == (431, -32600, "request headers too large", None)
        assert await reader.read() == b""


@pytest.mark.parametrize(("length", "status"), [(60_000, 200), (66_000, 431)])
@pytest.mark.parametrize("pieces", [1, 9])
async def test_a_head_at_its_bound(http: HttpCaller, length: int, status: int, pieces: int) -> None:
    client = Client(http)
    await client.open()
    data = request("POST", client.headers(x="y" * length), b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    async with http.connection() as (reader, writer):
        size = len(data) // pieces + 1
        with suppress(ConnectionError):
            for at in range(0, len(data), size):
                writer.write(data[at : at + size])
                await writer.drain()
        assert (await read_reply(reader)).status == status


async def test_a_host_that_is_unavailable_is_no_internal_error(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    memory.host.unavailable = "it sleeps"
    reply = await client.message("tools/list", message_id="l")
    assert reply.error == (200, -32000, "host unavailable: it sleeps", "l")
    assert memory.reports == []


async def test_a_head_may_begin_in_a_piece_that_is_full_of_a_body(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"' + b" " * 150_000 + b"}"
    data = request("POST", client.headers(), body) * 4
    async with http.connection() as (reader, writer):
        writer.write(data)
        assert [(await read_reply(reader)).status for _ in range(4)] == [200] * 4


async def test_a_caller_that_hangs_up_with_more_in_its_pipeline_cancels_too(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    before = len(records(http.audit))
    async with http.connection() as (_, writer):
        for name in (b"hang", b"echo", b"echo"):
            body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b"}}' % name
            writer.write(request("POST", client.headers(), body))
        await eventually(lambda: len(records(http.audit)) == before + 1)
    await eventually(lambda: len(records(http.audit)) == before + 2)
    found = [(record["tool"], record["phase"]) for record in records(http.audit)[before:]]
    assert found == [("hang", "start"), ("hang", "done")], "nothing runs for nobody"


async def eventually(holds: Any) -> None:
    """Wait for another process to have done its part; a minute means never."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


async def test_t4_a_body_that_comes_slowly_is_served(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    async with http.connection() as (reader, writer):
        for byte in request("POST", client.headers(), b'{"jsonrpc":"2.0","id":1,"method":"ping"}'):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read_reply(reader)).result == {}


async def test_t4_a_body_that_is_cut_off_changes_nothing(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'
    before = records(http.audit)
    for cut in (1, 40, len(body) - 1):
        async with http.connection() as (reader, writer):
            writer.write(request("POST", client.headers(content_length=str(len(body))), body[:cut]))
            writer.write_eof()
            assert await reader.read() == b""
    assert (await client.message("ping")).result == {}
    assert records(http.audit) == before


async def test_200_requests_on_one_connection_and_pipelined(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    async with http.connection() as (reader, writer):
        for number in range(200):
            writer.write(request("POST", client.headers(), b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number))
            assert (await read_reply(reader)).json["id"] == number
        for number in range(50):
            writer.write(request("POST", client.headers(), b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number))
        assert [(await read_reply(reader)).json["id"] for _ in range(50)] == list(range(50))


MALFORMED = [
    b"\r\n\r\nnonsense\r\n\r\n",
    b"POST\r\n\r\n",
    b"POST / HTTP/9.9\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nbad header\r\n\r\n",
    b"POST / HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: repr(data[:50]))
async def test_t7_malformed_http_gets_the_one_form_and_the_connection_closes(http: HttpCaller, data: bytes) -> None:
    async with http.connection() as (reader, writer):
        writer.write(data)
        reply = await read_reply(reader)
        assert reply.error == (400, -32600, "invalid request", None)
        assert reply.headers["content-type"] == "application/json"
        assert await reader.read() == b""


async def test_an_upgrade_that_is_not_spoken_is_passed_over(http: HttpCaller) -> None:
    """Java's client offers h2c with its first request, and goes on with HTTP/1.1 on that connection."""
    client = Client(http)
    await client.open()
    async with http.connection() as (reader, writer):
        offer = client.headers(
            connection="Upgrade, HTTP2-Settings", upgrade="h2c", http2_settings="AAMAAABkAAQCAAAAAAIAAAAA"
        )
        for headers in (offer, client.headers(), offer, client.headers()):
            writer.write(request("POST", headers, b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
            assert (await read_reply(reader)).result == {}


async def test_expect_100_continue(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    async with http.connection() as (reader, writer):
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        writer.write(request("POST", client.headers(expect="100-continue", content_length=str(len(body)))))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await read_reply(reader)).result == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "text/html"},
        {"accept": ""},
        {"content_type": "text/plain"},
        {"mcp_protocol_version": "2027-01-01"},
        {"mcp_protocol_version": "nonsense"},
        {"mcp_method": "tools/list", "mcp_name": "x", "last_event_id": "1"},
    ],
)
async def test_headers_of_other_revisions_are_passed_over(client: Client, headers: dict[str, str]) -> None:
    params = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}}
    assert (await client.message("ping", params, **headers)).result == {}
    assert (await client.message("initialize", params, **headers)).result == INITIALIZED
