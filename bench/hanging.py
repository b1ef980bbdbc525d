"""10,000 pings with nothing else going on, and while 5,000 calls hang: p99, their ratio, and memory for each call.

python -m bench.hanging
"""

import asyncio
import statistics
import time

from bench.load import Target, request, resident_megabytes, server

CALLS = 5000
PINGS = 10_000


def http(target: Target, body: str) -> bytes:
    return (
        f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.token}\r\n"
        f"Mcp-Session-Id: {target.session}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def pings(target: Target, port: int) -> list[float]:
    """Latencies in milliseconds, one request after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = http(target, request("ping"))
    taken = []
    for _ in range(PINGS):
        began = time.perf_counter()
        writer.write(data)
        await reader.readuntil(b'"result":{}}')
        taken.append((time.perf_counter() - began) * 1000)
    writer.close()
    return taken


def p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]


async def measure(target: Target) -> None:
    port = int(target.url.rstrip("/").rpartition(":")[2])
    await pings(target, port)
    idle = await pings(target, port)
    before = resident_megabytes(target.pid)
    hang = http(target, request("tools/call", {"name": "hang", "arguments": {}}))
    writers = []
    for _ in range(CALLS):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(hang)
        writers.append(writer)
    busy = await pings(target, port)
    kilobytes = (resident_megabytes(target.pid) - before) * 1024 / CALLS
    print(f"ping p50 / p99, idle            {statistics.median(idle):.3f} / {p99(idle):.3f} ms")
    print(f"ping p50 / p99, {CALLS} calls hang  {statistics.median(busy):.3f} / {p99(busy):.3f} ms")
    print(f"ratio of the p99                {p99(busy) / p99(idle):.2f} (goal within 1.2)")
    print(f"memory for each hanging call    {kilobytes:.0f} KiB (goal within 12)")
    for writer in writers:
        writer.close()


def main() -> None:
    with server("bridge") as target:
        asyncio.run(measure(target))


if __name__ == "__main__":
    main()
