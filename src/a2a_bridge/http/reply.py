"""The replies of the endpoint, and their form on the wire (rules T3 to T7)."""

from collections.abc import Mapping
from email.utils import formatdate
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


class Encoder:
    """Replies as bytes, with the Date header of now."""

    def __init__(self) -> None:
        self.set_date()

    def set_date(self, seconds: float | None = None) -> None:
        """The date of the replies from here on, in seconds since the epoch; None for the present time."""
        self._date = b"date: %b\r\ncontent-type: application/json\r\n" % formatdate(seconds, usegmt=True).encode()
        self._ok = b"%b%bcontent-length: " % (_STATUS_LINES[200], self._date)

    def encode(self, reply: Reply, http10: bool = False) -> bytes:
        """The whole response. HTTP/1.0 must be told that a connection stays."""
        body = reply.body
        if reply.status == 200 and not (reply.close or http10 or reply.lines):
            return b"%b%d\r\n\r\n%b" % (self._ok, len(body), body)
        if reply.status == 100:
            return b"HTTP/1.1 100 Continue\r\n\r\n"
        length = b"" if reply.status == 204 else b"content-length: %d\r\n" % len(body)  # a 204 has none
        connection = b"connection: close\r\n" if reply.close else b"connection: keep-alive\r\n" if http10 else b""
        return b"".join((_STATUS_LINES[reply.status], self._date, length, connection, reply.lines, b"\r\n", body))


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
