"""What other connections cost an authenticated client: 10,000 idle ones, and a flood of callers without a token that
open 2,000 connections at a time and trickle heads. Latency of ping, of `a2a-bridge status`, and memory.

    python -m bench.connections
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any

from bench.hanging import http, p99, pings
from bench.load import Target, request, resident_megabytes, server

IDLE = 10_000
FLOOD = 2000


async def idle(target: Target, port: int) -> list[asyncio.StreamWriter]:
    """Connections that have been answered once."""
    writers = []
    for _ in range(IDLE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(http(target, request("ping")))
        await reader.readuntil(b'"result":{}}')
        writers.append(writer)
    return writers


async def flood(port: int) -> None:
    """Opens connections that send a byte of a head now and then, and replaces those that are closed."""
    head = b"POST / HTTP/1.1\r\nX: " + b"y" * 1000
    links: list[asyncio.StreamWriter] = []
    try:
        for turn in range(10**9):
            if len(links) >= FLOOD:
                links.pop(0).transport.abort()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head[:18])
                links.append(writer)
                links[turn % len(links)].write(b"z")
            except ConnectionError:
                continue
    finally:
        for writer in links:
            writer.transport.abort()


def status_seconds(target: Target) -> float:
    began = time.perf_counter()
    environment = {"XDG_RUNTIME_DIR": target.home, "PATH": "/usr/bin:/bin", "HOME": target.home}
    subprocess.run([sys.executable, "-m", "a2a_bridge", "status"], env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def report(what: str, taken: list[float], base: list[float] | None = None) -> None:
    ratio = f"   p99 / without: {p99(taken) / p99(base):.2f}" if base else ""
    print(f"{what:<34}p50 {statistics.median(taken):.3f}  p99 {p99(taken):.3f} ms{ratio}")


async def measure(target: Target) -> None:
    port = int(target.url.rstrip("/").rpartition(":")[2])
    await pings(target, port)
    base = await pings(target, port)
    report("ping, alone", base)
    before = resident_megabytes(target.pid)
    writers = await idle(target, port)
    print(f"memory for each idle connection   {(resident_megabytes(target.pid) - before) * 1024 / IDLE:.1f} KiB")
    report(f"ping, {IDLE} idle connections", await pings(target, port), base)
    for writer in writers:
        writer.transport.abort()
    # The flood is another process, so that it does not wait for our own pings.
    flooding = subprocess.Popen([sys.executable, "-m", "bench.connections", "flood", str(port)])
    try:
        await asyncio.sleep(2)
        report("ping, during a flood", await pings(target, port), base)
        seconds = [await asyncio.to_thread(status_seconds, target) for _ in range(5)]
        print(f"a2a-bridge status, during a flood {statistics.median(seconds) * 1000:.0f} ms")
    finally:
        flooding.terminate()
        flooding.wait()


def run(work: Coroutine[Any, Any, None]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, IDLE + 1000)), hard))
    asyncio.run(work)


def main() -> None:
    if len(sys.argv) > 1:
        run(flood(int(sys.argv[2])))
        return
    with server("bridge") as target:
        run(measure(target))


if __name__ == "__main__":
    main()
