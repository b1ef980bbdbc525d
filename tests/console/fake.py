"""A bridge that is made up: a real control socket whose answers a test sets, and which remembers its orders."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from a2a_bridge.control import messages as m
from a2a_bridge.control.server import listening
from a2a_bridge.errors import ControlError
from a2a_bridge.peer import Handler

URL = "http://127.0.0.1:43817/"
SECRET = "q7Wm2xSECRETSECRETSECRET"
SESSION = "7f3a0000-1111-2222-3333-444444444444"

Outcome = Literal["done", "failed", "abandoned", "withdrawn"]

STATUS = m.Status(
    url=URL,
    client_url=f"{URL}mcp",
    port=43817,
    pid=4711,
    host="local: labbox",
    uptime=8049.0,
    sessions=2,
    calls=1,
    audit="/tmp/audit.jsonl",
    audit_failed=0,
    config="/tmp/config.json",
    token_prefix="q7Wm2x…",
    version="0.1.0",
)


def asked(number: int = 1, tool: str = "bash", summary: str = "make flash PORT=/dev/ttyUSB0") -> m.Asked:
    return m.Asked(
        id=number,
        tool=tool,
        tier="exec",
        summary=summary,
        client="claude-code 3.4.1",
        session=SESSION,
        address="127.0.0.1:50000",
        directory="~/lab/firmware",
        reason="mode always-ask, tier exec, no rule",
        seconds=14.2,
        length=44,
        callers=1,
        times=1,
    )


def live(number: int, tool: str = "bash", summary: str = "pytest -q tests/uart", request: int = 0) -> m.LiveCall:
    return m.LiveCall(f"c0ffee-{number:06d}", tool, summary, "omp 14.1", SESSION, 31.4, request)


def ended(
    number: int, tool: str = "read", summary: str = "", outcome: Outcome = "done", took: float = 0.001
) -> m.EndedCall:
    at = 1_700_000_000.0 + number
    told = summary or f"src/file{number}.c"
    return m.EndedCall(
        f"c0ffee-{number:06d}", tool, told, "claude-code 3.4.1", SESSION, at, took, outcome, "mode always-ask"
    )


class FakeBridge:
    """What it tells is in its fields; a test changes them while the console looks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.status = STATUS
        self.requests: dict[int, m.Asked] = {}
        self.arguments: dict[int, str] = {}
        self.previews: dict[int, str] = {}
        self.answered: dict[int, str] = {}
        self.live: list[m.LiveCall] = []
        self.ended: list[m.EndedCall] = []
        self.results: dict[str, tuple[str, str]] = {}
        self.done = 312
        self.failed = 3
        self.sessions: list[m.SessionRow] = []
        self.grants: list[m.GrantRow] = []
        self.notices: list[str] = []
        self.orders: list[tuple[str, object]] = []
        self.looks = 0
        self.most_at_once = 0
        self.refuse: dict[str, str] = {}
        self.silent = False
        self.held_back: dict[int, asyncio.Event] = {}  # by request: its whole is told only then
        self.asked_for: list[int] = []
        self._at_once = 0
        self._listening = AsyncExitStack()

    async def start(self) -> None:
        await self._listening.enter_async_context(listening(self.path, self._handlers(), _report))

    async def stop(self) -> None:
        await self._listening.aclose()

    def request(self, one: m.Asked, arguments: str = '{"command":"make flash PORT=/dev/ttyUSB0"}') -> None:
        self.requests[one.id] = one
        self.arguments[one.id] = arguments

    def change(self, number: int, **fields: object) -> None:
        self.requests[number] = msgspec.structs.replace(self.requests[number], **fields)

    def answer(self, number: int, words: str) -> None:
        """As if it were answered by somebody else."""
        del self.requests[number]
        self.answered[number] = words

    def overview(self) -> m.Overview:
        waiting = [one for one in self.requests.values() if not one.withdrawn]
        earlier = [one for one in self.requests.values() if one.withdrawn]
        return m.Overview(
            status=self.status,
            running=sum(not call.request for call in self.live),
            waiting=len(waiting),
            done=self.done,
            failed=self.failed,
            earlier=len(earlier),
            approvals=[*waiting, *earlier],
            live=list(self.live),
            ended=list(self.ended),
            sessions=list(self.sessions),
            notices=list(self.notices),
        )

    def _handlers(self) -> dict[str, Handler]:
        answers = {
            m.OVERVIEW: self._overview,
            m.APPROVAL: self._whole,
            m.APPROVE: self._approve,
            m.DENY: self._deny,
            m.CALL: self._call,
            m.GRANTS: self._grants,
            m.TOKEN: self._token,
            m.ROTATE: self._rotate,
            m.CANCEL: self._words(m.CANCEL, "call 7 cancelled: bash; its caller is told so", m.Id),
            m.END_SESSION: self._words(m.END_SESSION, "session 7f3a0000 ended", m.Id),
            m.REVOKE: self._words(m.REVOKE, "grant 1 revoked: bash is asked about again", m.Number),
            m.PAUSE: self._words(m.PAUSE, "paused: 1 running call cancelled", None),
            m.RESUME: self._words(m.RESUME, "resumed: new calls run again", None),
        }
        return {method: self._guarded(method, answer) for method, answer in answers.items()}

    def _guarded(self, method: str, answer: Handler) -> Handler:
        async def handler(params: object) -> object:
            if self.silent:
                await asyncio.Event().wait()
            if method in self.refuse:
                raise ControlError(self.refuse[method])
            return await answer(params)

        return handler

    def _words(self, method: str, words: str, kind: type | None) -> Handler:
        async def handler(params: object) -> str:
            given = msgspec.convert(params, kind) if kind is not None else None
            self.orders.append((method, given))
            return words

        return handler

    async def _overview(self, params: object) -> m.Overview:
        assert msgspec.convert(params, m.Watching).attached
        self.looks += 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        return self.overview()

    def _find(self, number: int) -> m.Asked:
        found = self.requests.get(number)
        if found is None:
            was = self.answered.get(number, "there is none, or no longer")
            raise ControlError(f"request {number}: {was}; a2a-bridge approvals shows what waits")
        return found

    async def _whole(self, params: object) -> m.AskedWhole:
        number = msgspec.convert(params, m.Number).id
        self.asked_for.append(number)
        if number in self.held_back:
            await self.held_back[number].wait()
        return m.AskedWhole(self._find(number), self.arguments[number], self.previews.get(number, ""))

    async def _approve(self, params: object) -> str:
        given = msgspec.convert(params, m.Approval)
        one = self._find(given.id)
        self.orders.append((m.APPROVE, given))
        if one.withdrawn:
            self.change(given.id, granted=True)
            return f"request {given.id} was withdrawn before, so nothing runs now"
        self.answer(given.id, "it has been approved")
        return f"request {given.id} approved: it runs"

    async def _deny(self, params: object) -> str:
        given = msgspec.convert(params, m.Denial)
        self._find(given.id)
        self.orders.append((m.DENY, given))
        self.answer(given.id, "it has been denied")
        return f"request {given.id} denied"

    async def _call(self, params: object) -> m.CallWhole:
        number = msgspec.convert(params, m.Id).id
        arguments, result = self.results.get(number, ("{}", ""))
        running = next((one for one in self.live if one.id == number), None)
        over = next((one for one in self.ended if one.id == number), None)
        if running is None and over is None:
            raise ControlError(f"there is no call {number}, or it is not remembered any more")
        return m.CallWhole(running, over, arguments, result)

    async def _grants(self, _: object) -> list[m.GrantRow]:
        return list(self.grants)

    async def _token(self, _: object) -> str:
        self.orders.append((m.TOKEN, None))
        return SECRET

    async def _rotate(self, _: object) -> str:
        self.orders.append((m.ROTATE, None))
        self.status = msgspec.structs.replace(self.status, token_prefix="Zz9Yy8…")
        return "Zz9Yy8…"


def _report(line: str) -> None:
    raise AssertionError(line)


@asynccontextmanager
async def fake_bridge() -> AsyncIterator[FakeBridge]:
    """Listening until the block ends. In a directory of its own, for a socket's path must be short."""
    where = Path(tempfile.mkdtemp(prefix="a2a-"))
    bridge = FakeBridge(where / "4711.sock")
    try:
        await bridge.start()
        yield bridge
    finally:
        await bridge.stop()
        shutil.rmtree(where)
