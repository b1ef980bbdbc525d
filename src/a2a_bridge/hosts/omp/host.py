"""The host omp: it asks an extension inside omp, over a link, and notices when omp does not answer any more."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from a2a_bridge.errors import HostUnavailable, PeerError, ToolError, UnknownTool, Withdrawn
from a2a_bridge.peer import INVALID_PARAMS, Handler, Peer, Reader, Writer
from a2a_bridge.tool import Call, Result, Tool
from a2a_bridge.wire.mcp import content_block

# The version of the link's messages. The extension in omp's directory may be of another installation.
LINK_VERSION = 1
# While something is asked, omp is pinged this often, and given up when it is silent for so long: stopped by
# Ctrl-Z, or hung. A tool that runs for hours does not keep omp from answering a ping.
PING_SECONDS = 3.0
SILENT_SECONDS = 7.0
# How long a cancelled call's tool gets to end, before its caller is answered without it.
CANCEL_SECONDS = 1.0
# The status line is for people: not every call of a busy second.
STATUS_SECONDS = 0.25

WITHDRAWN = -32800

Sleep = Callable[[float], Awaitable[None]]


class Hello(msgspec.Struct):
    """What the extension says of itself and of its omp."""

    link: int
    omp: str
    cwd: str


class _Listed(msgspec.Struct):
    tools: list[Tool]


class _Answer(msgspec.Struct, rename="camel"):
    content: list[dict[str, Any]]
    is_error: bool


class OmpHost:
    """Lends a running omp's Main session. `handlers` answer what omp's human asks; `gone` is set when omp is gone."""

    def __init__(
        self, reader: Reader, writer: Writer, report: Callable[[str], None], sleep: Sleep = asyncio.sleep
    ) -> None:
        self._name = "omp"
        self.handlers: dict[str, Handler] = {"stopping": self._stopping}
        self._ended = "omp has ended"
        self.gone = asyncio.Event()
        self._peer = Peer(reader, writer, self.handlers, report)
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulse: asyncio.Task[None] | None = None
        self._asking = 0
        self._silent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._registry: tuple[Tool, ...] = ()
        self._calls = 0
        self._address = ""
        self._shown = ""
        self._showing = False

    @property
    def name(self) -> str:
        return f"{self._name} (does not answer)" if self._silent.done() else self._name

    async def start(self) -> None:
        self._do(self._run())
        try:
            hello = msgspec.convert(await self._ask("hello"), Hello)
        except (msgspec.ValidationError, ToolError) as error:
            raise HostUnavailable(f"the extension does not answer as it should ({error})") from None
        if hello.link != LINK_VERSION:
            raise HostUnavailable(
                f"the extension in omp speaks version {hello.link} of the link, this bridge version {LINK_VERSION}; "
                "run a2a-bridge omp install, and restart omp"
            )
        self._name = f"omp {hello.omp} in {hello.cwd}"

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    @property
    def known_tools(self) -> None:
        return None

    async def tools(self) -> Sequence[Tool]:
        tools = tuple(msgspec.convert(await self._ask("tools/list"), _Listed).tools)
        if tools != self._registry:
            self._registry = tools
        return self._registry

    async def call(self, name: str, arguments: object, call: Call) -> Result:
        self._count(1)
        try:
            params = {"id": call.id, "name": name, "arguments": arguments, "client": call.client}
            answer = msgspec.convert(await self._ask("tools/call", params, call.id), _Answer)
        except msgspec.ValidationError as error:
            raise ToolError(f"omp's tool {name!r} gave a result of an unknown form ({error})") from None
        except PeerError as error:
            if error.code == INVALID_PARAMS:
                raise UnknownTool(name) from None
            raise ToolError(str(error)) from None
        finally:
            self._count(-1)
        return Result(tuple(map(content_block, answer.content)), answer.is_error)

    def access(self, name: str, arguments: object) -> None:
        """omp asks its own human, by its own rules."""

    async def preview(self, name: str, arguments: object) -> str:
        return ""

    async def halt(self) -> None:
        """What omp's own jobs do is omp's."""

    def serving(self, url: str, port: int, token_prefix: str) -> None:
        """Tell omp, and so its human, where the bridge listens."""
        self._address = url
        self._peer.notify("ready", {"port": port})
        self.notify(f"A2A bridge listening on {url} (token {token_prefix})", "info")
        self._show()

    def notify(self, message: str, level: str) -> None:
        """Show omp's human a message; `level` is `info`, `warning` or `error`."""
        self._peer.notify("notify", {"message": message, "level": level})

    def failed(self, message: str) -> None:
        """The bridge cannot serve, and says why; it is not to be started again."""
        self._peer.notify("failed", {"message": message})

    async def _run(self) -> None:
        try:
            await self._peer.run()
        finally:
            self.gone.set()

    async def _stopping(self, _: object) -> None:
        """The link will end, and omp will not: its human ends the bridge."""
        self._ended = "the bridge was stopped by its owner"

    def _do(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, method: str, params: object = None, call_id: str = "") -> Any:
        """Raises HostUnavailable when omp is gone or silent, PeerError when it answers with an error, and Withdrawn
        in place of CancelledError when the call had not begun."""
        if self._silent.done():
            raise _silence()
        asking = asyncio.ensure_future(self._peer.request(method, params))
        self._asking += 1
        if self._pulse is None or self._pulse.done():
            self._pulse = self._do(self._feel_pulse())
        try:
            await asyncio.wait({asking, self._silent}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self._cancel(call_id)
                raise _silence()
            return asking.result()
        except asyncio.CancelledError:
            self._cancel(call_id)
            await self._within(CANCEL_SECONDS, asking)
            if asking.done() and (error := asking.exception()) and getattr(error, "code", 0) == WITHDRAWN:
                raise Withdrawn("withdrawn") from None
            raise
        except PeerError:
            if self.gone.is_set():
                raise HostUnavailable(self._ended) from None
            raise
        finally:
            self._asking -= 1
            asking.cancel()
            with suppress(asyncio.InvalidStateError, asyncio.CancelledError):
                asking.exception()

    def _cancel(self, call_id: str) -> None:
        if call_id:
            self._peer.notify("cancel", {"id": call_id})

    async def _feel_pulse(self) -> None:
        """While something is asked: ping, and give omp up while it does not answer."""
        while self._asking:
            await self._sleep(PING_SECONDS)
            ping = asyncio.ensure_future(self._peer.request("ping"))
            await self._within(SILENT_SECONDS, ping)
            if not ping.done():
                self._silent.set_result(None)
            with suppress(PeerError):  # gone: then everything that is asked has ended by itself
                await ping
            if self._silent.done():
                self._silent = asyncio.get_running_loop().create_future()

    async def _within(self, seconds: float, work: "asyncio.Future[Any]") -> None:
        """Until the work is done, or the time is up."""
        limit = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()

    def _count(self, change: int) -> None:
        self._calls += change
        if not self._showing:
            self._showing = True
            self._do(self._show_later())

    async def _show_later(self) -> None:
        await self._sleep(STATUS_SECONDS)
        self._showing = False
        self._show()

    def _show(self) -> None:
        calls = f" · {self._calls} call{'s' if self._calls != 1 else ''}" if self._calls else ""
        line = f"A2A {self._address}{calls}"
        if self._address and line != self._shown:
            self._shown = line
            self._peer.notify("status", {"text": line})


def _silence() -> HostUnavailable:
    return HostUnavailable("omp does not answer; it may be stopped (Ctrl-Z) or hung. Try again when it goes on")
