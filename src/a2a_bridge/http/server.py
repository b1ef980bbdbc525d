"""The connections of one listener together: how many there may be, how long each may take, and their end."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from a2a_bridge.http.connection import Connection
from a2a_bridge.http.endpoint import Endpoint
from a2a_bridge.http.listener import Accepting, Listener
from a2a_bridge.http.reply import Encoder

TICK_SECONDS = 1.0
PROBE_SECONDS = 0.2
# Each waiting call holds a connection; the usual soft limit of 1,024 files would be the first to give.
MAX_OPEN_FILES = 65536
# Files that connections leave to the control socket, the audit log and the tools.
RESERVED_FILES = 256
# Connections without an authenticated request; one more ends the oldest of them.
MAX_UNAUTHENTICATED = 256
# How long open connections get after the last call has been answered.
CLOSE_SECONDS = 2.0


class Timeouts(NamedTuple):
    """Ticks (seconds) without progress after which a connection in that state ends. A call may take any time.

    A head has to be whole in its time; a body and a reply have to grow. A client that pools connections should not
    find one closed under its request: the gap between two is minutes.
    """

    head: int = 10
    body: int = 30
    write: int = 300
    idle: int = 300
    linger: int = 2


class Server:
    """Keeps the table of connections. `report` gets a line for the owner when connections are turned away."""

    def __init__(
        self,
        endpoint: Endpoint,
        report: Callable[[str], None],
        max_connections: int,
        max_unauthenticated: int = MAX_UNAUTHENTICATED,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 frozen
    ) -> None:
        self.encoder = Encoder()
        self._endpoint = endpoint
        self._report = report
        self._max_connections = max_connections
        self._max_unauthenticated = max_unauthenticated
        self._timeouts = timeouts._asdict()
        self._connections: dict[Connection, None] = {}  # the oldest first, as in the next
        self._unauthenticated: dict[Connection, None] = {}
        self._watched: set[Connection] = set()
        self._probing: asyncio.TimerHandle | None = None
        self._reported = False
        self._empty: asyncio.Event | None = None

    def connection(self) -> Connection:
        """A new connection's protocol."""
        return Connection(self._endpoint, self)

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = self._unauthenticated[connection] = None
        if len(self._connections) > self._max_connections and not self._reported:
            self._reported = True
            self._report(
                f"{self._max_connections} connections are open, the most that the limit of open files allows "
                "(ulimit -n); further ones are turned away"
            )
        if len(self._unauthenticated) > self._max_unauthenticated or len(self._connections) > self._max_connections:
            oldest = next(iter(self._unauthenticated))
            del self._unauthenticated[oldest]
            oldest.abort()

    def authenticated(self, connection: Connection) -> None:
        self._unauthenticated.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._unauthenticated.pop(connection, None)
        self._watched.discard(connection)
        if self._empty is not None and not self._connections:
            self._empty.set()

    def watch(self, connection: Connection) -> None:
        self._watched.add(connection)
        if self._probing is None:
            self._probing = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        self._probing = None
        for connection in list(self._watched):
            connection.probe()
        if self._watched:
            self._probing = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._probe)

    def tick(self) -> None:
        """To be called once a second: ends what has been without progress for too long."""
        self.encoder.set_date()
        for connection in list(self._connections):
            connection.quiet += 1
            if connection.quiet < self._timeouts["linger"]:
                continue
            state = connection.state
            if state == "write" and connection.writes():
                connection.quiet = 0
            elif state != "call" and connection.quiet >= self._timeouts[state]:
                connection.abort()

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Ends every connection; what is being sent has `seconds` to arrive."""
        if self._probing is not None:
            self._probing.cancel()
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            self._empty = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        for connection in list(self._connections):
            connection.abort()


@asynccontextmanager
async def serving(
    endpoint: Endpoint, listener: Listener, report: Callable[[str], None], grace: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Serve while the block runs. At its end the listener closes at once, `grace` is awaited (calls in flight
    get their time and their answers), and then the connections end."""
    loop = asyncio.get_running_loop()
    files = _raise_open_files()
    server = Server(endpoint, report, files - min(RESERVED_FILES, files // 2))
    accepting = Accepting(listener.socket, server.connection, report)
    ticking = loop.create_task(_tick(server))
    try:
        yield
    finally:
        accepting.close()
        await grace()
        ticking.cancel()
        await server.close()


async def _tick(server: Server) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        server.tick()


def _raise_open_files() -> int:
    """Raises the soft limit of open files as far as it is of use. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft
