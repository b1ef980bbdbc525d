"""A bridge in the foreground: its event loop, its signals, and its log lines on the terminal."""

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from a2a_bridge.approval.requests import ApprovalRequest
from a2a_bridge.calls import FinishedCall, Outcome
from a2a_bridge.cli.call_log import Printer
from a2a_bridge.cli.console_process import Screen
from a2a_bridge.cli.durations import span
from a2a_bridge.config import Config, audit_path
from a2a_bridge.control.socket_path import directory
from a2a_bridge.hosts.local import LocalHost
from a2a_bridge.summary import summarize
from a2a_bridge.tool import Host
from a2a_bridge.wiring import Paths, RunningBridge, run_bridge

try:
    import uvloop as _uvloop
except ImportError:  # a platform that has none
    uvloop: ModuleType | None = None
else:
    uvloop = _uvloop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_M_MMAP_THRESHOLD = -3
_MMAP_BYTES = 1024 * 1024
_MARKS = {
    Outcome.DONE: "✓",
    Outcome.FAILED: "✗",
    Outcome.ABANDONED: "⊘ caller hung up",
    Outcome.WITHDRAWN: "⊘ withdrawn, nothing ran",
}

Line = FinishedCall | ApprovalRequest | str


def serve_local(config: Config, directory: Path, on_screen: bool = False) -> None:
    """Serve `directory`'s machine until a signal, or until the console on this terminal says so. Raises StartError."""
    name = f"local: {socket.gethostname()}"
    host = LocalHost(directory, name, config.max_command_seconds or None)
    serve_host(msgspec.structs.replace(config, warnings=(*config.warnings, *host.warnings)), host, on_screen)


def serve_host(config: Config, host: Host, on_screen: bool = False) -> None:
    """Serve a host in the foreground until a signal: the first ends it in good order, the second at once. `on_screen`
    gives the terminal to a console; lines come again when it has left."""
    out = Printer[Line](sys.stdout, _out_line)
    err = Printer[str](sys.stderr, str)
    try:
        run(_serve(config, host, out, err, on_screen))
    finally:
        out.close()
        err.close()
    # A thread that reads from a dead network disk would keep the interpreter from ever ending.
    os._exit(0)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a bridge's event loop to its end."""
    _give_memory_back()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(work)


def _give_memory_back() -> None:
    """Have large blocks go back to the system as soon as they are free. glibc would raise its threshold with each
    of them, and keep for every thread what one edit of a large file once took."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)


async def _serve(config: Config, host: Host, out: Printer[Line], err: Printer[str], on_screen: bool) -> None:
    stop = stop_on_signals()
    places = Paths(audit_path(os.environ), directory(os.environ))
    screen = Screen(on_screen)

    def report(line: str) -> None:
        if not screen.taken:
            err.put(f"[a2a-bridge] {line}")

    def watch(item: FinishedCall | ApprovalRequest) -> None:
        if not screen.taken:
            out.put(item)

    async with run_bridge(config, host, places, report, watch) as live:
        for warning in live.warnings:
            report(f"warning: {warning}")
        # Everything made so far stays to the end; the collector need not look through it again and again.
        gc.freeze()
        if not screen.taken:
            out.put(_greeting(live))
        else:
            await screen.show(stop)
            out.put(_greeting(live))
        await stop.wait()


def _greeting(live: RunningBridge) -> str:
    return f"A2A bridge listening on {live.url} (token {live.token_prefix})"


def stop_on_signals() -> asyncio.Event:
    """Set by the first signal; the second ends the process at once."""
    stop = asyncio.Event()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)  # the guardian ends the commands, as after any other sudden end
        stop.set()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, received, number)
    return stop


def _out_line(item: Line) -> str:
    if isinstance(item, str):
        return item
    clock = _time_of_day(int(time.time()))
    return question_line(item, clock) if isinstance(item, ApprovalRequest) else call_line(item, clock)


@lru_cache(maxsize=1)
def _time_of_day(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))


def call_line(settled: FinishedCall, clock: str) -> str:
    """One call as a log line, at a time of day."""
    client = settled.call.client or settled.call.session[:8]
    return (
        f"{clock}  {settled.tool[:60]}  {summarize(settled.tool, settled.arguments)}  {client}  "
        f"{span(settled.seconds)} {_MARKS[settled.outcome]}"
    )


def question_line(request: ApprovalRequest, clock: str) -> str:
    """A question to the owner as a log line, with the commands that answer it."""
    client = request.call.client or request.call.session[:8]
    return (
        f"{clock}  WAITING  {request.tool[:60]}  {request.summary}  {client}  "
        f"a2a-bridge approve {request.id}  or  a2a-bridge deny {request.id}"
    )
