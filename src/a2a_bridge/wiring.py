"""Config → wired objects: the one file that sees every room."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec

from a2a_bridge import config as settings
from a2a_bridge.approval.grants import Grants
from a2a_bridge.approval.policy import Policy
from a2a_bridge.approval.requests import ApprovalRequest, Approvals
from a2a_bridge.audit.writer import AuditWriter
from a2a_bridge.auth import Auth, Origins, token_prefix
from a2a_bridge.bridge import Bridge, Rules
from a2a_bridge.calls import CallHistory, FinishedCall
from a2a_bridge.config import Config
from a2a_bridge.control import messages, server
from a2a_bridge.control.handlers import Handlers
from a2a_bridge.control.notification import Notification
from a2a_bridge.control.socket_path import own_socket
from a2a_bridge.errors import BridgeError, ControlError, StartError, ToolError
from a2a_bridge.exposure import MCP_PREFIX, Exposure
from a2a_bridge.http.endpoint import Endpoint
from a2a_bridge.http.listener import Listener, listen
from a2a_bridge.http.server import serving
from a2a_bridge.limits import Limits
from a2a_bridge.peer import Handler
from a2a_bridge.sessions import Sessions
from a2a_bridge.terminal_text import escape
from a2a_bridge.tool import Host
from a2a_bridge.wire.mcp import SERVER_VERSION

GRACE_SECONDS = 5.0


class Paths(msgspec.Struct, frozen=True):
    """Where a bridge keeps its audit log and its control socket."""

    audit: Path
    control: Path


class RunningBridge:
    """A bridge that serves."""

    def __init__(
        self,
        config: Config,
        listener: Listener,
        bridge: Bridge,
        sessions: Sessions,
        journal: AuditWriter,
        owner: Handlers,
        approvals: Approvals,
    ) -> None:
        self.url = listener.url
        self.warnings = [*config.warnings, *listener.warnings]
        self._config = config
        self._listener = listener
        self._bridge = bridge
        self._sessions = sessions
        self._journal = journal
        self._owner = owner
        self._approvals = approvals
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
        own = {messages.STATUS: self.status, messages.TOKEN: self.token, messages.ROTATE: self.rotate}
        return own | self._owner.handlers(self.status)

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
            waiting=self._approvals.waits,
            paused=self._bridge.paused,
        )

    async def token(self, _: object) -> str:
        return self._auth.token

    async def rotate(self, _: object) -> str:
        """Persist a new token, then let it count at once (A5). Raises ConfigError, with the old one still valid."""
        self._auth.rotate(settings.rotate(self._config.path))
        return self.token_prefix


@asynccontextmanager
async def run_bridge(
    config: Config,
    host: Host,
    places: Paths,
    report: Callable[[str], None],
    watch: Callable[[FinishedCall | ApprovalRequest], None] = lambda _: None,
    grace: float = GRACE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[RunningBridge]:
    """A bridge for `host` that serves while the block runs, and ends cleanly with it. `watch` is told of each call
    that has ended, and of each question to the owner.

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
        config = msgspec.structs.replace(config, warnings=(*config.warnings, *await _idle_rules(config, host)))
        ledger = CallHistory()

        def settled(call: FinishedCall) -> None:
            ledger.put(call)
            watch(call)

        def tell(line: str) -> None:
            owner.notices.append(line)
            report(line)

        journal = AuditWriter(places.audit, tell, later=asyncio.get_running_loop().call_soon)
        stack.callback(journal.close)
        rules = _rules(config, clock)
        bridge = Bridge(host, rules, journal, _call_ids(), tell, settled, clock)
        sessions = Sessions(clock, _new_session_id, bridge.end_session)
        owner = Handlers(bridge, sessions, rules.approvals, ledger, clock)
        rules.approvals.asked = _asking(owner, Notification(config.notify_command, tell), watch)
        live = RunningBridge(config, listener, bridge, sessions, journal, owner, rules.approvals)
        owner.notices.extend(live.warnings)
        cancels = config.on_disconnect == "cancel"
        origins = Origins(config.allowed_origins)
        endpoint = Endpoint(live.auth, origins, sessions, bridge, tell, asyncio.get_running_loop().call_soon, cancels)
        try:
            await stack.enter_async_context(server.listening(own_socket(places.control), live.handlers, tell))
        except ControlError as error:
            live.warnings.append(f"{error}; this bridge serves, but commands cannot reach it")
        await stack.enter_async_context(serving(endpoint, listener, tell, lambda: bridge.stop(grace)))
        yield live


def _rules(config: Config, clock: Callable[[], float]) -> Rules:
    policy = Policy(config.approval_mode, config.approval)
    grants = Grants(clock, config.grant_seconds)
    approvals = Approvals(policy, grants, clock, config.approval_timeout or None, config.grant_seconds)
    limits = Limits(
        config.max_concurrent_calls,
        config.max_concurrent_calls_per_session,
        config.call_timeout,
        config.max_result_bytes,
    )
    return Rules(Exposure(config.deny, config.deny_mcp_tools), approvals, limits)


def _asking(
    owner: Handlers, notification: Notification, watch: Callable[[FinishedCall | ApprovalRequest], None]
) -> Callable[[ApprovalRequest], None]:
    def asked(request: ApprovalRequest) -> None:
        watch(request)
        if not owner.attached:
            call = request.call
            said = escape(f"{request.tool}: {request.summary}")
            notification.tell(
                f"{said} (asked by {call.client or 'an unnamed client'}; a2a-bridge approve {request.id})"
            )

    return asked


async def _idle_rules(config: Config, host: Host) -> list[str]:
    """Rules that mean nothing to this host: a misspelt one would leave open what it was to close, and say nothing.
    The tools of other MCP servers may come later, so their names are not judged."""
    asks = bool(config.approval) or config.approval_mode != "yolo"
    if not config.deny and not asks:
        return []
    names = [tool.name for tool in await host.tools()]
    own = asks and any(_asks_itself(host, name) for name in names[:1])
    told = ["tools: approvalMode and approval have no effect here: this host asks its own human"] if own else []
    ruled = [rule.name for rule in Policy(rules=config.approval).rules if "*" not in rule.name]
    return told + [
        f"{field}: this host has no tool {name!r}; it has {', '.join(names)}"
        for field, given in (("deny", config.deny), ("tools.approval", ruled))
        for name in given
        if name not in names and not name.startswith(MCP_PREFIX)
    ]


def _asks_itself(host: Host, name: str) -> bool:
    try:
        return host.access(name, {}) is None
    except ToolError:
        return False


def _new_session_id() -> str:
    """A session id is a capability of sorts, so it comes from the system's randomness (S1)."""
    return str(uuid.uuid4())


def _call_ids() -> Callable[[], str]:
    """Ids of the form of a UUID: a random start of this process's own, and a number. A call's id need only
    be unlike any other, and this spares a system call and a formatting for each."""
    start = str(uuid.uuid4())[:24]
    return map(f"{start}{{:012x}}".format, count(1)).__next__
