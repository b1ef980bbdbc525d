"""uvicorn's HTTP/1.1 protocol, with the places in which ours differs."""

import asyncio
import re
import sys
from typing import Any

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from a2a_bridge.http.endpoint import HEAD_TOO_LARGE, MALFORMED_HTTP, METHOD_NOT_ALLOWED, MOST_BODY_BYTES, Reply

# The parser itself knows no bound of a request's head, and no token is needed to send one.
MOST_HEAD_BYTES = 64 * 1024
# Requests that wait on one connection behind the one that runs; their bodies share the bound of one.
MOST_PIPELINED = 100

# A request line that is well formed; the parser knows only the methods that are registered (T3).
_REQUEST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/1\.[01]\r?\n")

# An offer of another protocol (Java's client offers h2c with its first request) makes the parser drop the body
# and stop. We speak none, so the offer's name is spoilt, at equal length, before the parser sees it. JSON holds
# no line ends but between its tokens, so no body that is JSON can match.
_UPGRADE = re.compile(rb"(\r\nupgr)a(?=de[ \t]*:)", re.IGNORECASE)


class Protocol(HttpToolsProtocol):
    """Never looks at the path (T2), refuses malformed HTTP in the contract's form (T5, T7), passes over offers
    to upgrade, bounds a request's head and pipeline, tells the request that runs when the connection is lost,
    and sends what one turn of the loop has to send at its end."""

    _answering: RequestResponseCycle | None = None
    _in_head = False
    _head_bytes = 0
    _progress = False  # whether the parser has told anything of the piece at hand
    _held_back = 0
    _piece = b""
    _refusal = MALFORMED_HTTP

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_AtTurnsEnd(transport, self.loop))  # type: ignore[arg-type]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn tells the request that came last; of several in one pipeline the one that runs is another."""
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._piece = data
        self._progress = False
        super().data_received(_UPGRADE.sub(rb"\1-", data) if b"pgrade" in data else data)
        # What the parser holds back until its line is whole: a header, or a trailer behind a chunked body.
        if not self._progress:
            self._held_back += len(data)
        else:
            self._held_back = len(data) - data.rfind(b"\n") - 1 if self._in_head else 0
        if self._held_back > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(HEAD_TOO_LARGE)
        if self.pipeline:
            self._go_on_reading()

    def _go_on_reading(self) -> None:
        """uvicorn stops reading when requests wait behind the one that runs; but then its caller's hanging up
        would not be seen. The queue has bounds of its own instead."""
        waiting = sum(len(cycle.body) for cycle, _ in self.pipeline)
        if len(self.pipeline) > MOST_PIPELINED or waiting > MOST_BODY_BYTES:
            self.transport.abort()
        else:
            self.flow.resume_reading()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._progress = self._in_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._progress = True
        if not self._in_head:
            return  # a trailer: it must not pass for a header
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refusal = HEAD_TOO_LARGE
            raise ValueError("the head is too large")  # the way out of the parser, to `send_400_response`

    def on_headers_complete(self) -> None:
        self._progress = True
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_url(self, url: bytes) -> None:
        self.url = b"/"

    def send_400_response(self, msg: str) -> None:
        unknown_method = isinstance(sys.exc_info()[1], HttpParserInvalidMethodError) and _REQUEST.match(self._piece)
        self._refuse(METHOD_NOT_ALLOWED if unknown_method else self._refusal)

    def _refuse(self, reply: Reply) -> None:
        if self.cycle is not None and not self._in_head and self.cycle.response_started:
            self.transport.abort()  # that request has its answer
            return
        lines = [STATUS_LINE[reply.status]]
        lines += [b"%b: %b\r\n" % header for header in (*reply.headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*lines, b"\r\n", reply.body]))
        self.transport.close()


class _AtTurnsEnd:
    """A transport that writes at the end of the loop's turn: head and body in one system call, and the answers
    of a busy turn back to back, so that their reader is woken once and not for each."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.writelines(self._held)
        self._held = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
