"""Whatever comes in: never a 5xx, never a dead server, always a body of the contract's form."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_bridge.errors import InvalidRequest, ParseError
from a2a_bridge.wire import jsonrpc
from a2a_bridge.wire.framing import Lines
from tests.support.callers import Client, HttpCaller, MemoryCaller, Reply
from tests.support.processes import Served

TOUGH = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(), one, max_size=4),
    max_leaves=10,
)
methods = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "notifications/cancelled", "notifications/x", "nope"]
)
params = json_values | st.fixed_dictionaries(
    {"name": st.sampled_from(["echo", "fail", "raise", "image", "surrogate"]) | json_values},
    optional={"arguments": json_values, "requestId": json_values},
)
messages = json_values | st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | json_values, "method": methods | json_values},
    optional={"id": json_values, "params": params},
)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
names = st.sampled_from(
    ["authorization", "mcp-session-id", "origin", "content-type", "accept", "mcp-protocol-version", "content-length"]
)


def well_formed(reply: Reply) -> None:
    """The status and the body are of the contract."""
    assert reply.status in (200, 202, 204, 400, 401, 403, 404, 405, 413), reply
    assert reply.headers["content-type"] == "application/json"
    if reply.status in (202, 204, 405):
        assert reply.body == b""
        return
    body = reply.json
    assert body["jsonrpc"] == "2.0"
    assert set(body) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    assert (reply.status == 200) or "error" in body
    if "error" in body:
        assert reply.error


def exchange(home: Path, body: bytes, changes: dict[str, str] | None = None, method: str = "POST") -> Reply:
    async def run() -> Reply:
        caller = MemoryCaller(home)
        client = Client(caller)
        await client.open()
        try:
            return await caller.send(method, {**client.headers(), **(changes or {})}, body)
        finally:
            caller.journal.close()

    return asyncio.run(run())


@TOUGH
@given(body=st.binary(max_size=300))
def test_any_bytes_as_a_body(tmp_path: Path, body: bytes) -> None:
    well_formed(exchange(tmp_path, body))


@TOUGH
@given(message=messages, ascii_only=st.booleans())
def test_any_json_as_a_message(tmp_path: Path, message: Any, ascii_only: bool) -> None:
    body = json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    reply = exchange(tmp_path, body)
    well_formed(reply)
    if reply.status == 200 and reply.body:
        assert reply.json["id"] == message.get("id")


@TOUGH
@given(changes=st.dictionaries(names, header_values, max_size=4), method=st.sampled_from(["POST", "DELETE", "GET"]))
def test_any_header_values(tmp_path: Path, changes: dict[str, str], method: str) -> None:
    well_formed(exchange(tmp_path, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', changes, method))


@settings(TOUGH, max_examples=60)
@given(bodies=st.lists(st.binary(max_size=200) | messages.map(lambda one: json.dumps(one).encode()), max_size=5))
def test_over_http_too(scripted_process: Served, bodies: list[bytes]) -> None:
    async def run() -> None:
        client = Client(HttpCaller(scripted_process))
        await client.open()
        for body in bodies:
            well_formed(await client.post(body))
        await client.open()
        assert (await client.message("ping")).result == {}

    asyncio.run(run())


@settings(TOUGH, max_examples=60)
@given(data=st.binary(min_size=1, max_size=300))
def test_any_bytes_as_http(scripted_process: Served, data: bytes) -> None:
    async def run() -> bytes:
        caller = HttpCaller(scripted_process)
        async with caller.connection() as (reader, writer):
            writer.write(data)
            writer.write_eof()
            got = await reader.read()
        client = Client(caller)
        await client.open()
        assert (await client.message("ping")).result == {}
        return got

    got = asyncio.run(run())
    assert not got or got.startswith(b"HTTP/1.1 4")


JSON_LIKE = st.text(st.sampled_from('{}[]",:0123456789.eE+-truefalsn \\ud8"\n\t\ufeffé'), max_size=30)


@TOUGH
@given(text=JSON_LIKE | messages.map(json.dumps))
def test_b1_the_parser_agrees_with_the_standard_library_on_what_is_json(text: str) -> None:
    """The fast parser, its fallback and json.loads accept the same texts."""
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        expected: type[Exception] | None = ParseError
    else:
        shaped = isinstance(value, dict) and value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
        expected = None if shaped else InvalidRequest
    body = text.encode("utf-8", "surrogatepass")
    if expected is not None:
        with pytest.raises(expected):
            jsonrpc.parse(body)
    else:
        assert json.loads(bytes(jsonrpc.parse(body).id)) == value.get("id")


FRAME = b'{"jsonrpc":"2.0","id":%b,"method":"ping","params":[%b],"x":%b}'


@TOUGH
@given(part=JSON_LIKE)
def test_b1_in_every_member(part: str) -> None:
    """The same for a text in the places that the fast parser reads in different ways."""
    for place in range(3):
        parts = [b"1", b"1", b"1"]
        parts[place] = part.encode("utf-8", "surrogatepass")
        body = FRAME % tuple(parts)
        try:
            json.loads(body, parse_constant=lambda _: 1 / 0)
        except (ValueError, ZeroDivisionError):
            valid = False
        else:
            valid = True
        try:
            jsonrpc.parse(body)
        except ParseError:
            assert not valid, body
        except InvalidRequest:
            assert valid, body  # the text brought a second "method" or "jsonrpc" with it
        else:
            assert valid, body


@given(lines=st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b""))), data=st.data())
def test_framing_gives_the_lines_whatever_the_pieces(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    framing, got = Lines(longest=100), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        got += framing.feed(stream[:cut])
        stream = stream[cut:]
    assert got == [line for line in lines if line.strip()]
