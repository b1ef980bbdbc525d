"""The replies of the endpoint, and their form on the wire (rules T3 to T7)."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from a2a_bridge.wire import jsonrpc

Headers = Mapping[bytes, bytes]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Reply(msgspec.Struct, frozen=True, gc=False):
    """Status, JSON body, and further header lines as bytes. `close` asks for the connection to end with this reply."""

    status: int
    body: bytes = b""
    lines: bytes = b""
    close: bool = False

    def closing(self) -> "Reply":
        """The same, with the connection ended behind it."""
        return msgspec.structs.replace(self, close=True)


def encode(reply: Reply, date: bytes, http10: bool = False) -> bytes:
    """The reply as bytes. `date` is the value of the Date header; HTTP/1.0 must be told that a connection stays."""
    if reply.status == 100:
        return b"HTTP/1.1 100 Continue\r\n\r\n"
    length = b"" if reply.status == 204 else b"content-length: %d\r\n" % len(reply.body)  # a 204 has none
    connection = b"connection: close\r\n" if reply.close else b"connection: keep-alive\r\n" if http10 else b""
    return b"%bdate: %b\r\ncontent-type: application/json\r\n%b%b%b\r\n%b" % (
        _STATUS_LINES[reply.status],
        date,
        length,
        connection,
        reply.lines,
        reply.body,
    )


def error(status: int, code: int, message: str, message_id: jsonrpc.Id = jsonrpc.NULL, close: bool = False) -> Reply:
    """A reply with an error body (T7)."""
    return Reply(status, jsonrpc.error(message_id, code, message), close=close)


CONTINUE = Reply(100)
METHOD_NOT_ALLOWED = Reply(405, lines=b"allow: POST, DELETE\r\n")
UNAUTHORIZED = error(401, -32000, "unauthorized")
FORBIDDEN_ORIGIN = error(403, -32000, "forbidden origin")
UNSUPPORTED_ENCODING = error(415, -32600, "unsupported content encoding")
TOO_LARGE = error(413, -32600, "request body too large", close=True)
HEAD_TOO_LARGE = error(431, -32600, "request headers too large", close=True)
MALFORMED_HTTP = error(400, -32600, "invalid request", close=True)
ACCEPTED = Reply(202)
ENDED = Reply(204)
INTERNAL_ERROR = error(500, -32603, "internal error")
