"""T1 to T7, and the order of checks O1 to O8."""

import asyncio
import json
import subprocess
from contextlib import suppress

import pytest

from a2a_bridge.http.reader import MAX_BODY_BYTES
from tests.support.callers import TOKEN, Caller, Client, HttpCaller, MemoryCaller, Reply, read_reply, request

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
UNAUTHORIZED = (401, -32000, "unauthorized", None)
PARSE_ERROR = (400, -32700, "parse error", None)
INVALID_REQUEST = (400, -32600, "invalid request", None)


async def test_t1_a_batch_is_refused(client: Client) -> None:
    assert (await client.post(b"[" + PING + b"]")).error == INVALID_REQUEST


@pytest.mark.parametrize("path", ["/", "/mcp", "/a/b?c=d&e", "/%00%ff", "//", "/?"])
async def test_t2_any_path_is_served(client: Client, path: str) -> None:
    assert (await client.caller.send("POST", client.headers(), PING, path)).result == {}


@pytest.mark.parametrize("target", [b"*", b"http://elsewhere/x", b"/%C3%A9%FF", b"/\xff", b"x", b"?", b"a:1"])
async def test_t2_odd_request_targets_are_served(http: HttpCaller, target: bytes) -> None:
    client = Client(http)
    await client.open()
    sent = request("POST", client.headers(), PING).replace(b" / ", b" " + target + b" ")
    assert (await http.raw(sent)).result == {}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("authorized", [True, False])
async def test_t3_other_methods_are_405_with_an_empty_body(caller: Caller, method: str, authorized: bool) -> None:
    reply = await caller.send(method, {"authorization": f"Bearer {TOKEN}"} if authorized else {})
    assert (reply.status, reply.body) == (405, b"")
    assert reply.headers["allow"] == "POST, DELETE"


@pytest.mark.parametrize("method", ["FOO", "NONSENSE", "M-SEARCH2", "post", "Delete", "CONNECT", "PRI"])
async def test_t3_holds_for_methods_that_nobody_has_registered(http: HttpCaller, method: str) -> None:
    reply = await http.send(method, {})
    assert (reply.status, reply.body) == (405, b"")
    assert reply.headers["allow"] == "POST, DELETE"


def padded(length: int) -> bytes:
    """A ping of exactly that many bytes."""
    return PING[:-1] + b" " * (length - len(PING)) + b"}"


TOO_LARGE = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "request body too large"}}


async def test_t4_a_body_at_the_limit_passes_and_one_byte_more_does_not(client: Client) -> None:
    assert (await client.post(padded(MAX_BODY_BYTES))).result == {}
    reply = await client.post(padded(MAX_BODY_BYTES + 1))
    assert (reply.status, reply.json) == (413, TOO_LARGE)
    assert reply.headers["connection"] == "close"


async def test_t4_an_unauthorized_large_body_is_401(client: Client) -> None:
    assert (await client.post(padded(MAX_BODY_BYTES + 1), authorization="Bearer no")).error == UNAUTHORIZED


@pytest.mark.parametrize(("length", "status"), [(MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413)])
async def test_t4_holds_for_pieces_in_memory(memory: MemoryCaller, length: int, status: int) -> None:
    client = Client(memory)
    await client.open()
    body = padded(length)
    pieces = [body[at : at + 60_000] for at in range(0, length, 60_000)]
    assert (await memory.exchange("POST", client.headers(), pieces)).status == status


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize(("length", "status"), [(MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413)])
async def test_t4_holds_for_chunked_bodies(http: HttpCaller, length: int, status: int) -> None:
    client = Client(http)
    await client.open()
    headers = client.headers(transfer_encoding="chunked")
    reply = await http.raw(request("POST", headers, chunked(padded(length), 50_000)))
    assert reply.status == status


async def test_t4_the_refusal_comes_before_the_body_and_then_the_connection_closes(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    async with http.connection() as (reader, writer):
        writer.write(request("POST", client.headers(content_length=str(50_000_000))))
        assert (await read_reply(reader)).json == TOO_LARGE
        writer.write_eof()
        assert await reader.read() == b""


async def test_t4_no_more_than_the_limit_is_buffered(http: HttpCaller) -> None:
    """An endless chunked body is refused while it is still being sent, and does not make the process grow."""
    client = Client(http)
    await client.open()
    before = resident_bytes(http.served.process.pid)
    async with http.connection() as (_, writer):
        writer.write(request("POST", client.headers(transfer_encoding="chunked")))
        chunk = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
        with pytest.raises(ConnectionError):
            await flood(writer, chunk, 64)
        assert resident_bytes(http.served.process.pid) - before < 16 << 20


async def flood(writer: asyncio.StreamWriter, chunk: bytes, times: int) -> None:
    for _ in range(times):
        writer.write(chunk)
        await writer.drain()


def resident_bytes(pid: int) -> int:
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) * 1024


async def every_kind_of_reply(client: Client) -> dict[str, Reply]:
    caller = client.caller
    return {
        "initialize": await client.message("initialize"),
        "ping": await client.message("ping"),
        "list": await client.message("tools/list"),
        "call": await client.call("echo", {"text": "x"}),
        "notification": await client.message("notifications/initialized"),
        "unknown method": await client.message("nope"),
        "405": await caller.send("GET", client.headers()),
        "401": await caller.send("POST", {}, PING),
        "403": await client.post(PING, origin="http://evil.example"),
        "parse error": await client.post(b"{"),
        "invalid request": await client.post(b"1"),
        "no session": await client.post(PING, mcp_session_id=None),
        "unknown session": await client.post(PING, mcp_session_id="nope"),
        "413": await client.post(padded(MAX_BODY_BYTES + 1)),
        "204": await caller.send("DELETE", client.headers()),
    }


async def test_t5_t6_every_reply_is_json_without_cors_or_challenge(client: Client) -> None:
    for kind, reply in (await every_kind_of_reply(client)).items():
        assert reply.headers["content-type"] == "application/json", kind
        assert ("mcp-session-id" in reply.headers) == (kind == "initialize"), kind
        assert not [name for name in reply.headers if name.startswith("access-control-")], kind
        assert "www-authenticate" not in reply.headers, kind
        assert "server" not in reply.headers, kind


async def test_t7_every_error_has_the_one_form(client: Client) -> None:
    replies = await every_kind_of_reply(client)
    assert {kind: reply.error[:3] for kind, reply in replies.items() if reply.body and "error" in reply.json} == {
        "unknown method": (200, -32601, "method not found"),
        "401": (401, -32000, "unauthorized"),
        "403": (403, -32000, "forbidden origin"),
        "parse error": (400, -32700, "parse error"),
        "invalid request": (400, -32600, "invalid request"),
        "no session": (400, -32000, "missing mcp-session-id"),
        "unknown session": (404, -32000, "unknown session"),
        "413": (413, -32600, "request body too large"),
    }


# Each row breaks two adjacent checks; the earlier must answer.
ORDER: dict[str, tuple[str, dict[str, str | None], bytes, int]] = {
    "O1 before O2": ("PUT", {"authorization": None}, PING, 405),
    "O2 before A6": ("POST", {"authorization": "Bearer no", "origin": "http://evil.example"}, PING, 401),
    "A6 before T4": ("POST", {"origin": "http://evil.example"}, padded(MAX_BODY_BYTES + 1), 403),
    "A6 before O3": ("POST", {"origin": "http://evil.example"}, b"{", 403),
    "T4 before O3": ("POST", {}, b"{" * (MAX_BODY_BYTES + 1), 413),
    "O2 before O3": ("POST", {"authorization": "Basic x"}, b"{", 401),
    "O3 before O4": ("POST", {}, b'[{"jsonrpc":"1.0"', -32700),
    "O3 before O5": ("POST", {"mcp-session-id": None}, b"{", -32700),
    "O4 before O5": ("POST", {"mcp-session-id": None}, b'{"jsonrpc":"1.0","method":"ping"}', -32600),
    "O5 before O6": ("POST", {"mcp-session-id": None}, b'{"jsonrpc":"2.0","method":"notifications/x"}', 400),
    "O5 before O6 (unknown)": ("POST", {"mcp-session-id": "x"}, b'{"jsonrpc":"2.0","method":"notifications/x"}', 404),
    "O5 before O7": ("POST", {"mcp-session-id": "x"}, b'{"jsonrpc":"2.0","id":1,"method":"nope"}', 404),
    "O6 before O7": ("POST", {}, b'{"jsonrpc":"2.0","id":1,"method":"notifications/nope"}', 202),
    "O7": ("POST", {}, b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601),
    "O2 before S5": ("DELETE", {"authorization": None}, b"", 401),
    "A6 before S5": ("DELETE", {"origin": "http://evil.example"}, b"", 403),
}


@pytest.mark.parametrize("pair", ORDER)
async def test_o_the_earlier_check_answers(client: Client, pair: str) -> None:
    method, changes, body, expected = ORDER[pair]
    merged: dict[str, str | None] = {**client.headers(), **changes}
    headers = {name: value for name, value in merged.items() if value is not None}
    reply = await client.caller.send(method, headers, body)
    if expected < 0:
        assert reply.json["error"]["code"] == expected
    else:
        assert reply.status == expected


async def test_a1_a_refused_request_changes_no_state(client: Client) -> None:
    for changes in ({"authorization": "Bearer no"}, {"origin": "http://evil.example"}):
        assert (await client.caller.send("DELETE", client.headers(**changes))).status in (401, 403)
        reply = await client.message("initialize", **changes)
        assert "mcp-session-id" not in reply.headers
    assert (await client.message("ping")).result == {}


async def test_m10_a_fault_inside_is_500_and_says_nothing(client: Client) -> None:
    secret = "/etc/secret detail"
    if isinstance(client.caller, MemoryCaller):
        client.caller.host.broken = secret
    else:
        await client.call("break", {"why": secret})
    reply = await client.message("tools/list", message_id=7)
    assert reply.error == (500, -32603, "internal error", None)
    assert secret not in reply.body.decode()
    assert (await client.message("ping")).result == {}
    if isinstance(client.caller, MemoryCaller):
        assert client.caller.reports[-1].startswith("internal error: ")
        assert secret in client.caller.reports[-1]
    else:
        await client.call("break", {"why": ""})
        assert isinstance(client.caller, HttpCaller)
        log = (client.caller.served.home / "stderr").read_text()
        assert f"[a2a-bridge] internal error: RuntimeError: {secret}" in log
        assert (await client.message("tools/list")).status == 200


async def test_m10_a_bug_of_ours_is_500_too(memory: MemoryCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(memory)
    await client.open()
    monkeypatch.setattr(memory.sessions, "touch", lambda key: 1 / 0)
    assert (await client.message("ping")).error == (500, -32603, "internal error", None)
    assert "ZeroDivisionError" in memory.reports[-1]


def test_order_table_names_every_check() -> None:
    assert {f"O{number}" for number in range(1, 8)} <= {word for name in ORDER for word in name.split()}
    assert json.loads(padded(100))


@pytest.mark.parametrize("trailer", [b"a: " + b"b" * 995 + b"\r\n", b"x" * 1000], ids=["lines", "endless"])
async def test_trailers_are_not_gathered(http: HttpCaller, trailer: bytes) -> None:
    """Behind a chunked body, whether many lines or one that never ends; no token is needed to send it."""
    before = resident_bytes(http.served.process.pid)
    body = b"2\r\n{}\r\n0\r\n"
    async with http.connection() as (_, writer):
        with suppress(ConnectionError):
            writer.write(request("POST", {"Transfer-Encoding": "chunked"}) + body + b"x: ")
            for _ in range(500):
                writer.write(trailer * 100)
                await writer.drain()
        assert (await http.send("GET", {})).status == 405
        assert resident_bytes(http.served.process.pid) - before < 10 * 1024 * 1024


async def test_a_trailer_does_not_pass_for_a_header(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    head = request("POST", client.headers(mcp_session_id=None, transfer_encoding="chunked"))
    trailer = f"mcp-session-id: {client.session}".encode()
    body = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(PING), PING, trailer)
    assert (await http.raw(head + body)).error == (400, -32000, "missing mcp-session-id", 1)
