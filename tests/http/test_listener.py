"""Accepting connections when the system has no room for one. (Addresses and ports are in tests/test_serve.py.)"""

import asyncio
import errno
import socket

import pytest

from a2a_bridge.http import listener
from a2a_bridge.http.listener import Accepting
from tests.hosts import LOOPS


class Exhausted(socket.socket):
    """A listening socket that cannot accept while `code` is set."""

    code = errno.EMFILE
    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        if self.code:
            raise OSError(self.code, "no room")
        return super().accept()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_it_waits_reports_once_and_goes_on(loop: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PAUSE_SECONDS", 0.01)
    reports: list[str] = []

    async def attempts() -> None:
        made = asyncio.Event()

        class Opened(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set()
                transport.close()

        with Exhausted() as listening, socket.socket() as link:
            listening.code = code
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)
            accepting = Accepting(listening, Opened, reports.append)
            link.setblocking(False)
            await asyncio.get_running_loop().sock_connect(link, listening.getsockname())
            async with asyncio.timeout(20):
                while listening.attempts < 5:
                    assert not made.is_set()
                    await asyncio.sleep(0.001)
                listening.code = 0
                await made.wait()
            accepting.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(attempts())
    assert reports == ["no connection can be accepted for now: no room; trying again each second"]


def test_one_attempt_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no busy loop: between two pauses there is one attempt."""
    monkeypatch.setattr(listener, "PAUSE_SECONDS", 3600.0)

    async def attempts() -> int:
        with Exhausted() as listening, socket.socket() as link:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)
            accepting = Accepting(listening, asyncio.Protocol, lambda _: None)
            link.setblocking(False)
            await asyncio.get_running_loop().sock_connect(link, listening.getsockname())
            for _ in range(100):
                await asyncio.sleep(0)
            accepting.close()
            return listening.attempts

    assert asyncio.run(attempts()) == 1
