"""How long from starting `a2a-bridge serve` to its first answered `initialize`, and its memory when idle.

python -m bench.start [ROUNDS]
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.load import resident_megabytes

BODY = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'


def started(home: Path, port: int) -> tuple[float, float]:
    """Seconds to the first answer, and megabytes after it."""
    environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    token = json.loads((home / "bridge.json").read_text())["token"]
    head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    began = time.perf_counter()
    command = [sys.executable, "-m", "a2a_bridge", "serve", "--plain", "--config", str(home / "bridge.json")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    try:
        while time.perf_counter() - began < 10:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", port)) == 0:
                    link.sendall(head.encode() + BODY)
                    if link.recv(1024).startswith(b"HTTP/1.1 200"):
                        return time.perf_counter() - began, resident_megabytes(process.pid)
            time.sleep(0.002)
        sys.exit("bench: no answer within 10 s")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        settings = {"port": port, "token": "t" * 43}
        (Path(home) / "bridge.json").write_text(json.dumps(settings))
        (Path(home) / "bridge.json").chmod(0o600)
        runs = [started(Path(home), port) for _ in range(rounds)]
    seconds, megabytes = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"start to first initialize  {seconds * 1000:.0f} ms (goal 150)")
    print(f"resident memory when idle  {megabytes:.0f} MB (goal 40)")


if __name__ == "__main__":
    main()
