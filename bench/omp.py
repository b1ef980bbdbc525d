"""What the road costs: the same tools of a real omp called inside of it, and through the bridge over HTTP.

python -m bench.omp [ROUNDS]

Each round calls each tool a hundred times on either road, one after the other on one connection. Needs the npm
peers under .peers (make test installs them).
"""

import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.omp import Home, Omp, omp
from tests.support.processes import Served

TIMES = 100
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("read", {"path": "file.txt"}),
    "bash true": ("bash", {"command": "true"}),
}


class Caller:
    """A plain client on one connection with one session."""

    def __init__(self, served: Served) -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", served.port)
        self._headers = {"Authorization": f"Bearer {served.token}"}
        self._headers["Mcp-Session-Id"] = self._post("initialize", {})[1]["mcp-session-id"]

    def _post(self, method: str, params: Any) -> tuple[Any, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._link.request("POST", "/", body, self._headers)
        answer = self._link.getresponse()
        return json.loads(answer.read()), answer.headers

    def took(self, name: str, arguments: Any) -> list[float]:
        """Milliseconds of each call."""
        times = []
        for _ in range(TIMES):
            began = time.perf_counter()
            answer, _ = self._post("tools/call", {"name": name, "arguments": arguments})
            times.append((time.perf_counter() - began) * 1000)
            if answer["result"]["isError"]:
                sys.exit(f"bench: {answer}")
        return times


def measured(one: Omp, rounds: int) -> dict[str, tuple[float, float]]:
    """Medians in milliseconds for each call: inside of omp, and through the bridge. The first round warms up."""
    caller = Caller(one.served())
    inside: dict[str, list[float]] = {label: [] for label in CALLS}
    through: dict[str, list[float]] = {label: [] for label in CALLS}
    for turn in range(rounds + 1):
        for label, (name, arguments) in CALLS.items():
            within = one.drive(do="call", name=name, arguments=arguments, times=TIMES)["took"]
            across = caller.took(name, arguments)
            if turn:
                inside[label] += within
                through[label] += across
    return {label: (statistics.median(inside[label]), statistics.median(through[label])) for label in CALLS}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as directory:
        home = Home(Path(directory) / "home")
        home.install()
        (home.work / "file.txt").write_text("one\ntwo\nthree\n")
        with omp(home) as one:
            for label, (inside, through) in measured(one, rounds).items():
                ratio = through / inside
                print(
                    f"{label:<10} p50 inside omp {inside:5.2f} ms   through the bridge {through:5.2f} ms   x{ratio:.2f}"
                )


if __name__ == "__main__":
    main()
