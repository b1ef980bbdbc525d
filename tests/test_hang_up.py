"""Nothing runs for nobody: callers that hang up in the instant in which their call is approved, over real HTTP."""

import asyncio
import json
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.approval.requests import GAVE_UP
from a2a_bridge.calls import Outcome
from a2a_bridge.control import messages
from a2a_bridge.hosts.fake import FakeHost
from tests.hosts import LOOPS, soon
from tests.support.asking import ALWAYS_ASK, Lent, ask, connected, http_call, lent, question, waiting
from tests.support.callers import TOKEN, Client, HttpCaller, all_parsed, read_reply, request
from tests.support.processes import Served, records, scripted

ROUNDS = 1000
# What one connection may bring behind a request that waits.
MORE = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 900_000

Run = Callable[[Coroutine[Any, Any, None]], None]
HangUp = Callable[[socket.socket], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run


def end(link: socket.socket) -> None:
    """With FIN."""
    link.close()


def reset(link: socket.socket) -> None:
    """With RST."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


def end_behind_more(link: socket.socket) -> None:
    """The end lies behind as much unread data as a connection may bring."""
    assert link.send(MORE) > 100_000
    link.close()


class Racer:
    """A client by hand, on the loop of the bridge that it calls."""

    def __init__(self, one: Lent, host: FakeHost, session: str) -> None:
        self.one = one
        self.host = host
        self.session = session

    async def asks(self, **arguments: object) -> tuple[socket.socket, int]:
        """A call that waits, on a connection of its own, and its question."""
        link = await connected(self.one.live.port)
        await asyncio.get_running_loop().sock_sendall(link, http_call(self.session, "echo", arguments))
        return link, (await self.one.question()).id

    def approve(self, number: int) -> None:
        """Before any task has another turn."""
        self.one.order(messages.APPROVE, id=number)

    async def nothing_ran(self, text: str) -> None:
        """The call was withdrawn; what the approval left is taken away again."""
        ended = await self.one.ended()
        assert (ended.outcome, list(self.host.seen)) == (Outcome.WITHDRAWN, []), text
        (earlier,) = [row for row in self.one.order(messages.APPROVALS) if text in row.summary]
        (grant,) = self.one.order(messages.GRANTS)
        assert (earlier.withdrawn, earlier.granted, grant.kind) == (GAVE_UP, True, "once")
        self.one.order(messages.REVOKE, id=grant.id)
        self.one.order(messages.DENY, id=earlier.id)


@asynccontextmanager
async def racing(home: Path) -> AsyncIterator[Racer]:
    host = FakeHost()
    async with lent(home, host) as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.live.port)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x"}}})
        writer.write(request("POST", {"Authorization": f"Bearer {TOKEN}"}, body.encode()))
        session = (await read_reply(reader)).headers["mcp-session-id"]
        writer.transport.abort()
        yield Racer(one, host, session)


@pytest.mark.parametrize(("hang_up", "rounds"), [(end, ROUNDS), (reset, ROUNDS), (end_behind_more, ROUNDS // 4)])
def test_a_caller_that_hung_up_before_the_approval_gets_nothing_run(
    run: Run, tmp_path: Path, hang_up: HangUp, rounds: int
) -> None:
    """Both within one turn of the loop; in each round the watch of the connection has got a little further."""

    async def race() -> None:
        async with racing(tmp_path) as racer:
            for number in range(rounds):
                link, question = await racer.asks(text=f"<{number}>")
                for _ in range(number % 10):
                    await asyncio.sleep(0)
                hang_up(link)
                racer.approve(question)
                await racer.nothing_ran(f"<{number}>")
                link.close()

    run(race())


def half_close(link: socket.socket) -> None:
    """No more will be sent, but the answer is awaited."""
    link.shutdown(socket.SHUT_WR)


def test_t9_a_half_closed_caller_is_approved_and_gets_its_answer(run: Run, tmp_path: Path) -> None:
    async def race() -> None:
        async with racing(tmp_path) as racer:
            for number in range(20):
                link, question = await racer.asks(text=f"<{number}>")
                for _ in range(number % 10):
                    await asyncio.sleep(0)
                half_close(link)
                racer.approve(question)
                got = b""
                while piece := await asyncio.get_running_loop().sock_recv(link, 65536):
                    got += piece
                (reply,) = all_parsed(got)
                assert reply.result == {"content": [{"type": "text", "text": f"<{number}>"}], "isError": False}
                assert (await racer.one.ended()).outcome is Outcome.DONE
                link.close()

    run(race())


def test_the_same_with_an_approval_over_the_control_socket(run: Run, tmp_path: Path) -> None:
    async def race() -> None:
        async with racing(tmp_path) as racer:
            owner = socket.socket(socket.AF_UNIX)
            owner.connect(str(tmp_path / "a2a-bridge" / f"{os.getpid()}.sock"))
            for number in range(ROUNDS):
                link, question = await racer.asks(text=f"<{number}>")
                (reset if number % 2 else end)(link)
                owner.send(b'{"jsonrpc":"2.0","id":1,"method":"approve","params":{"id":%d}}\n' % question)
                await racer.nothing_ran(f"<{number}>")
            owner.close()

    run(race())


def test_a_large_call_is_heard_to_hang_up_too(run: Run, tmp_path: Path) -> None:
    """Its connection is not read from while its body is more than the server likes to hold."""

    async def race() -> None:
        async with racing(tmp_path) as racer:
            for number in range(50):
                link, question = await racer.asks(text=f"<{number}>", more="x" * 1_000_000)
                (reset if number % 2 else end)(link)
                racer.approve(question)
                await racer.nothing_ran(f"<{number}>")

    run(race())


def test_the_end_of_one_connection_is_not_the_end_of_another(run: Run, tmp_path: Path) -> None:
    """A caller that is there always runs, whoever goes in the same instant; what another allowed serves nobody else."""

    async def race() -> None:
        async with racing(tmp_path) as racer:
            loop = asyncio.get_running_loop()
            for number in range(ROUNDS // 4):
                leaving, first = await racer.asks(text=f"<{number}>")
                staying, second = await racer.asks(text=f"({number})")
                (reset if number % 2 else end)(leaving)
                racer.approve(first)
                racer.approve(second)
                await loop.sock_recv(staying, 65536)
                ((_, got, _),) = racer.host.seen
                assert got == {"text": f"({number})"}
                racer.host.seen.clear()
                assert {(await racer.one.ended()).outcome for _ in range(2)} == {Outcome.DONE, Outcome.WITHDRAWN}
                staying.close()

    run(race())


def test_a_retry_that_is_there_runs_for_the_caller_that_has_gone(run: Run, tmp_path: Path) -> None:
    """Of identical calls that wait together one hangs up in the instant of the approval, whichever it is."""

    async def race() -> None:
        async with racing(tmp_path) as racer:
            loop = asyncio.get_running_loop()
            for number in range(ROUNDS // 4):
                first, question = await racer.asks(text=f"<{number}>")
                second = await connected(racer.one.live.port)
                await loop.sock_sendall(second, http_call(racer.session, "echo", {"text": f"<{number}>"}))
                while racer.one.order(messages.APPROVALS)[0].callers < 2:
                    await asyncio.sleep(0)
                leaving, staying = (first, second) if number % 2 else (second, first)
                leaving.close()
                racer.approve(question)
                assert b'isError":false' in await loop.sock_recv(staying, 65536)
                assert len(racer.host.seen) == 1
                racer.host.seen.clear()
                outcomes = {(await racer.one.ended()).outcome for _ in range(2)}
                # The other has not run, and may have got this one's result before its end was known.
                assert outcomes in ({Outcome.DONE}, {Outcome.DONE, Outcome.WITHDRAWN})
                staying.close()
            assert racer.one.order(messages.GRANTS) == []

    run(race())


# Real processes.

CALLER = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
link.sendall(sys.stdin.buffer.read())
link.recv(1)
"""


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Served]:
    with scripted(tmp_path, ALWAYS_ASK) as one:
        yield one


async def test_a_client_process_that_was_killed_gets_nothing_run(bridge: Served) -> None:
    client = Client(HttpCaller(bridge))
    session = await client.open(name="lab")
    for number in range(30):
        command = [sys.executable, "-IS", "-c", CALLER, str(bridge.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as caller:
            assert caller.stdin is not None
            caller.stdin.write(http_call(session, "echo", {"text": f"{number}"}))
            caller.stdin.close()
            asked = await question(bridge)
            caller.kill()
            caller.wait()
            ask(bridge, messages.APPROVE, id=asked["id"])
        assert waiting(bridge) == []
    await client.message("ping")
    assert [record["phase"] for record in records(bridge.audit)] == ["start"] * 30
    assert len(ask(bridge, messages.GRANTS)) == 30


MANY = 5000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for that many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 1000), max(hard, MANY + 1000)))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def in_flight(bridge: Served) -> int:
    found = ask(bridge, messages.STATUS)["calls"]
    assert isinstance(found, int)
    return found


async def held(bridge: Served, session: str, identical: bool) -> list[socket.socket]:
    """That many calls that wait."""
    links = []
    for number in range(MANY):
        links.append(socket.create_connection(("127.0.0.1", bridge.port)))
        links[-1].sendall(http_call(session, "echo", {"text": "same" if identical else f"number {number}"}))
    await soon(lambda: in_flight(bridge) == MANY, "all calls have come")
    return links


async def let_go(bridge: Served, links: list[socket.socket]) -> None:
    for link in links:
        link.close()
    await soon(lambda: in_flight(bridge) == 0, "all calls have gone")


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("identical", [False, True])
async def test_five_thousand_waiting_calls_are_listed_and_withdrawn(bridge: Served, identical: bool) -> None:
    client = Client(HttpCaller(bridge))
    session = await client.open(name="lab")
    links = await held(bridge, session, identical)
    listed = waiting(bridge)
    assert len(listed) == (1 if identical else MANY)
    assert sum(one["callers"] for one in listed) == MANY
    assert (await client.message("ping")).result == {}
    shown = ask(bridge, messages.OVERVIEW)
    assert (shown["waiting"], shown["running"], len(shown["live"])) == (MANY, 0, 100)

    await let_go(bridge, links)
    assert waiting(bridge) == []
    assert (await client.message("ping")).result == {}
    assert {record["phase"] for record in records(bridge.audit)} == {"start"}
    assert {one["outcome"] for one in ask(bridge, messages.OVERVIEW)["ended"]} == {"withdrawn"}


@pytest.mark.usefixtures("many_files")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_the_memory_of_waiting_calls_is_small_and_used_again(bridge: Served) -> None:
    session = await Client(HttpCaller(bridge)).open(name="lab")
    empty = resident_kilobytes(bridge.process.pid)
    peaks = []
    for _ in range(2):
        links = await held(bridge, session, identical=False)
        peaks.append(resident_kilobytes(bridge.process.pid))
        await let_go(bridge, links)
    assert (peaks[0] - empty) / MANY < 30, "KiB for each waiting call"
    assert (peaks[1] - peaks[0]) / MANY < 3, "KiB for each call that has gone"


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("identical", [False, True])
async def test_five_thousand_waiting_calls_are_answered_when_their_session_ends(
    bridge: Served, identical: bool
) -> None:
    client = Client(HttpCaller(bridge))
    links = await held(bridge, await client.open(name="lab"), identical)
    assert (await client.caller.send("DELETE", client.headers())).status == 204
    for link in links:
        with link:
            assert b"withdrawn: its session ended; nothing ran" in link.recv(65536)
    shown = ask(bridge, messages.OVERVIEW)
    assert (shown["running"], shown["waiting"], shown["done"], shown["failed"]) == (0, 0, 0, MANY)
