"""B1 to B4: what is JSON, what is a request, and what `id` comes back."""

import json
from typing import Any

import pytest

from tests.support.callers import Client, MemoryCaller

PARSE_ERROR = (400, -32700, "parse error", None)
INVALID_REQUEST = (400, -32600, "invalid request", None)
DEEP = 100_000

NOT_JSON = [
    b"",
    b" ",
    b"{",
    b"ping",
    b"{'jsonrpc':'2.0'}",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} x',
    b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":Infinity}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff"}',
    b'{"jsonrpc":"2.0","id":"\xc0\x80","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xed\xa0\x80","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"a\nb","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\x","method":"ping"}',
    b'{"jsonrpc":"2.0" "id":1,"method":"ping"}',
    b'{"jsonrpc" "2.0","id":1,"method":"ping"}',
    b'{1:2,"jsonrpc":"2.0","id":1,"method":"ping"}',
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf\xef\xbb\xbf{}",
    '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"jsonrpc":"2.0","id":' + b"[" * DEEP + b"]" * DEEP + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    b'{"jsonrpc":"2.0","id":1,"method":"ping","other":' + b"[" * DEEP + b"]" * DEEP + b"}",
]
NO_REQUEST = [
    b"[]",
    b"1",
    b"null",
    b'"ping"',
    b"{}",
    b'{"jsonrpc":"2.0"}',
    b'{"method":"ping","id":1}',
    b'{"jsonrpc":2.0,"method":"ping"}',
    b'{"jsonrpc":"1.0","method":"ping"}',
    b'{"jsonrpc":"2.0","method":null}',
    b'{"jsonrpc":"2.0","method":["ping"]}',
    b'{"jsonrpc":"2.0","id":7,"method":5}',
    b'{"jsonrpc":"2.0","method":"ping","jsonrpc":"3"}',
    b'\xef\xbb\xbf[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:40]))
async def test_b1_not_json(client: Client, body: bytes) -> None:
    assert (await client.post(body)).error == PARSE_ERROR
    assert (await client.message("ping")).result == {}


@pytest.mark.parametrize("body", NO_REQUEST, ids=repr)
async def test_b2_no_request(client: Client, body: bytes) -> None:
    assert (await client.post(body)).error == INVALID_REQUEST


IDS = [
    b"1",
    b"-0",
    b"1.10",
    b"1e5",
    b"1e999",
    b"123456789012345678901234567890",
    b"9" * 6000,
    b'"a"',
    b'""',
    b'"\\u00e9\\n\\""',
    '"é\u2028😀"'.encode(),
    b'"\\ud800"',
    b'"\\udc00\\ud800 \\ud83d\\ude00"',
    b"true",
    b"null",
    b'[1, {"a":2}]',
    b'{"z":1,  "a":[]}',
    b"[" * 400 + b"]" * 400,
]


@pytest.mark.parametrize("message_id", IDS, ids=lambda sent: repr(sent[:40]))
@pytest.mark.parametrize(
    ("method", "status"), [(b"ping", 200), (b"nope", 200), (b"tools/list", 200), (b"tools/call", 200)]
)
async def test_b3_the_id_is_echoed_exactly(client: Client, message_id: bytes, method: bytes, status: int) -> None:
    body = b'{"jsonrpc":"2.0", "id" : ' + message_id + b' ,"method":"' + method + b'"}'
    reply = await client.post(body)
    assert reply.status == status
    assert reply.body.startswith(b'{"jsonrpc":"2.0","id":' + message_id + b",")


async def test_b3_session_errors_carry_the_id(client: Client) -> None:
    assert (await client.message("ping", message_id="x", mcp_session_id=None)).error[3] == "x"
    assert (await client.message("ping", message_id=[1], mcp_session_id="no")).error[3] == [1]


async def test_b3_no_id_is_null(client: Client) -> None:
    assert (await client.post(b'{"jsonrpc":"2.0","method":"ping"}')).json == {
        "jsonrpc": "2.0",
        "id": None,
        "result": {},
    }


def message(arguments: bytes) -> bytes:
    params = b'{"name":"echo","arguments":' + arguments + b"}"
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + b"}"


LEGAL: list[tuple[bytes, Any]] = [
    (b'{"text":"\\ud800"}', {"text": "\ufffd"}),
    (b'{"text":"a\\udfffb"}', {"text": "a\ufffdb"}),
    (b'{"text":"\\\\ud800"}', {"text": "\\ud800"}),
    (b'{"text":"\\ud83d\\ude00 \\ud83d"}', {"text": "😀 \ufffd"}),
    (b'{"\\udead":1}', {"\ufffd": 1}),
    (b'{"n":123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    (b'{"n":' + b"1" * 4300 + b"}", {"n": int("1" * 4300)}),
    (b'{"n":-' + b"1" * 5000 + b"}", {"n": float("-inf")}),
    (b'{"n":1e999}', {"n": float("inf")}),
    (b'{"text":"a","text":"b"}', {"text": "b"}),
    (b'{"text":"\\u0000"}', {"text": "\0"}),
    (b'{"text":"\xe2\x80\xa8\xf0\x9f\x98\x80"}', {"text": "\u2028😀"}),
    (b" [1 , 2.50,\ttrue] ", [1, 2.5, True]),
    (b'"text"', "text"),
]


@pytest.mark.parametrize(("sent", "seen"), LEGAL, ids=lambda value: repr(value)[:40])
async def test_b4_m5_legal_json_reaches_the_tool(memory: MemoryCaller, sent: bytes, seen: Any) -> None:
    client = Client(memory)
    await client.open()
    assert (await client.post(message(sent))).status == 200
    assert memory.host.seen[-1][1] == seen


@pytest.mark.parametrize("sent", [sent for sent, _ in LEGAL], ids=lambda sent: repr(sent[:40]))
async def test_b4_legal_json_is_served_over_http(client: Client, sent: bytes) -> None:
    assert (await client.post(message(sent))).result["isError"] is False


async def test_b4_a_bom_is_passed_over(client: Client) -> None:
    assert (await client.post(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}')).result == {}


async def test_b4_arguments_nested_as_deep_as_the_parser_goes(client: Client) -> None:
    for depth in (100, 500, 900):
        reply = await client.post(message(b"[" * depth + b"]" * depth))
        assert reply.status in (200, 400), depth
    assert json.loads((await client.message("ping")).body)["result"] == {}
