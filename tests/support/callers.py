"""Two ways to put the same request: to a connection in memory, and over HTTP to a real process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from a2a_bridge.approval.grants import Grants
from a2a_bridge.approval.policy import Policy
from a2a_bridge.approval.requests import Approvals
from a2a_bridge.audit.writer import AuditWriter
from a2a_bridge.auth import Auth, Origins
from a2a_bridge.bridge import Bridge, Rules
from a2a_bridge.exposure import Exposure
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.http.endpoint import Endpoint
from a2a_bridge.limits import Limits
from a2a_bridge.sessions import Sessions
from tests.support.processes import Served
from tests.support.transport import MemoryConnection

# The bytes of a head and of a body that come one by one; the rest of a large one comes in one piece.
CUT_BYTES = 2000
TOKEN = "correct-horse-battery-staple-43-characters-x"
ALLOWED_ORIGIN = "https://app.example:8443"
SETTINGS = {"token": TOKEN, "deny": ["fail"], "allowedOrigins": [ALLOWED_ORIGIN]}

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class Reply(NamedTuple):
    """What came back. `headers` has lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> Any:
        return self.json["result"]

    @property
    def error(self) -> tuple[int, int, str, Any]:
        """Status, code, message and id of an error body, whose form is checked (T7)."""
        found = self.json
        assert set(found) == {"jsonrpc", "id", "error"}, found
        assert set(found["error"]) == {"code", "message"}, found
        assert found["jsonrpc"] == "2.0"
        return self.status, found["error"]["code"], found["error"]["message"], found["id"]


class Caller(Protocol):
    """Puts one raw request."""

    audit: Path

    async def send(self, method: str, headers: Headers, body: bytes = b"", path: str = "/") -> Reply: ...

    async def advance(self, seconds: float) -> None: ...


class Client:
    """A well-behaved client on top of a caller, with knobs for behaving otherwise."""

    def __init__(self, caller: Caller, token: str = TOKEN) -> None:
        self.caller = caller
        self.token = token
        self.session: str | None = None

    def headers(self, **changes: str | None) -> dict[str, str]:
        """The usual headers; `name=None` leaves one out, underscores stand for hyphens."""
        usual: dict[str, str | None] = {"authorization": f"Bearer {self.token}", "mcp-session-id": self.session}
        usual |= {name.replace("_", "-"): value for name, value in changes.items()}
        return {name: value for name, value in usual.items() if value is not None}

    async def post(self, body: bytes, **headers: str | None) -> Reply:
        return await self.caller.send("POST", self.headers(**headers), body)

    async def message(self, method: str, params: Any = None, message_id: Any = 1, **headers: str | None) -> Reply:
        message = {"jsonrpc": "2.0", "id": message_id, "method": method}
        return await self.post(json.dumps(message | ({} if params is None else {"params": params})).encode(), **headers)

    async def call(self, name: Any, arguments: Any = None, message_id: Any = 1) -> Reply:
        params = {"name": name} | ({} if arguments is None else {"arguments": arguments})
        return await self.message("tools/call", params, message_id)

    async def open(self, **info: str) -> str:
        """`initialize`; further messages go under the new session."""
        reply = await self.message("initialize", {"clientInfo": info} if info else {}, mcp_session_id=None)
        assert reply.status == 200, reply
        self.session = reply.headers["mcp-session-id"]
        return self.session


def _soon(work: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(work)


class MemoryCaller:
    """The whole path below the socket: connection, endpoint, sessions, bridge, journal. Its clock stands still."""

    def __init__(self, home: Path, cuts: bool = False) -> None:
        self.audit = home / "audit.log"
        self.cuts = cuts  # whether a connection gets its bytes one by one
        self.now = 1000.0
        self.reports: list[str] = []
        self.host = FakeHost()
        self.auth = Auth(TOKEN)
        self.journal = AuditWriter(self.audit, self.reports.append)
        self.approvals = Approvals(Policy(), Grants(lambda: self.now, 600), lambda: self.now)
        rules = Rules(Exposure(SETTINGS["deny"]), self.approvals, Limits())
        self.bridge = Bridge(self.host, rules, self.journal, lambda: str(uuid4()), self.reports.append)
        self.sessions = Sessions(lambda: self.now, lambda: str(uuid4()), self.bridge.end_session)
        origins = Origins([ALLOWED_ORIGIN])
        self.endpoint = Endpoint(self.auth, origins, self.sessions, self.bridge, self.reports.append, _soon)

    async def send(self, method: str, headers: Headers, body: bytes = b"", path: str = "/") -> Reply:
        """One request whose body arrives in one piece."""
        return await self.exchange(method, headers, [body], path)

    async def exchange(self, method: str, headers: Headers, pieces: list[bytes], path: str = "/") -> Reply:
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        pairs.append(("Content-Length", str(sum(map(len, pieces)))))
        one = MemoryConnection(self.endpoint)
        for piece in (request(method, pairs, path=path), *pieces):
            cut = CUT_BYTES if self.cuts else 0
            one.feed(piece[:cut], 1)
            one.feed(piece[cut:])
        try:
            while not (found := parsed(one.transport.sent, method == "HEAD")):
                one.transport.news.clear()
                await one.transport.news.wait()
        finally:
            one.protocol.connection_lost(None)
            for _ in range(5):  # a call that ran is cancelled meanwhile
                await asyncio.sleep(0)
        return found

    async def advance(self, seconds: float) -> None:
        self.now += seconds


class HttpCaller:
    """Plain HTTP/1.1, one connection for each request. Talks to the process of `tests.support.scripted`."""

    _cuts = count(1, 7)

    def __init__(self, served: Served) -> None:
        self.served = served
        self.audit = served.audit

    async def send(self, method: str, headers: Headers, body: bytes = b"", path: str = "/") -> Reply:
        return await self.raw(request(method, headers, body, path))

    async def raw(self, data: bytes) -> Reply:
        """In two pieces, cut at another position each time."""
        cut = next(self._cuts) % max(1, min(len(data), CUT_BYTES))
        async with self.connection() as (reader, writer):
            writer.write(data[:cut])
            await asyncio.sleep(0)
            writer.write(data[cut:])
            return await read_reply(reader, head=data.startswith(b"HEAD "))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.served.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def advance(self, seconds: float) -> None:
        client = Client(self)
        await client.open()
        assert (await client.call("advance", {"seconds": seconds})).result["isError"] is False


def request(method: str, headers: Headers, body: bytes = b"", path: str = "/") -> bytes:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in pairs):
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {path} HTTP/1.1", "Host: bridge", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def parsed(data: bytes, head: bool = False) -> Reply | None:
    """The first response in what was sent; None while it is not whole."""
    replies = all_parsed(data, head)
    return replies[0] if replies else None


def all_parsed(data: bytes, head: bool = False) -> list[Reply]:
    """All whole responses, interim ones left out."""
    found = []
    while b"\r\n\r\n" in data:
        lines, data = data.split(b"\r\n\r\n", 1)
        first, *rest = lines.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        length = 0 if head else int(headers.get("content-length", 0))
        if len(data) < length:
            break
        body, data = data[:length], data[length:]
        if not first.startswith("HTTP/1.1 1"):
            found.append(Reply(int(first.split()[1]), headers, body))
    return found


async def read_reply(reader: asyncio.StreamReader, head: bool = False) -> Reply:
    """One response; a body is never chunked in this contract."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert "transfer-encoding" not in headers
    length = 0 if head else int(headers.get("content-length", 0))
    return Reply(int(first.split()[1]), headers, await reader.readexactly(length))
