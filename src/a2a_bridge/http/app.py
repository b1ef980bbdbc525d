"""The endpoint as a plain ASGI app: reads the body within its bound, sends the reply, notices who hangs up."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from a2a_bridge.http.endpoint import MOST_BODY_BYTES, TOO_LARGE, Endpoint, Headers, Reply

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

# Most answers are ready before anybody could hang up; only the others are worth a task that watches for it.
WATCH_AFTER_SECONDS = 0.05
# After a refusal that ends the connection, what is still on its way is read and dropped up to this bound:
# a socket closed with unread data resets, and the reset can overtake the reply.
MOST_DROPPED_BYTES = 8 * 1024 * 1024
DROP_SECONDS = 2.0


class App:
    """ASGI 3, HTTP only. With `cancel_on_disconnect` a closed connection cancels the call that it carries."""

    def __init__(self, endpoint: Endpoint, cancel_on_disconnect: bool = True) -> None:
        self._endpoint = endpoint
        self._cancel_on_disconnect = cancel_on_disconnect

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
            if body is None:
                reply = TOO_LARGE
            else:
                answer = self._endpoint.answer(headers, body)
                if isinstance(answer, Reply):
                    reply = answer
                else:
                    del body  # a call may wait for hours; its bytes need not
                    reply = await self._attended(answer, receive)
                    if reply is None:
                        return
        await _send(reply, receive, send)

    async def _attended(self, answer: Awaitable[Reply], receive: Receive) -> Reply | None:
        """The reply, or None when the caller hung up and the call was cancelled for it."""
        if not self._cancel_on_disconnect:
            return await answer
        watch = _Watch(receive)
        try:
            return await answer
        except asyncio.CancelledError:
            if not watch.hung_up:
                raise
            return None
        finally:
            watch.end()


class _Watch:
    """Cancels the current task when its connection closes."""

    def __init__(self, receive: Receive) -> None:
        self.hung_up = False
        self._receive = receive
        self._owner = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._owner is not None:
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


async def _send(reply: Reply, receive: Receive, send: Send) -> None:
    headers = [*reply.headers, (b"connection", b"close")] if reply.close else reply.headers
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if reply.close:
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        await _drop_rest(receive)
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": reply.body})


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
