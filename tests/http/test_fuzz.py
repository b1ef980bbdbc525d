"""Mutated raw requests, seeded: never a 5xx, a fault, a hang, or an answer on the wrong connection.

A few thousand in a usual run; FUZZ_REQUESTS=100000 (`make fuzz`) for all.
"""

import asyncio
import os
import random
import re

from tests.support.asking import http_call
from tests.support.callers import TOKEN, Client, HttpCaller, MemoryCaller, all_parsed, request
from tests.support.transport import MemoryConnection

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "4000"))
# One in so many goes over a real socket.
OVER_SOCKETS = 40
NONCE = re.compile(rb"nonce\d{6}")
STATUSES = {200, 202, 204, 400, 401, 403, 404, 405, 413, 415, 431}
WORDS = [
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b" ", b"\t", b":", b"\xff", b";", b"0", b"-1", b"99999999", b"chunked",
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"GET ", b"DELETE ", b"PRI ", b"POST ", b"Content-Length: 3\r\n", b"Host",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n", b"Content-Encoding: gzip\r\n", b"Origin: http://evil.example\r\n", b"{", b"[", b'"',
    b"\\ud800", b"null", b"1e999", b"tools/list", b"initialize", b"notifications/cancelled",
]  # fmt: skip


class Mutator:
    """Requests of one client, each with a nonce as its id, mutated more and less."""

    def __init__(self, session: str, seed: int) -> None:
        self.session = session
        self.random = random.Random(seed)

    def raw(self, nonce: str) -> bytes:
        chosen = [self._one(nonce) for _ in range(self.random.choice((1, 1, 1, 2, 5)))]
        data = bytearray(b"".join(chosen))
        for _ in range(self.random.choice((0, 1, 1, 2, 4, 16))):
            self._mutate(data)
        return bytes(data)

    def _one(self, nonce: str) -> bytes:
        headers = {"Authorization": f"Bearer {TOKEN}", "Mcp-Session-Id": self.session}
        body = f'{{"id":"{nonce}","jsonrpc":"2.0","method":"ping"}}'.encode()
        match self.random.randrange(5):
            case 0:
                return http_call(self.session, "echo", {"text": nonce}, nonce)
            case 1:
                chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:24], body[24:]))
                return request("POST", headers | {"Transfer-Encoding": "chunked"}, chunks + b"0\r\n\r\n")
            case 2:
                return request("DELETE", headers | {"Mcp-Session-Id": "none"})
            case _:
                return request("POST", headers, body)

    def _mutate(self, data: bytearray) -> None:
        at = self.random.randrange(len(data) + 1)
        end = min(len(data), at + self.random.choice((0, 0, 1, 1, 4, 40)))
        match self.random.randrange(5):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:end] = bytes([self.random.randrange(256)])
            case 2:
                data[at:at] = data[at : at + 60]
            case _:
                data[at:end] = self.random.choice(WORDS)

    def pieces(self, data: bytes) -> list[bytes]:
        cuts = sorted(self.random.randrange(len(data) + 1) for _ in range(self.random.choice((0, 0, 1, 5))))
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def judge(sent: bytes, answer: bytes) -> None:
    """Only what this connection has sent may come back on it."""
    for reply in all_parsed(answer):
        assert reply.status in STATUSES, (sent, answer)
    assert set(NONCE.findall(answer)) <= set(NONCE.findall(sent)), (sent, answer)


async def test_mutated_requests_in_memory(memory: MemoryCaller) -> None:
    mutator = Mutator(await Client(memory).open(), seed=1)
    for number in range(REQUESTS):
        sent = mutator.raw(f"nonce{number:06}")
        wire = MemoryConnection(memory.endpoint)
        for piece in mutator.pieces(sent):
            wire.feed(piece)
            await asyncio.sleep(0)
        if not wire.transport.closed:
            wire.protocol.eof_received()
        for _ in range(100):
            if wire.transport.closed or wire.transport.ended:
                break
            await asyncio.sleep(0)
        assert wire.transport.closed or wire.transport.ended, ("it hangs", sent)
        judge(sent, wire.transport.sent)
        assert memory.reports == [], sent
        wire.protocol.connection_lost(None)
    assert memory.bridge.running() == []
    assert (await Client(memory).open()) != mutator.session


async def test_mutated_requests_over_sockets(http: HttpCaller) -> None:
    mutator = Mutator(await Client(http).open(), seed=2)
    log = http.served.home / "stderr"
    before = log.read_text()

    async def one(number: int) -> None:
        sent = mutator.raw(f"nonce{number:06}")
        async with asyncio.timeout(60), http.connection() as (reader, writer):
            try:
                for piece in mutator.pieces(sent):
                    writer.write(piece)
                    await asyncio.sleep(0)
                writer.write_eof()
                answer = await reader.read()
            except ConnectionError:
                return
            judge(sent, answer)

    for start in range(0, REQUESTS // OVER_SOCKETS, 10):
        await asyncio.gather(*(one(start + number) for number in range(10)))
    assert log.read_text() == before
    assert (await http.send("GET", {})).status == 405
