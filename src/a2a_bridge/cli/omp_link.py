"""`a2a-bridge omp link`: the bridge as omp's child, its stdio the link to the extension that started it."""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from a2a_bridge import config
from a2a_bridge.cli.control import status_lines
from a2a_bridge.cli.serve_loop import run, stop_on_signals
from a2a_bridge.control.socket_path import directory
from a2a_bridge.errors import BridgeError
from a2a_bridge.hosts.omp import OmpHost
from a2a_bridge.peer import Handler
from a2a_bridge.terminal_text import escape
from a2a_bridge.wiring import Paths, RunningBridge, run_bridge

# omp is gone, or about to be: its calls have ended with it, and only their answers are to be sent.
GRACE_SECONDS = 0.5

Report = Callable[[str], None]


class _Command(msgspec.Struct):
    """What the human typed behind `/a2a`."""

    word: str


class _Named(msgspec.Struct):
    name: str


def serve_link(port: int) -> None:
    """Serve the omp at the other end of stdio until it is gone. `port` is taken when the file names none."""
    # stdout belongs to the link alone; whatever else is printed goes where stderr goes.
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    run(_serve(port, reading, writing))
    os._exit(0)


async def _serve(port: int, reading: int, writing: int) -> None:
    stop = stop_on_signals()
    async with _stdio(reading, writing) as (reader, writer):
        host = OmpHost(reader, writer, _say)
        try:
            settings = config.load(config.config_path(os.environ))
            settings = msgspec.structs.replace(settings, port=settings.port or port)
            places = Paths(config.audit_path(os.environ), directory(os.environ))

            def report(line: str) -> None:
                _say(line)
                host.notify(f"A2A bridge: {escape(line)}", "error")

            async with run_bridge(settings, host, places, report, grace=GRACE_SECONDS) as live:
                host.handlers |= {"command": _answering(live), "exposed": _exposing(live)}
                host.serving(live.url, live.port, live.token_prefix)
                for warning in live.warnings:
                    host.notify(f"A2A bridge: {warning}", "warning")
                gc.freeze()
                ended = (asyncio.ensure_future(stop.wait()), asyncio.ensure_future(host.gone.wait()))
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        except BridgeError as error:
            host.failed(str(error))
            await _sent(writer)
            raise


def _say(line: str) -> None:
    """To stderr, which the extension puts into omp's log."""
    print(f"[a2a-bridge] {line}", file=sys.stderr, flush=True)


def _answering(live: RunningBridge) -> Handler:
    """What `/a2a` shows."""

    async def command(params: Any) -> dict[str, str]:
        match msgspec.convert(params, _Command).word:
            case "status":
                message, level = "\n".join(["A2A bridge", *status_lines(await live.status(None))]), "info"
            case "token":
                message, level = f"A2A bridge token: {await live.token(None)}", "info"
            case "rotate":
                prefix = await live.rotate(None)
                message, level = f"A2A bridge: rotated; token {prefix} counts at once (/a2a token shows it)", "info"
            case other:
                message = f"A2A bridge: {other!r} is no command; there is status, token, restart, rotate, stop"
                level = "error"
        return {"message": message, "level": level}

    return command


def _exposing(live: RunningBridge) -> Handler:
    """Whether a tool that another one calls may be called."""

    async def exposed(params: Any) -> bool:
        return live.exposes(msgspec.convert(params, _Named).name)

    return exposed


@contextlib.asynccontextmanager
async def _stdio(reading: int, writing: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    outgoing, protocol = await loop.connect_write_pipe(_Flow, os.fdopen(writing, "wb"))
    try:
        yield reader, asyncio.StreamWriter(outgoing, protocol, None, loop)
    finally:
        incoming.close()
        outgoing.close()


async def _sent(writer: asyncio.StreamWriter) -> None:
    """What was written has left, or omp takes nothing."""
    writer.transport.set_write_buffer_limits(0)
    with contextlib.suppress(TimeoutError, ConnectionError):
        await asyncio.wait_for(writer.drain(), GRACE_SECONDS)


class _Flow(asyncio.streams.FlowControlMixin):
    """What a StreamWriter needs of its protocol; the peer has bounds of its own."""

    async def _get_close_waiter(self, stream: asyncio.StreamWriter) -> None:
        return None
