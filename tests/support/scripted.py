"""A real bridge process with the scripted host, whose session clock a caller can move.

python -m tests.support.scripted HOME GRACE
"""

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from a2a_bridge import config
from a2a_bridge.cli.serve_loop import SIGNALS, uvloop
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.tool import Call, Result, Tool, text
from a2a_bridge.wiring import Paths, run_bridge


class MovableHost(FakeHost):
    """The scripted host with two tools more: `advance` moves the clock by `seconds`, `break` spoils the registry."""

    def __init__(self) -> None:
        super().__init__(extra=(Tool("advance", "", {"type": "object"}), Tool("break", "", {"type": "object"})))
        self.ahead = 0.0

    def clock(self) -> float:
        return time.monotonic() + self.ahead

    def call(self, name: str, arguments: object, call: Call) -> Result | Coroutine[Any, Any, Result]:
        if name == "advance" and isinstance(arguments, dict):
            self.ahead += arguments["seconds"]
            return text("moved")
        if name == "break" and isinstance(arguments, dict):
            self.broken = arguments["why"]
            return text("broken" if self.broken else "mended")
        return super().call(name, arguments, call)


async def main(home: Path, grace: float) -> None:
    host = MovableHost()
    stop = asyncio.Event()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    places = Paths(home / "audit.log", home / "control")

    def report(line: str) -> None:
        print(f"[a2a-bridge] {line}", file=sys.stderr, flush=True)

    settings = config.load(home / "bridge.json")
    async with run_bridge(settings, host, places, report, grace=grace, clock=host.clock) as live:
        print(f"listening on {live.url} pid {os.getpid()}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(main(Path(sys.argv[1]), float(sys.argv[2])))
