"""One connection: bytes → requests → answers in their order, on an event loop. `reader.py` knows HTTP's grammar,
`endpoint.py` what to answer, `server.py` the other connections and the time.

A request that needs no waiting is answered within `data_received`, without a task. While a call runs, what comes
behind it is kept unread up to a bound; then reading pauses.

Hang-ups. A connection that was reset is lost, and its call with it. An end of the stream alone may be a half-close,
whose sender still wants its answer (T9), or a `close`: TCP does not tell. So a call that goes on behind it is probed
with `100 Continue`, which every HTTP/1.1 client has to accept at any time: a closed socket answers with a reset.
"""

import asyncio
import select
from typing import TYPE_CHECKING, Any, cast

from a2a_bridge.http.endpoint import Answer, Endpoint
from a2a_bridge.http.reader import MAX_BODY_BYTES, MAX_HEAD_BYTES, Request, RequestReader
from a2a_bridge.http.reply import CONTINUE, Reply

if TYPE_CHECKING:
    from a2a_bridge.http.server import Server

Task = asyncio.Task[Any]

# What may wait unread behind a call that runs; a pause in reading takes effect one piece later.
MAX_PIPELINED_BYTES = MAX_BODY_BYTES + MAX_HEAD_BYTES
# Requests of one connection that are answered before other connections have their turn.
MAX_ANSWERED_AT_ONCE = 100
# After a reply that ends the connection, what is still on its way is dropped up to this bound: a socket that is
# closed with unread data resets, and the reset can overtake the reply.
MAX_DROPPED_BYTES = 8 * 1024 * 1024
# How long a half-closed caller is given to answer the probe with a reset, in steps of seconds, before its call runs.
PROBE_STEPS = (0.0, 0.0, 0.01, 0.04)


class Connection(asyncio.Protocol):
    """`quiet` counts the server's ticks since the last progress. `address` is the peer's IP address."""

    def __init__(self, endpoint: Endpoint, server: "Server") -> None:
        self._endpoint = endpoint
        self._server = server
        self._encode = server.encoder.encode
        self._reader = RequestReader(endpoint.admit)
        self._transport: asyncio.Transport
        self._task: Task | None = None
        self._busy = False
        self._close = False
        self._http10 = False
        self._reading = True
        self._writable = True
        self._eof = False
        self._trusted = False
        self._stopping = False
        self._drop = -1  # bytes that may still be dropped; below zero: none are, the connection is open
        self._unread_reply = 0
        self.address = ""
        self.descriptor = -1
        self.quiet = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        link = transport.get_extra_info("socket")
        self.descriptor = link.fileno() if link is not None else -1
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop = 0
        self._server.closed(self)
        self._reader.close()
        if self._task is not None:
            self._cancel(self._task)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        ready = not self._busy and self._writable and self._drop < 0
        if ready:
            body = reader.repeated(data)
            if body is not None:
                self._answer_repeated(body)
                return
        elif self._drop >= 0:
            self._drop -= len(data)
            if self._drop < 0:
                self._transport.abort()
            return
        if not reader.buffered:
            self.quiet = 0
        reader.feed(data)
        if ready:
            self._answer_all()
        elif reader.buffered > MAX_PIPELINED_BYTES and self._reading:
            self._reading = False
            self._transport.pause_reading()
            self._server.watch(self)

    def eof_received(self) -> bool:
        """True keeps the sending side open: whatever was asked is answered (T9)."""
        if self._drop >= 0:
            return False
        self._eof = True
        if not self._busy and self._writable:
            self._answer_all()
        else:
            self._server.watch(self)
        return True

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._unread_reply = 0
        if not self._busy and self._drop < 0:
            self._answer_all()

    # Answering.

    def _answer_all(self) -> None:
        """Answers what has come, up to the first call that has to wait, and sends it in one piece."""
        replies: list[bytes] = []
        reader, answered, close = self._reader, 0, False
        while answered < MAX_ANSWERED_AT_ONCE and not close:
            found = reader.next()
            if found is None:
                break
            if isinstance(found, Reply):
                reply, self._http10 = found, False
            else:
                answer = self._answer(found)
                if answer is None:
                    break
                reply = answer
            replies.append(self._encode(reply, self._http10))
            answered += reply is not CONTINUE
            close = reply.close
        if replies:
            self._transport.write(b"".join(replies))
        self._after(answered, close)

    def _answer_repeated(self, body: bytes) -> None:
        """`_answer_all` for the most frequent case: one whole request, whose head is known already."""
        self.quiet = 0
        self._close = self._http10 = False
        self._busy = True
        reply = self._endpoint.answer(self._reader.repeat_headers, body, self)
        if reply is not None:
            self._busy = False
            self._transport.write(self._encode(reply))

    def _answer(self, request: Request) -> Reply | None:
        """The reply; None when it comes later."""
        if not self._trusted:
            self._trusted = True
            self._server.authenticated(self)
        self._close, self._http10 = not request.keep_alive, request.http10
        self._busy = True
        reply = self._endpoint.answer(request.headers, request.body, self)
        if reply is None:
            if self._eof:
                self._server.watch(self)
            return None
        self._busy = False
        return reply.closing() if self._close or self._stopping else reply

    def wait(self, answer: Answer) -> None:
        """Awaits the answer to the request at hand in a task, and sends it."""
        self._task = asyncio.get_running_loop().create_task(answer)
        self._task.add_done_callback(self._finished)
        if self._drop >= 0:
            self._cancel(self._task)

    def _finished(self, task: Task) -> None:
        """A task has ended; this comes one turn of the loop later, so that records of several go out together."""
        self._task = None
        self._endpoint.commit()
        if not task.cancelled():
            self.reply(task.result())

    def reply(self, reply: Reply) -> None:
        """Sends the reply to the request at hand, and goes on with those behind it."""
        self._busy = False
        if self._drop >= 0:
            return
        if self._close or self._stopping:
            reply = reply.closing()
        self.quiet = 0
        self._transport.write(self._encode(reply, self._http10))
        if reply.close:
            self._linger()
        elif self._writable and (self._reader.buffered or self._eof):
            self._answer_all()

    def _cancel(self, task: Task) -> None:
        if self._endpoint.ends_with_connection(task):
            # In the next turn: a task that is cancelled before its first step would never enter its coroutine.
            asyncio.get_running_loop().call_soon(task.cancel)

    def _after(self, answered: int, close: bool) -> None:
        """What follows the replies that were sent."""
        if answered or self._reader.in_body:
            self.quiet = 0
        if close:
            self._linger()
        elif not self._busy and answered >= MAX_ANSWERED_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif not self._busy and self._eof and self._writable:
            self._transport.close()
        if not self._reading and self._reader.buffered <= MAX_PIPELINED_BYTES and not close:
            self._reading = True
            self._transport.resume_reading()

    def _go_on(self) -> None:
        if not self._busy and self._writable and self._drop < 0:
            self._answer_all()

    def _linger(self) -> None:
        """Ends the sending side; the server closes the rest after a moment, or the peer does."""
        self._drop = MAX_DROPPED_BYTES
        self.quiet = 0
        if self._eof or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    # What the server and the bridge ask.

    @property
    def state(self) -> str:
        """What the connection waits for: `call`, `write`, `linger`, `body`, `head` or `idle`."""
        if self._busy:
            return "call"
        if not self._writable:
            return "write"
        if self._drop >= 0:
            return "linger"
        if self._reader.in_body:
            return "body"
        return "head" if self._reader.buffered or not self._trusted else "idle"

    def writes(self) -> bool:
        """Whether the peer has taken something since the last time that this was asked."""
        before, self._unread_reply = self._unread_reply, self._transport.get_write_buffer_size()
        return self._unread_reply != before

    def abort(self) -> None:
        self._transport.abort()

    def stop(self) -> None:
        """No further request is answered: the connection ends now, or behind its call's reply."""
        self._stopping = True
        if not self._busy and self._drop < 0:
            self._drop = MAX_DROPPED_BYTES
            self._transport.close()

    def probe(self) -> None:
        """Ends the connection if its peer is gone; asks it with an interim reply where it has ended its stream."""
        if _hung_up(self.descriptor):
            self._transport.abort()
        elif self._eof and self._busy and not self._http10 and not self._transport.get_write_buffer_size():
            self._transport.write(self._encode(CONTINUE))

    async def confirm(self) -> None:
        """Returns when the peer is still there, as far as the system can tell; otherwise the task is cancelled.

        What is on its way is read first: the end of the stream may be behind it.
        """
        while self._drop < 0 and not self._eof and self._reading and _readable(self.descriptor):  # noqa: ASYNC110
            await asyncio.sleep(0)
        if self._eof or not self._reading or self._drop >= 0:
            for pause in PROBE_STEPS:
                if self._drop < 0:
                    self.probe()
                await asyncio.sleep(pause)


def _hung_up(descriptor: int) -> bool:
    return bool(_poll(descriptor, 0))


def _readable(descriptor: int) -> bool:
    return bool(_poll(descriptor, select.POLLIN))


def _poll(descriptor: int, events: int) -> int:
    """What the system reports of a socket; errors and hang-ups always are. 0 where there is no socket."""
    if descriptor < 0:
        return 0
    poller = select.poll()
    poller.register(descriptor, events)
    found = poller.poll(0)
    return found[0][1] if found else 0
