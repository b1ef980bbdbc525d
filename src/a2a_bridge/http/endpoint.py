"""The order of checks, once (rules O1 to O8): method, headers and a body in, a reply out. No socket, no loop.

`admit` judges what can be judged before the body is read; `answer` does the rest. An answer that must
wait for the host comes back as a coroutine, so that everything else costs no task switch.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence

import msgspec

from a2a_bridge.auth import Auth, Origins
from a2a_bridge.bridge import Bridge
from a2a_bridge.errors import HostUnavailable, Refusal, described
from a2a_bridge.sessions import Session, Sessions
from a2a_bridge.tool import Tool
from a2a_bridge.wire import jsonrpc, mcp

MOST_BODY_BYTES = 1024 * 1024

Headers = Mapping[bytes, bytes]
Answer = Coroutine[object, object, "Reply"]

_JSON = (b"content-type", b"application/json")
_EMPTY = (_JSON, (b"content-length", b"0"))


class Reply(msgspec.Struct, frozen=True, gc=False):
    """Status, headers and body. `close` asks for the connection to end with this reply."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""
    close: bool = False


def _ok(body: bytes) -> Reply:
    return Reply(200, (_JSON, (b"content-length", b"%d" % len(body))), body)


def _error(status: int, code: int, message: str, message_id: jsonrpc.Id = jsonrpc.NULL, close: bool = False) -> Reply:
    body = jsonrpc.error(message_id, code, message)
    return Reply(status, (_JSON, (b"content-length", b"%d" % len(body))), body, close)


METHOD_NOT_ALLOWED = Reply(405, (*_EMPTY, (b"allow", b"POST, DELETE")))
UNAUTHORIZED = _error(401, -32000, "unauthorized")
FORBIDDEN_ORIGIN = _error(403, -32000, "forbidden origin")
TOO_LARGE = _error(413, -32600, "request body too large", close=True)
HEAD_TOO_LARGE = _error(431, -32600, "request headers too large", close=True)
MALFORMED_HTTP = _error(400, -32600, "invalid request", close=True)
ACCEPTED = Reply(202, _EMPTY)
ENDED = Reply(204, (_JSON,))  # a 204 has no Content-Length
INTERNAL_ERROR = _error(500, -32603, "internal error")


class Endpoint:
    """Answers requests. `report` gets what went wrong inside, which the caller never sees (M10)."""

    def __init__(
        self, auth: Auth, origins: Origins, sessions: Sessions, bridge: Bridge, report: Callable[[str], None]
    ) -> None:
        self._auth = auth
        self._origins = origins
        self._sessions = sessions
        self._bridge = bridge
        self._report = report
        self._listed: tuple[Sequence[Tool], bytes] = ((), mcp.encode_tools(()))

    def admit(self, method: str, headers: Headers) -> Reply | None:
        """O1, O2, A6 and T4, before any state is read or a byte of the body taken. None: go on with `answer`.

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
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > MOST_BODY_BYTES:
            return TOO_LARGE
        return None

    def answer(self, headers: Headers, body: bytes, address: str = "") -> Reply | Answer:
        """O3 to O8 for an admitted POST whose whole body is here, from that IP address."""
        try:
            return self._answer(headers, body, address)
        except Refusal as refusal:
            return _error(refusal.status, refusal.code, refusal.message)
        except Exception as error:  # O8: a bug of ours must not end the connection, nor show itself to the peer
            return self._failed(error)

    def _answer(self, headers: Headers, body: bytes, address: str) -> Reply | Answer:
        message = jsonrpc.parse(body)
        if message.method == "initialize":
            return self._initialize(message, address)
        session_id = headers.get(b"mcp-session-id")
        if session_id is None:
            return _error(400, -32000, "missing mcp-session-id", message.id)
        session = self._sessions.touch(session_id)
        if session is None:
            return _error(404, -32000, "unknown session", message.id)
        if message.method.startswith("notifications/"):
            if message.method == "notifications/cancelled":
                self._cancel(session, message)
            return ACCEPTED
        if message.method == "ping":
            return _ok(jsonrpc.result(message.id, mcp.EMPTY_RESULT))
        if message.method == "tools/list":
            return self._list(bytes(message.id))
        if message.method == "tools/call":
            name, arguments = mcp.call_parameters(message.params)
            return self._call(session, bytes(message.id), name, arguments)
        return _ok(jsonrpc.error(message.id, -32601, "method not found"))

    def _initialize(self, message: jsonrpc.Message, address: str) -> Reply:
        session = self._sessions.open(mcp.client_name(message.params), address)
        reply = _ok(jsonrpc.result(message.id, mcp.INITIALIZE_RESULT))
        return Reply(reply.status, (*reply.headers, (b"mcp-session-id", session.id.encode())), reply.body)

    def _cancel(self, session: Session, message: jsonrpc.Message) -> None:
        wanted = jsonrpc.id_key(mcp.cancelled_request(message.params))
        if wanted is not None:
            self._bridge.cancel(session.id, lambda message_id: jsonrpc.request_key(message_id) == wanted)

    async def _list(self, message_id: bytes) -> Reply:
        try:
            tools = await self._bridge.tools()
            known, encoded = self._listed
            if tools is not known and list(tools) != list(known):
                encoded = mcp.encode_tools(tools)
                self._listed = (tools, encoded)
            return _ok(jsonrpc.result(message_id, encoded))
        except HostUnavailable as error:  # no fault of ours, and the caller can do something about it
            return _ok(jsonrpc.error(message_id, -32000, str(error)))
        except Exception as error:  # O8, as in `answer`
            return self._failed(error)

    async def _call(self, session: Session, message_id: bytes, name: str, arguments: object) -> Reply:
        try:
            result = await self._bridge.call(session.id, session.client, name, arguments, message_id, session.address)
            return _ok(jsonrpc.result(message_id, mcp.encode_result(result)))
        except Exception as error:  # O8, as in `answer`
            return self._failed(error)

    def _failed(self, error: Exception) -> Reply:
        self._report(f"internal error: {described(error)}")
        return INTERNAL_ERROR
