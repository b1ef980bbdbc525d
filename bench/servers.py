"""The servers that the benchmarks load: the real bridge with a scripted host, and the bare limit.

    python -m bench.servers bridge HOME
    python -m bench.servers bare ANSWER

prints a line with the URL, and serves until SIGTERM.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import uvicorn

from a2a_bridge import config
from a2a_bridge.cli.foreground import serve_host
from a2a_bridge.hosts.scripted import ScriptedHost
from a2a_bridge.http.serve import listen


def serve_bare(answer: bytes) -> None:
    """The least that an ASGI app can do: a constant, whatever is asked."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]

    async def bare_app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    listener = listen("127.0.0.1", 0)
    print(f"listening on {listener.url}", flush=True)
    options = uvicorn.Config(
        bare_app, http="httptools", loop="uvloop", ws="none", lifespan="off", log_config=None, access_log=False
    )
    options.server_header = False
    asyncio.Runner(loop_factory=options.get_loop_factory()).run(uvicorn.Server(options).serve([listener.socket]))


def main() -> None:
    if sys.argv[1] == "bare":
        serve_bare(sys.argv[2].encode())
    else:
        home = Path(sys.argv[2])
        os.environ["A2A_BRIDGE_AUDIT"] = str(home / "audit.log")
        os.environ["XDG_RUNTIME_DIR"] = str(home)
        serve_host(config.load(home / "bridge.json"), ScriptedHost())


if __name__ == "__main__":
    main()
