"""HTTP/1.1 requests out of bytes (RFC 9110, RFC 9112): framing, bounds, refusals. Knows no socket, loop or clock.

A head is collected up to its blank line, and its request line is read here, so that any method and any target is
served (T2, T3) however the bytes are cut. httptools reads the header fields and the chunks, strictly. It sees every
request line as a POST of `/`, and no `Upgrade` field: no other protocol is spoken, and the body must not get lost.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from a2a_bridge.http.reply import CONTINUE, HEAD_TOO_LARGE, MALFORMED_HTTP, TOO_LARGE, Headers, Reply

MAX_BODY_BYTES = 1024 * 1024
# Also the bound of chunk extensions and trailers with no data between them.
MAX_HEAD_BYTES = 64 * 1024

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(%b) [^\x00-\x20\x7f]+ HTTP/1\.([01])\r\n" % _TOKEN)
# The beginning of such a line: what is no HTTP is refused without waiting for its end.
_LINE_SO_FAR = re.compile(rb"(?:\r|%b(?: [^\x00-\x20\x7f]*(?: [HTP/.01]*\r?)?)?)?" % _TOKEN)
_LINE_START = 256  # bytes of an incomplete line that are looked at
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")  # skipped before a request line (RFC 9112, 2.2)
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_UPGRADE_FIELD = re.compile(rb"\r\nupgrade(?=:)", re.IGNORECASE)


class Request(NamedTuple):
    """An admitted request. `keep_alive` tells whether the connection stays open, `http10` whether it is HTTP/1.0."""

    headers: Headers
    body: bytes
    keep_alive: bool
    http10: bool


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNKED = auto()
    REFUSED = auto()  # a body that nobody wants


class RequestReader:
    """Takes bytes in pieces; `next` gives what they amount to, in order. `admit` judges a request by its method and
    headers before its body is read; `next` gives its refusal."""

    def __init__(self, admit: Callable[[str, Headers], Reply | None]) -> None:
        self._admit = admit
        self._parser: HttpRequestParser | None = None
        self._buffer = bytearray()
        self._searched = 0
        self._line_read = False
        self._state = _State.HEAD
        self._headers: dict[bytes, bytes] = {}
        self._http10 = False
        self._keep_alive = False
        self._parts: list[bytes] = []
        self._expected_length = 0
        self._length = 0
        self._since_data = 0
        self._complete = False
        self._last_head = b""
        self._repeat_size = -1
        self.repeat_headers: Headers = {}

    @property
    def buffered(self) -> int:
        """Bytes that are not read yet."""
        return len(self._buffer)

    @property
    def in_body(self) -> bool:
        """Whether the body of an admitted request is incomplete."""
        return self._state is not _State.HEAD

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def close(self) -> None:
        """Nothing more will be read. The parser and its reader hold each other: freed now, not by the collector."""
        self._parser = None

    def repeated(self, data: bytes) -> bytes | None:
        """The body, if `data` is a whole request with the very head of the last one, and nothing waits before it.

        Most requests of a client are such: nothing has to be parsed, only admitted again.
        """
        if (
            len(data) != self._repeat_size
            or not data.startswith(self._last_head)
            or self._buffer
            or self._state is not _State.HEAD
            or self._admit("POST", self.repeat_headers) is not None
        ):
            return None
        return data[len(self._last_head) :]

    def next(self) -> Request | Reply | None:
        """The next request, the reply to a refused one (its `close` ends the connection), or an interim reply
        (`CONTINUE`); None until more bytes have come."""
        if self._state is _State.REFUSED and not self._skip():
            return None
        if self._state is _State.HEAD:
            end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3)) + 4
            if end <= 4 or end > MAX_HEAD_BYTES:
                return self._without_head(end)
            reply = self._read_head(end)
            if reply is not None:
                return reply
        return self._read_body()

    def _without_head(self, end: int) -> Request | Reply | None:
        """Nothing yet, or a reason to refuse before the head is whole."""
        buffer = self._buffer
        if blank := _EMPTY_LINES.match(buffer):
            del buffer[: blank.end()]
            self._searched = 0
            return self.next()
        if max(end, len(buffer)) > MAX_HEAD_BYTES:
            return HEAD_TOO_LARGE
        new = max(0, self._searched - 3)  # what was searched before is not searched again
        self._searched = len(buffer)
        if b"\n" not in buffer:
            well_formed = _LINE_SO_FAR.fullmatch(buffer, 0, _LINE_START) is not None
        else:
            well_formed = not _BARE_LINE_FEED.search(buffer, new)
            if well_formed and not self._line_read:
                well_formed = self._line_read = _REQUEST_LINE.match(buffer) is not None
        return None if well_formed else MALFORMED_HTTP

    def _read_head(self, end: int) -> Reply | None:
        """Reads a head of `end` bytes and judges it. None: its body is to be read."""
        head = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._searched, self._line_read = 0, False
        self._last_head, self._repeat_size = head, -1
        method = "POST"
        self._http10 = False
        if not head.startswith(b"POST / HTTP/1.1\r\n"):
            if blank := _EMPTY_LINES.match(head):
                head = head[blank.end() :]
            line = _REQUEST_LINE.match(head)
            if line is None:
                return MALFORMED_HTTP
            method, self._http10 = line[1].decode(), line[2] == b"0"
            head = b"POST / HTTP/1.%b\r\n%b" % (line[2], head[line.end() :])
        parser = self._parser = self._parser or HttpRequestParser(self)
        self._headers = {}
        self._complete = False
        try:
            try:
                parser.feed_data(head)
            except HttpParserUpgrade:
                self._headers = {}
                self._complete = False
                parser.feed_data(_UPGRADE_FIELD.sub(b"\r\nx-upgrade", head))
        except HttpParserError:
            return MALFORMED_HTTP
        return self._judge(method)

    def _judge(self, method: str) -> Reply | None:
        headers = self._headers
        coding = headers.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or self._http10):
            return MALFORMED_HTTP
        chunked = coding is not None
        length = int(headers.get(b"content-length", b"0"))
        refusal = self._admit(method, headers)
        if refusal is None and length > MAX_BODY_BYTES:
            refusal = TOO_LARGE
        if refusal is not None:
            return self._refuse(refusal, None if chunked else length)
        self._expected_length = length
        self._length = self._since_data = 0
        self._state = _State.CHUNKED if chunked else _State.LENGTH
        if self._keep_alive and not (chunked or self._http10):
            self._repeat_size, self.repeat_headers = len(self._last_head) + length, headers
        expected = not (self._buffer or self._complete or self._http10)
        return CONTINUE if expected and headers.get(b"expect", b"").lower() == b"100-continue" else None

    def _refuse(self, refusal: Reply, length: int | None) -> Reply:
        """The connection stays if the body of the refused request, of `length` bytes, is sure to come and not long."""
        if length is None or length > MAX_BODY_BYTES or b"expect" in self._headers or not self._keep_alive:
            return refusal.closing()
        self._expected_length, self._length = length, 0
        self._state = _State.REFUSED
        return refusal

    def _skip(self) -> bool:
        """Drops what has come of a refused body. Whether that was all."""
        self._feed(self._expected_length - self._length)
        self._parts = []
        if self._complete:
            self._state = _State.HEAD
        return self._complete

    def _read_body(self) -> Request | Reply | None:
        try:
            if self._state is _State.LENGTH and not self._complete:
                self._feed(self._expected_length - self._length)
            # A chunked message ends with a line end, so what follows it is not fed to the parser.
            while not self._complete and self._buffer and self._length <= MAX_BODY_BYTES:
                self._feed(self._buffer.find(b"\n") + 1 or len(self._buffer))
        except HttpParserError:
            return MALFORMED_HTTP
        if self._length > MAX_BODY_BYTES:
            return TOO_LARGE
        if self._since_data > MAX_HEAD_BYTES:
            return HEAD_TOO_LARGE
        if not self._complete:
            return None
        self._state = _State.HEAD
        parts, self._parts = self._parts, []
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Request(self._headers, body, self._keep_alive, self._http10)

    def _feed(self, count: int) -> None:
        """Passes the next bytes on to the parser, `count` at most."""
        if not count:
            return
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._since_data += len(piece)
        if self._parser is not None:  # it is there since the head
            self._parser.feed_data(piece)

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state is _State.HEAD:  # else a trailer, which must not pass for a header
            self._headers.setdefault(name.lower(), value.rstrip(b" \t"))  # the first of a repeated header counts

    def on_headers_complete(self) -> None:
        if self._parser is not None:
            self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)
        self._length += len(data)
        self._since_data = 0

    def on_message_complete(self) -> None:
        self._complete = True
