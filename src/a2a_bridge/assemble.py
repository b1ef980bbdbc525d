"""Config → wired objects: the one file that sees every room."""

import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec

from a2a_bridge import config as settings
from a2a_bridge.audit.journal import Journal
from a2a_bridge.auth import Auth, Origins, token_prefix
from a2a_bridge.bridge import Bridge, Settled
from a2a_bridge.config import Config
from a2a_bridge.control import messages, server
from a2a_bridge.control.rendezvous import own_socket
from a2a_bridge.errors import BridgeError, ControlError, StartError
from a2a_bridge.exposure import MCP_PREFIX, Exposure
from a2a_bridge.http.app import App
from a2a_bridge.http.endpoint import Endpoint
from a2a_bridge.http.serve import Listener, listen, serving
from a2a_bridge.peer import Handler
from a2a_bridge.sessions import Sessions
from a2a_bridge.tool import Host
from a2a_bridge.wire.mcp import SERVER_VERSION

GRACE_SECONDS = 5.0


class Places(msgspec.Struct, frozen=True):
    """Where a bridge keeps its audit log and its control socket."""

    audit: Path
    control: Path


class Live:
    """A bridge that serves."""

    def __init__(
        self, config: Config, listener: Listener, bridge: Bridge, sessions: Sessions, journal: Journal
    ) -> None:
        self.url = listener.url
        self.warnings = [*config.warnings, *listener.warnings]
        self._config = config
        self._listener = listener
        self._bridge = bridge
        self._sessions = sessions
        self._journal = journal
        self._auth = Auth(config.token)
        self._began = time.monotonic()

    @property
    def token_prefix(self) -> str:
        return token_prefix(self._auth.token)

    @property
    def auth(self) -> Auth:
        return self._auth

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def handlers(self) -> dict[str, Handler]:
        """What may be asked from outside of HTTP: by the control socket, or by a host's own human."""
        return {messages.STATUS: self.status, messages.TOKEN: self.token, messages.ROTATE: self.rotate}

    def exposes(self, name: str) -> bool:
        return self._bridge.exposes(name)

    async def status(self, _: object) -> messages.Status:
        return messages.Status(
            url=self._listener.url,
            client_url=self._listener.client_url,
            port=self._listener.port,
            pid=os.getpid(),
            host=self._bridge.host.name,
            uptime=round(time.monotonic() - self._began, 3),
            sessions=len(self._sessions.live()),
            calls=len(self._bridge.running()),
            audit=str(self._journal.path),
            audit_failed=self._journal.failed,
            config=str(self._config.path),
            token_prefix=self.token_prefix,
            version=SERVER_VERSION,
        )

    async def token(self, _: object) -> str:
        return self._auth.token

    async def rotate(self, _: object) -> str:
        """Persist a new token, then let it count at once (A5). Raises ConfigError, with the old one still valid."""
        self._auth.rotate(settings.rotate(self._config.path))
        return self.token_prefix


@asynccontextmanager
async def bridging(
    config: Config,
    host: Host,
    places: Places,
    report: Callable[[str], None],
    watch: Callable[[Settled], None] | None = None,
    grace: float = GRACE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Live]:
    """A bridge for `host` that serves while the block runs, and ends cleanly with it.

    Raises StartError when the address cannot be bound or the host cannot start.
    """
    async with AsyncExitStack() as stack:
        listener = listen(config.host, config.port)
        stack.callback(listener.socket.close)
        try:
            await host.start()
        except BridgeError as error:
            raise StartError(str(error)) from None
        stack.push_async_callback(host.close)
        config = msgspec.structs.replace(config, warnings=(*config.warnings, *await _idle_denials(config, host)))
        journal = Journal(places.audit, report)
        stack.callback(journal.close)
        sessions = Sessions(clock, _new_session_id)
        exposure = Exposure(config.deny, config.deny_mcp_tools)
        bridge = Bridge(host, exposure, journal, _call_ids(), report, watch)
        live = Live(config, listener, bridge, sessions, journal)
        endpoint = Endpoint(live.auth, Origins(config.allowed_origins), sessions, bridge, report)
        app = App(endpoint, cancel_on_disconnect=config.on_disconnect == "cancel")
        try:
            await stack.enter_async_context(server.listening(own_socket(places.control), live.handlers, report))
        except ControlError as error:
            live.warnings.append(f"{error}; this bridge serves, but commands cannot reach it")
        await stack.enter_async_context(serving(app, listener, lambda: bridge.stop(grace)))
        yield live


async def _idle_denials(config: Config, host: Host) -> list[str]:
    """Denied names that the host does not have: a misspelt one would leave its tool exposed, and say nothing.
    The tools of other MCP servers may come later, so their names are not judged."""
    if not config.deny:
        return []
    names = [tool.name for tool in await host.tools()]
    return [
        f"deny: this host has no tool {name!r}; it has {', '.join(names)}"
        for name in config.deny
        if name not in names and not name.startswith(MCP_PREFIX)
    ]


def _new_session_id() -> str:
    """A session id is a capability of sorts, so it comes from the system's randomness (S1)."""
    return str(uuid.uuid4())


def _call_ids() -> Callable[[], str]:
    """Ids of the form of a UUID: a random start of this process's own, and a number. A call's id need only
    be unlike any other, and this spares a system call and a formatting for each."""
    start = str(uuid.uuid4())[:24]
    return map(f"{start}{{:012x}}".format, count(1)).__next__
