"""Starting the servers under load, and loading them with wrk. Needs wrk on the PATH."""

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

_SCRIPT = """
wrk.method = "POST"
wrk.body = [[%s]]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json, text/event-stream"
wrk.headers["Authorization"] = "Bearer %s"
wrk.headers["Mcp-Session-Id"] = "%s"
done = function(summary, latency)
  io.write(string.format("RESULT %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), summary.errors.status + summary.errors.read))
end
"""


class Target(NamedTuple):
    """A server under load: its address and what a request to it needs."""

    url: str
    pid: int
    token: str = ""
    session: str = ""
    home: str = ""


class Run(NamedTuple):
    """Requests per second, and latency in milliseconds."""

    rate: float
    p50: float
    p99: float


@contextmanager
def server(kind: str, answer: str = "") -> Iterator[Target]:
    """The bridge, or the bare server that gives `answer` to everything."""
    with (
        tempfile.TemporaryDirectory() as home,
        _process([sys.executable, "-m", "bench.servers", kind, answer or home], home) as target,
    ):
        if kind == "bare":
            yield target
        else:
            token = json.loads((Path(home) / "bridge.json").read_text())["token"]
            yield with_session(target._replace(token=token))


@contextmanager
def bun_server(tools: list[dict[str, Any]]) -> Iterator[Target]:
    """A Bun server that does the same work, with the same tools."""
    root = Path(__file__).parents[1]
    bun = root / ".peers/node_modules/.bin/bun"
    if not bun.exists():
        sys.exit("bench: bun is not under .peers; make bench installs it, with npm")
    with tempfile.TemporaryDirectory() as home:
        token = "t" * 43
        (Path(home) / "bun.json").write_text(json.dumps({"token": token, "tools": tools}))
        with _process([str(bun), str(root / "bench/peers/server.mjs"), home], home) as target:
            yield with_session(target._replace(token=token))


@contextmanager
def _process(command: list[str], home: str) -> Iterator[Target]:
    with (Path(home) / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out)
        try:
            yield Target(_announced(Path(home) / "out"), process.pid, home=home)
        finally:
            process.terminate()
            process.wait()


def _announced(out: Path) -> str:
    """The URL in the first line of a server's output."""
    for _ in range(1000):
        found = re.search(r"http://\S+", out.read_text())
        if found:
            return found[0]
        time.sleep(0.01)
    sys.exit("bench: a server did not start within 10 s")


def post(target: Target, message: dict[str, Any]) -> tuple[dict[str, str], Any]:
    headers = {"Authorization": f"Bearer {target.token}", "Mcp-Session-Id": target.session}
    request = urllib.request.Request(target.url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return dict(response.headers), json.loads(response.read() or b"null")


def with_session(target: Target) -> Target:
    headers, _ = post(target, {"jsonrpc": "2.0", "id": 0, "method": "initialize"})
    return target._replace(session={name.lower(): value for name, value in headers.items()}["mcp-session-id"])


def request(method: str, params: dict[str, Any] | None = None) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": method}
    return json.dumps(message | ({"params": params} if params else {}))


def answer_to(target: Target, body: str) -> str:
    """What the bridge answers: what the bare app then gives without having to find it."""
    _, answer = post(target, json.loads(body))
    return json.dumps(answer, separators=(",", ":"))


def load(target: Target, body: str, seconds: float = 1, connections: int = 16) -> Run:
    wrk = shutil.which("wrk")
    if wrk is None:
        sys.exit("bench: wrk is not on the PATH; on Debian: apt-get install wrk")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT % (body, target.token, target.session))
        script.flush()
        command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name, target.url]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+)", output)
    if found is None or found[5] != "0":
        sys.exit(f"bench: the load failed:\n{output}")
    requests, duration, p50, p99, _ = (int(number) for number in found.groups())
    return Run(requests / (duration / 1e6), p50 / 1000, p99 / 1000)


def wait_until_idle(pids: list[int]) -> None:
    """Until the processes have used no processor time for 0.3 seconds; 10 seconds at the most."""
    times = [_processor_time(pids)]
    for _ in range(100):
        time.sleep(0.1)
        times.append(_processor_time(pids))
        if len(times) > 3 and times[-1] == times[-4]:
            return


def _processor_time(pids: list[int]) -> int:
    """In clock ticks, from /proc; 0 where there is none."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total


def median(runs: list[Run]) -> Run:
    return Run(*(statistics.median(run[field] for run in runs) for field in range(3)))


def resident_megabytes(pid: int) -> float:
    """Resident memory, from ps: KiB on Linux and macOS alike."""
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) / 1024
