"""A connection without a socket: what is sent is kept, and what the connection asks of its transport is seen."""

import asyncio

from a2a_bridge.http.connection import Connection
from a2a_bridge.http.endpoint import Endpoint
from a2a_bridge.http.server import Server, Timeouts


class MemoryTransport(asyncio.Transport):
    """Its peer takes everything that is written, until `stalled` is set."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.sent = b""
        self.writes = 0
        self.unsent = 0
        self.stalled = False
        self.reading = True
        self.ended = False
        self.closed = False
        self.aborted = False
        self.news = asyncio.Event()
        self.protocol: asyncio.Protocol | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written to a closed transport"
        assert not self.ended, "written behind the end"
        self.writes += 1
        self.sent += bytes(data)
        if self.stalled:
            self.unsent += len(data)
            if self.unsent > 65536 and self.protocol is not None:
                self.protocol.pause_writing()
        self.news.set()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self.aborted = True
        self._end()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self.news.set()
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class MemoryConnection:
    """The server's end of a connection, and bytes to it."""

    def __init__(self, endpoint: Endpoint, server: Server | None = None) -> None:
        self.server = server or Server(endpoint, lambda _: None, max_connections=1000)
        self.transport = MemoryTransport()
        self.protocol: Connection = self.server.connection()
        self.transport.protocol = self.protocol
        self.protocol.connection_made(self.transport)

    def feed(self, data: bytes, size: int = 0) -> None:
        """In one piece, or in pieces of `size` bytes."""
        for at in range(0, len(data), size or len(data) or 1):
            if not self.transport.closed:
                self.protocol.data_received(data[at : at + (size or len(data))])

    def paused(self) -> bool:
        """Whether nothing is read from the peer."""
        return not self.transport.reading

    async def settled(self) -> bytes:
        """What has been sent, once every call that ran has been answered."""
        for _ in range(50):
            await asyncio.sleep(0)
        return self.transport.sent


__all__ = ["MemoryConnection", "MemoryTransport", "Timeouts"]
