"""The endpoint as a plain ASGI app: reads the body within its bound, sends the reply, notices who hangs up."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any

from a2a_bridge.http.endpoint import MOST_BODY_BYTES, TOO_LARGE, Answer, Endpoint, Headers, Reply

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Task = asyncio.Task[Any]

# A call that lasts longer than this is worth a task that watches for a caller who hangs up.
WATCH_AFTER_SECONDS = 0.05
# After a refusal that ends the connection, what is still on its way is read and dropped up to this bound:
# a socket closed with unread data resets, and the reset can overtake the reply.
MOST_DROPPED_BYTES = 8 * 1024 * 1024
DROP_SECONDS = 2.0


class App:
    """ASGI 3, HTTP only. A closed connection cancels the call that it carries, if `ends` says so of its task.
    `watch_after` is how many seconds a call has lasted when its connection is watched."""

    def __init__(
        self,
        endpoint: Endpoint,
        ends: Callable[[Task], bool] = lambda _: True,
        watch_after: float = WATCH_AFTER_SECONDS,
    ) -> None:
        self._endpoint = endpoint
        self._ends = ends
        self._watch_after = watch_after

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        headers: Headers = dict(reversed(scope["headers"]))  # the first of a repeated header wins
        reply = self._endpoint.admit(scope["method"], headers)
        if reply is None:
            event = await receive()
            body: bytes | None = event.get("body", b"")
            if event.get("more_body") or len(body or b"") > MOST_BODY_BYTES:
                body = await _rest(event, receive)
            elif event["type"] == "http.disconnect":
                return
            del event  # a call may wait for hours; the bytes that asked for it need not
            answer = TOO_LARGE if body is None else self._endpoint.answer(headers, body, _address(scope))
            del body
            reply = answer if isinstance(answer, Reply) else await self._reply(answer, receive)
            if reply is None:
                return
        if reply.close:
            await _send_last(reply, receive, send)
        else:
            await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
            await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, answer: Answer, receive: Receive) -> Reply | None:
        """The reply, or None when the caller hung up and the call was cancelled for it."""
        try:
            waits_for = answer.send(None)
        except StopIteration as done:  # answered without waiting: nobody could hang up meanwhile
            reply: Reply = done.value
            return reply
        rest = _Begun(answer, waits_for)
        watch = _Watch(receive, self._ends, self._watch_after)
        try:
            return await rest
        except asyncio.CancelledError:
            if not watch.hung_up:
                raise
            return None
        finally:
            watch.end()


def _address(scope: Event) -> str:
    """The other end's IP address; empty where there is none to know."""
    client = scope.get("client")
    return str(client[0]) if client else ""


class _Begun:
    """A coroutine that has taken its first step; awaited, it goes on from what it waits for."""

    def __init__(self, coroutine: Answer, waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[object, object, Reply]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    got = yield waits_for
                except BaseException as error:  # a cancel, most likely: it is the coroutine's to handle
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(got)
        except StopIteration as done:
            reply: Reply = done.value
            return reply


class _Watch:
    """Cancels the task that made it when its connection closes."""

    def __init__(self, receive: Receive, ends: Callable[[Task], bool], after: float) -> None:
        self.hung_up = False
        self._receive = receive
        self._ends = ends
        self._owner = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._owner is not None and self._ends(self._owner):
            self.hung_up = True
            self._owner.cancel()

    def end(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if self.hung_up and self._owner is not None:
            self._owner.uncancel()


async def _rest(first: Event, receive: Receive) -> bytes | None:
    """The whole body, or None when it grows past the limit (T4) or the caller leaves before its end."""
    parts: list[bytes] = []
    length = 0
    event = first
    while True:
        part: bytes = event.get("body", b"")
        length += len(part)
        if length > MOST_BODY_BYTES or event["type"] == "http.disconnect":
            return None
        parts.append(part)
        if not event.get("more_body"):
            return b"".join(parts)
        event = await receive()


async def _send_last(reply: Reply, receive: Receive, send: Send) -> None:
    """Send the whole reply, and close the connection once its sender has had time to see it."""
    headers = (*reply.headers, (b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    await _drop_rest(receive)
    await send({"type": "http.response.body", "body": b""})


async def _drop_rest(receive: Receive) -> None:
    dropped = 0
    try:
        async with asyncio.timeout(DROP_SECONDS):
            while dropped <= MOST_DROPPED_BYTES:
                event = await receive()
                dropped += len(event.get("body", b""))
                if event["type"] == "http.disconnect" or not event.get("more_body"):
                    return
    except TimeoutError:
        return
