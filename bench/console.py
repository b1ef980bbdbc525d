"""What an attached console costs: audited calls per second with one beside the bridge, and without. Interleaved rounds,
medians, the ratio.

    python -m bench.console [ROUNDS]
"""

import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import Target, load, median, request, resident_megabytes, server

ECHO = request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
# A console has drawn its first screen by then; what it costs from then on is measured.
SETTLE_SECONDS = 2.0
GOAL = 0.9


@contextmanager
def console(target: Target) -> Iterator[int]:
    """A console of 80 by 24 on a terminal that is read all the time. Gives its process id."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "XDG_RUNTIME_DIR": str(target.home)}
    process = subprocess.Popen(
        [sys.executable, "-m", "a2a_bridge", "console", "--pid", str(target.pid)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
    )
    os.close(terminal)
    threading.Thread(target=_drain, args=(master,), daemon=True).start()
    try:
        time.sleep(SETTLE_SECONDS)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _drain(master: int) -> None:
    try:
        while os.read(master, 65536):
            pass
    except OSError:
        return  # the console has ended


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    alone, watched, shares, memory = [], [], [], 0.0
    with server("bridge") as target:
        for _ in range(rounds):
            alone.append(load(target, ECHO))
            with console(target) as pid:
                before, began = cpu_seconds(pid), time.monotonic()
                watched.append(load(target, ECHO))
                shares.append((cpu_seconds(pid) - before) / (time.monotonic() - began))
                memory = resident_megabytes(pid)
    ratio = statistics.median(one.rate / other.rate for one, other in zip(watched, alone, strict=True))
    print(f"{'':<16}{'calls/s':>10}{'p50 ms':>9}{'p99 ms':>9}")
    for name, runs in (("no console", alone), ("one console", watched)):
        middle = median(runs)
        print(f"{name:<16}{middle.rate:>10,.0f}{middle.p50:>9.2f}{middle.p99:>9.2f}")
    print(f"throughput with a console: {ratio:.0%} (goal {GOAL:.0%})")
    print(f"the console itself: {statistics.median(shares):.0%} of a core under load, {memory:.0f} MB")


if __name__ == "__main__":
    main()
