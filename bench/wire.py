"""Requests per second and latency of ping, tools/list and an audited tools/call. Beside each: the limit (a server on
bare httptools that collects a request and gives the same answer as a constant), and a Bun server that does the same
work. Interleaved rounds, medians, ratios.

    python -m bench.wire [ROUNDS]
"""

import json
import statistics
import sys
from contextlib import ExitStack

from bench.load import Run, answer_to, bun_server, load, median, post, request, server, wait_until_idle

ECHO = request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
BODIES = {"ping": request("ping"), "tools/list": request("tools/list"), "tools/call": ECHO}
# The share of the limit's rate, and of Bun's.
GOALS = {"ping": (0.85, 1.1), "tools/list": (0.65, 1.4), "tools/call": (0.0, 1.0)}


def share(own: list[Run], other: list[Run]) -> float:
    """The median ratio of rates that were measured side by side."""
    return statistics.median(one.rate / two.rate for one, two in zip(own, other, strict=True))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with ExitStack() as stack:
        bridge = stack.enter_context(server("bridge"))
        tools = post(bridge, json.loads(BODIES["tools/list"]))[1]["result"]["tools"]
        bun = stack.enter_context(bun_server(tools))
        cases = {}
        for name, body in BODIES.items():
            bare = stack.enter_context(server("bare", answer_to(bridge, body)))
            cases[name] = {"bridge": bridge, "limit": bare, "Bun": bun}
        runs: dict[str, dict[str, list[Run]]] = {name: {who: [] for who in cases[name]} for name in cases}
        for _ in range(rounds):
            for name, targets in cases.items():
                for who, target in targets.items():
                    wait_until_idle([one.pid for one in targets.values()])  # Bun goes on with its log for a while
                    runs[name][who].append(load(target, BODIES[name]))
    print(f"{len(tools)} tools, 16 connections, {rounds} rounds of 1 s")
    print(f"{'':<20}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}   bridge / it (goal)")
    for name, by in runs.items():
        for who, taken in by.items():
            middle = median(taken)
            ratio = ""
            if who != "bridge":
                goal = GOALS[name][who == "Bun"]
                ratio = f"   {share(by['bridge'], taken):.2f}" + (f" ({goal:.2f})" if goal else "")
            print(f"{name:<11}{who:<9}{middle.rate:>12,.0f}{middle.p50:>9.2f}{middle.p99:>9.2f}{ratio}")


if __name__ == "__main__":
    main()
