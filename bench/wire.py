"""Requests per second and latency of ping, tools/list and an audited tools/call, beside the limit: a bare ASGI
app on the same uvicorn that gives the same answer as a constant. Interleaved rounds, medians, ratios.

    python -m bench.wire [ROUNDS]
"""

import statistics
import sys
from contextlib import ExitStack

from bench.load import answer_to, load, median, request, server

ECHO = request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
BODIES = {"ping": request("ping"), "tools/list": request("tools/list"), "tools/call": ECHO}
GOALS = {"ping": 0.80, "tools/list": 0.80, "tools/call": 0.60}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with ExitStack() as stack:
        bridge = stack.enter_context(server("bridge"))
        cases = {name: (bridge, body) for name, body in BODIES.items()}
        for name, body in BODIES.items():
            bare = stack.enter_context(server("bare", answer_to(bridge, body)))
            cases[f"limit: {name}"] = (bare, body)
        runs = {name: [] for name in cases}  # type: ignore[var-annotated]
        for _ in range(rounds):
            for name in BODIES:  # each beside its own limit, as close in time as can be
                for case in (f"limit: {name}", name):
                    runs[case].append(load(*cases[case]))
        print(f"{'':<18}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'of limit':>10}{'goal':>7}")
        for name in cases:
            middle = median(runs[name])
            ratio = ""
            if name in GOALS:
                pairs = zip(runs[name], runs[f"limit: {name}"], strict=True)
                share = statistics.median(own.rate / limit.rate for own, limit in pairs)
                ratio = f"{share:>10.0%}{GOALS[name]:>7.0%}"
            print(f"{name:<18}{middle.rate:>12,.0f}{middle.p50:>9.2f}{middle.p99:>9.2f}{ratio}")


if __name__ == "__main__":
    main()
