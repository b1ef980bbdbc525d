"""The order of checks, once (rules O1 to O8): method, headers and a body in, a reply out. No socket, no loop.

`admit` judges what can be judged before the body is read; `answer` does the rest. Calls go on at the end of the
loop's turn, all that have come in it together; only what must wait then costs a task.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from a2a_bridge.auth import Auth, Origins
from a2a_bridge.bridge import Bridge
from a2a_bridge.calls import ActiveCall
from a2a_bridge.errors import HostUnavailable, Refusal, described
from a2a_bridge.http.reply import (
    ACCEPTED,
    ENDED,
    FORBIDDEN_ORIGIN,
    INTERNAL_ERROR,
    METHOD_NOT_ALLOWED,
    UNAUTHORIZED,
    UNSUPPORTED_ENCODING,
    Headers,
    Reply,
    error,
)
from a2a_bridge.sessions import Session, Sessions
from a2a_bridge.tool import Result, Tool
from a2a_bridge.wire import jsonrpc, mcp

Answer = Coroutine[Any, Any, Reply]


class Peer(Protocol):
    """Who sent a request, and gets its reply."""

    address: str  # IP

    async def confirm(self) -> None:
        """Returns when it has not hung up; else the task that asks is cancelled."""

    def reply(self, reply: Reply) -> None: ...

    def wait(self, answer: Answer) -> None:
        """Have it awaited in a task, `commit` called, and its reply sent."""


def _ok(body: bytes) -> Reply:
    return Reply(200, body)


class Endpoint:
    """Answers requests. `report` gets what went wrong inside, which the caller never sees (M10). `later` runs a
    function at the end of the loop's turn; `cancels` tells whether a closed connection cancels its call."""

    def __init__(
        self,
        auth: Auth,
        origins: Origins,
        sessions: Sessions,
        bridge: Bridge,
        report: Callable[[str], None],
        later: Callable[[Callable[[], None]], object],
        cancels: bool = True,
    ) -> None:
        self._auth = auth
        self._origins = origins
        self._sessions = sessions
        self._bridge = bridge
        self._report = report
        self._later = later
        self._cancels = cancels
        self._begun: list[tuple[ActiveCall, Peer]] = []
        self._listed: tuple[Sequence[Tool], bytes] = ((), mcp.encode_tools(()))
        self.commit = bridge.commit

    def admit(self, method: str, headers: Headers) -> Reply | None:
        """O1, O2, A6 and T10, before any state is read or a byte of the body taken. None: go on with `answer`.

        `headers` maps lower-case names to values; of a repeated header the first counts.
        """
        if method not in ("POST", "DELETE"):
            return METHOD_NOT_ALLOWED
        if not self._auth.allows(headers.get(b"authorization")):
            return UNAUTHORIZED
        origin = headers.get(b"origin")
        if origin is not None and not self._origins.allows(origin):
            return FORBIDDEN_ORIGIN
        if method == "DELETE":
            self._sessions.close(headers.get(b"mcp-session-id", b""))
            return ENDED
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            return UNSUPPORTED_ENCODING
        return None

    def answer(self, headers: Headers, body: bytes, peer: Peer) -> Reply | None:
        """O3 to O8 for an admitted POST whose whole body is here. None: the peer gets its reply later."""
        try:
            return self._answer(headers, body, peer)
        except Refusal as refusal:
            return error(refusal.status, refusal.code, refusal.message)
        except Exception as fault:  # O8: a bug of ours must not end the connection, nor show itself to the peer
            return self._failed(fault)

    def ends_with_connection(self, task: asyncio.Task[Any]) -> bool:
        """Whether a call is cancelled when its caller has hung up. One that waits for the owner always is."""
        return self._cancels or self._bridge.waits(task)

    def _answer(self, headers: Headers, body: bytes, peer: Peer) -> Reply | None:
        message = jsonrpc.parse(body)
        if message.method == "initialize":
            return self._initialize(message, peer.address)
        session_id = headers.get(b"mcp-session-id")
        if session_id is None:
            return error(400, -32000, "missing mcp-session-id", message.id)
        session = self._sessions.touch(session_id)
        if session is None:
            return error(404, -32000, "unknown session", message.id)
        if message.method.startswith("notifications/"):
            if message.method == "notifications/cancelled":
                self._cancel(session, message)
            return ACCEPTED
        if message.method == "ping":
            return _ok(jsonrpc.result(message.id, mcp.EMPTY_RESULT))
        if message.method == "tools/list":
            tools = self._bridge.known_tools()
            if tools is not None:
                return self._listing(message.id, tools)
            peer.wait(self._list(bytes(message.id)))
            return None
        if message.method == "tools/call":
            name, arguments = mcp.call_parameters(message.params)
            self._call(session, bytes(message.id), name, arguments, peer)
            return None
        return _ok(jsonrpc.error(message.id, -32601, "method not found"))

    def _initialize(self, message: jsonrpc.Message, address: str) -> Reply:
        session = self._sessions.open(mcp.client_name(message.params), address)
        body = jsonrpc.result(message.id, mcp.INITIALIZE_RESULT)
        return Reply(200, body, lines=b"mcp-session-id: %b\r\n" % session.id.encode())

    def _cancel(self, session: Session, message: jsonrpc.Message) -> None:
        wanted = jsonrpc.id_key(mcp.cancelled_request(message.params))
        if wanted is not None:
            self._bridge.cancel(session.id, lambda message_id: jsonrpc.request_key(message_id) == wanted)

    async def _list(self, message_id: bytes) -> Reply:
        try:
            return self._listing(message_id, await self._bridge.tools())
        except HostUnavailable as fault:  # no fault of ours, and the caller can do something about it
            return _ok(jsonrpc.error(message_id, -32000, str(fault)))
        except Exception as fault:  # O8, as in `answer`
            return self._failed(fault)

    def _listing(self, message_id: jsonrpc.Id, tools: Sequence[Tool]) -> Reply:
        known, encoded = self._listed
        if tools is not known and list(tools) != list(known):
            encoded = mcp.encode_tools(tools)
            self._listed = (tools, encoded)
        return _ok(jsonrpc.result(message_id, encoded))

    def _call(self, session: Session, message_id: bytes, name: str, arguments: object, peer: Peer) -> None:
        running = self._bridge.begin(
            session.id, session.client, name, arguments, message_id, session.address, peer.confirm
        )
        self._begun.append((running, peer))
        if len(self._begun) == 1:
            self._later(self._go_on)

    def _go_on(self) -> None:
        """Runs the calls that have come in one turn of the loop: their records are written together (L1)."""
        begun, self._begun = self._begun, []
        ready: list[tuple[Peer, Reply]] = []
        for running, peer in begun:
            try:
                outcome = self._bridge.run(running)
            except Exception as fault:  # O8, as in `answer`
                ready.append((peer, self._failed(fault)))
                continue
            if isinstance(outcome, Result):
                ready.append((peer, self._result(running.key, outcome)))
            else:
                peer.wait(self._awaited(running.key, outcome))
        self.commit()
        for peer, reply in ready:
            peer.reply(reply)

    async def _awaited(self, message_id: bytes, call: Coroutine[Any, Any, Result]) -> Reply:
        try:
            return self._result(message_id, await call)
        except Exception as fault:  # O8, as in `answer`
            return self._failed(fault)

    def _result(self, message_id: bytes, result: Result) -> Reply:
        return _ok(jsonrpc.result(message_id, mcp.encode_result(result)))

    def _failed(self, error: Exception) -> Reply:
        self._report(f"internal error: {described(error)}")
        return INTERNAL_ERROR
