"""Binds the address that is served (the fallback for a taken port, what to warn of: C4), and accepts connections."""

import asyncio
import errno
import socket
from collections.abc import Callable

from a2a_bridge.auth import is_loopback
from a2a_bridge.errors import StartError

BACKLOG = 4096
# Connections of one turn of the loop, and the pause when the system has no room for one.
MAX_ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 1.0


class Listener:
    """A bound socket, the address that it has, and what the owner should be warned of."""

    def __init__(self, bound: socket.socket, host: str, warnings: list[str]) -> None:
        self.socket = bound
        self.host = host
        self.warnings = warnings
        self.port: int = bound.getsockname()[1]

    @property
    def url(self) -> str:
        return _url(self.host, self.port)

    @property
    def client_url(self) -> str:
        """The URL for a client on this machine: a wildcard address is no address to connect to."""
        return _url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host), self.port)  # noqa: S104


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def listen(host: str, port: int) -> Listener:
    """Bind `host`; a taken `port` gives a free one and a warning.

    Raises StartError when the host is unknown or not of this machine, or the port may not be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise StartError(
            f"host: {host!r} is no address ({error}); expected a name or address of this machine"
        ) from None
    warnings = []
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            bound.bind(address)
            bound.listen(BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port == 0:
                raise
            bound.close()
            bound = socket.socket(family, kind, protocol)
            bound.bind((address[0], 0, *address[2:]))
            bound.listen(BACKLOG)
            warnings.append(f"port {port} is taken; listening on port {bound.getsockname()[1]} instead")
    except OSError as error:
        bound.close()
        raise StartError(f"cannot listen on {host!r} port {port}: {error.strerror or error}") from None
    bound.setblocking(False)
    if not is_loopback(host):
        warnings.append(
            f"host {host} is not loopback: whoever can reach it over the network may try tokens, and what is "
            "said to it travels unencrypted; prefer 127.0.0.1 and an SSH forward"
        )
    return Listener(bound, host, warnings)


class Accepting:
    """Accepts connections on the running loop until `close`. When the system has no room for one, it waits a moment;
    `report` gets a line the first time. (asyncio's own listener would try thousands of times, and log each.)"""

    def __init__(
        self, listening: socket.socket, connection: Callable[[], asyncio.Protocol], report: Callable[[str], None]
    ) -> None:
        self._socket = listening
        self._connection = connection
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._reported = False
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Refuse connections from now on."""
        self._loop.remove_reader(self._socket.fileno())
        if self._pause is not None:
            self._pause.cancel()
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            try:
                link, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait(error)
                return
            link.setblocking(False)
            opening = self._loop.create_task(self._open(link))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, link: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connection, link)
        except OSError:  # it is gone already
            link.close()

    def _wait(self, error: OSError) -> None:
        if not self._reported:
            self._reported = True
            self._report(f"no connection can be accepted for now: {error.strerror or error}; trying again each second")
        self._loop.remove_reader(self._socket.fileno())
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._loop.add_reader, self._socket.fileno(), self._accept)
