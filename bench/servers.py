"""The servers that the benchmarks load: the real bridge with a scripted host, and the bare limit.

    python -m bench.servers bridge HOME
    python -m bench.servers bare ANSWER

prints a line with the URL, and serves until SIGTERM.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

import httptools
import uvloop

from a2a_bridge import config
from a2a_bridge.cli.serve_loop import serve_host
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.http.listener import listen
from a2a_bridge.tool import Tool

# With the scripted host's own seven, as many tools as a usual host has.
EXTRA = tuple(Tool(f"tool_{number}", "A tool for the list. " * 8, {"type": "object"}) for number in range(14))


class Bare(asyncio.Protocol):
    """The least that a server on httptools has to do: collect head and body, decide keep-alive, give a constant."""

    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._body = []
        self._headers = {}
        self._transport.write(self.answer)
        if not self._parser.should_keep_alive():
            self._transport.close()


async def serve_bare(answer: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    Bare.answer = head % len(answer) + answer
    listener = listen("127.0.0.1", 0)
    print(f"listening on {listener.url}", flush=True)
    server = await asyncio.get_running_loop().create_server(Bare, sock=listener.socket)
    await server.serve_forever()


def main() -> None:
    if sys.argv[1] == "bare":
        uvloop.run(serve_bare(sys.argv[2].encode()))
    else:
        home = Path(sys.argv[2])
        os.environ["A2A_BRIDGE_AUDIT"] = str(home / "audit.log")
        os.environ["XDG_RUNTIME_DIR"] = str(home)
        serve_host(config.load(home / "bridge.json"), FakeHost(EXTRA))


if __name__ == "__main__":
    main()
