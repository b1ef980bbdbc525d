"""Approvals, limits and the control socket over real HTTP and between real processes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.bridge import STOPPING
from a2a_bridge.control import client as control_client
from a2a_bridge.control import messages
from a2a_bridge.hosts.fake import FakeHost
from a2a_bridge.tool import Call, Image, Result, Text
from tests.hosts import NOBODY, all_gone, pids, soon
from tests.support.asking import ALWAYS_ASK, Lent, answer, ask, control, lent, question, text, waiting, words
from tests.support.callers import TOKEN, Client, HttpCaller, Reply
from tests.support.processes import Served, a2a, records, scripted, served

Pending = asyncio.Task[Reply]


async def opened(bridge: Served | Lent, name: str = "lab") -> Client:
    """A client of it with a session."""
    if isinstance(bridge, Lent):
        bridge = Served(bridge.live.url, TOKEN, Path(), None)  # type: ignore[arg-type]
    client = Client(HttpCaller(bridge))
    await client.open(name=name)
    return client


def calling(client: Client, name: str, message_id: int = 1, **arguments: object) -> Pending:
    return asyncio.create_task(client.call(name, arguments, message_id))


async def left(call: Pending) -> None:
    """The caller hangs up."""
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer(call)


# What is refused without a question.


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("no-such-tool", {}, "tool 'no-such-tool' is not exposed by this bridge"),
        ("glob", {"pattern": "*"}, "tool 'glob' is not exposed by this bridge"),
        ("bash", {"cmd": "ls"}, "invalid arguments for bash: "),
        ("bash", {"command": "ls", "cwd": "a\0b"}, "path 'a\\x00b' holds a NUL character"),
        ("edit", {"path": "f", "edits": []}, "invalid arguments for edit: "),
        ("bash", {"command": "ls", "cwd": "~no-such-user"}, "path '~no-such-user': there is no such user's home"),
    ],
)
async def test_what_would_be_refused_anyway_is_refused_without_a_question(
    local: Served, name: str, arguments: dict[str, object], answer: str
) -> None:
    client = await opened(local)
    async with asyncio.timeout(20):
        assert words(await client.call(name, arguments)).startswith(answer)
    assert ask(local, messages.APPROVALS) == []


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One with the local host."""
    with served(tmp_path_factory.mktemp("local"), settings=ALWAYS_ASK | {"deny": ["glob"]}) as one:
        yield one


# Nobody answers; the bridge stops; callers hang up.


async def test_nobody_answers_in_time(tmp_path: Path) -> None:
    settings = ALWAYS_ASK | {"tools": {"approvalMode": "always-ask"}, "approvalTimeout": 0.2, "grantSeconds": 60}
    with served(tmp_path, settings=settings) as bridge:
        client = await opened(bridge)
        assert words(await client.call("bash", {"command": "echo ran"})) == (
            "no answer: nobody approved this within 0.2 s; nothing ran. Ask the owner, and call again with "
            "the same arguments: an approval that comes meanwhile holds for 60 s"
        )
        (asked,) = ask(bridge, messages.APPROVALS)
        assert asked["withdrawn"] == "nobody answered within 0.2 s"
        ask(bridge, messages.APPROVE, id=asked["id"])
        assert text(await client.call("bash", {"command": "echo ran"})) == "ran\n"
        assert words(await client.call("bash", {"command": "echo ran"})).startswith("no answer: ")
        done = [record.get("decided") for record in records(bridge.audit) if record["phase"] == "done"]
        assert done == [None, "grant 1: once", None]


async def test_a_bridge_that_ends_withdraws_what_waits_and_gives_it_no_grace(tmp_path: Path) -> None:
    with scripted(tmp_path, ALWAYS_ASK, grace=1e6) as bridge:
        client = await opened(bridge)
        calls = [calling(client, "echo", number, text=f"{number}") for number in range(3)]
        await soon(lambda: len(waiting(bridge)) == 3, "they wait")
        bridge.process.send_signal(signal.SIGTERM)
        assert [words(await answer(call)) for call in calls] == [STOPPING] * 3
        assert await asyncio.to_thread(bridge.process.wait, 20) == 0
        assert [record["phase"] for record in records(bridge.audit)] == ["start"] * 3 + ["done"] * 3


async def test_on_disconnect_continue_is_for_what_runs_and_not_for_what_waits(tmp_path: Path) -> None:
    host = FakeHost()
    async with lent(tmp_path, host, onDisconnect="continue") as one:
        client = await opened(one)
        running = calling(client, "hang")
        one.order(messages.APPROVE, id=(await one.question()).id)
        await host.started.wait()
        waits = calling(client, "echo", text="x")
        await one.question()
        await left(running)
        await left(waits)
        withdrawn = await one.ended()
        assert (withdrawn.tool, withdrawn.outcome) == ("echo", "withdrawn")
        assert host.cancelled == 0
        host.release.set()
        done = await one.ended()
        assert (done.tool, done.outcome) == ("hang", "done")
        assert [name for name, _, _ in host.seen] == ["hang"]


@pytest.mark.parametrize("turns", range(0, 44, 4))
async def test_the_end_of_a_session_right_after_the_approval_holds(tmp_path: Path, turns: int) -> None:
    host = FakeHost()
    async with lent(tmp_path, host) as one:
        client = await opened(one)
        call = calling(client, "hang")
        number = (await one.question()).id
        one.order(messages.APPROVE, id=number)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert ", 1 of its calls cancelled by the owner;" in one.order(messages.END_SESSION, id=client.session)
        ran = len(host.seen)
        assert words(await answer(call)) == "cancelled by the owner"
        assert host.cancelled == len(host.seen) == ran


# What is shown is what runs.

ARGUMENTS: dict[str, str] = {
    "control characters": json.dumps({"text": "".join(map(chr, range(0x21))) + "\x7f\x80\x9b\u2028"}),
    "bidirectional": json.dumps({"text": "\u202ea\u2066b\u2069\u200b\ufeff", "\u202etext": 1}),
    "a megabyte": json.dumps({"text": "x" * 1_000_000 + "\n; rm -rf /"}),
    "numbers": f'{{"a":1e999,"b":-1e999,"c":{2**70},"d":-0.0,"e":1.0,"f":1,"g":1e-400,"h":true,"i":0.1}}',
    "digits": f'{{"a":{"9" * 4000}}}',
    "look-alikes": json.dumps({"text": "rm раураl é e\u0301 Å \u212b ﬁ ℌ"}, ensure_ascii=False),
    "names": '{"text":1,"text":2,"te\\u0078t":3,"":4,"a\\nb":5,"__proto__":{"x":[]}}',
    "half a pair": '{"text":"\\ud800 \\udc00\\ud800","n":1e999}',
    "order": '{"z":1,"a":{"z":1,"a":2}}',
    "no object": '["x", null]',
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
async def test_what_the_command_shows_is_what_the_host_gets(tmp_path: Path, arguments: str) -> None:
    host = FakeHost()
    async with lent(tmp_path, host) as one:
        client = await opened(one)
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"image","arguments":{arguments}}}}}'
        call = asyncio.create_task(client.post(body.encode()))
        number = (await one.question()).id
        listed = await asyncio.to_thread(a2a, tmp_path, "approvals", f"{number}", "--json")
        assert listed.returncode == 0, listed
        shown = json.loads(json.loads(listed.stdout)["arguments"])
        plain = await asyncio.to_thread(a2a, tmp_path, "approvals", f"{number}")
        assert plain.returncode == 0
        assert all(one.isprintable() for one in plain.stdout.replace("\n", ""))
        one.order(messages.APPROVE, id=number)
        await answer(call)
        ((_, got, _),) = host.seen
        # Written out, 1 is not True and a member's place counts.
        assert repr(shown) == repr(got)


async def test_look_alikes_are_two_questions(tmp_path: Path) -> None:
    alike = ["a", "а", "a\u200b", "a ", "é", "e\u0301", 1, 1.0, True, "1", None]
    async with lent(tmp_path) as one:
        client = await opened(one)
        calls = [calling(client, "echo", number, text=value) for number, value in enumerate(alike)]
        assert len({(await one.question()).id for _ in alike}) == len(alike)
        for call in calls:
            await left(call)


# Limits.


@asynccontextmanager
async def limited(home: Path, host: FakeHost, **limits: object) -> AsyncIterator[Lent]:
    """It asks nobody."""
    async with lent(home, host, tools={}, **limits) as one:
        yield one


async def test_so_many_calls_at_once_and_no_more(tmp_path: Path) -> None:
    host = FakeHost()
    async with limited(tmp_path, host, maxConcurrentCalls=2) as one:
        first, second = await opened(one), await opened(one)
        calls = []
        for client in (first, second):
            host.started.clear()
            calls.append(calling(client, "hang"))
            await host.started.wait()
        assert words(await first.call("echo", {})) == (
            "limit: maxConcurrentCalls: this bridge may have 2 calls in flight at once; "
            "nothing ran, call again when one has ended"
        )
        assert (await first.message("ping")).result == {}
        assert len(host.seen) == 2
        host.release.set()
        assert [text(await answer(call)) for call in calls] == ["released"] * 2
        assert text(await first.call("echo", {"text": "x"})) == "x"


async def test_so_many_of_one_session_and_others_besides(tmp_path: Path) -> None:
    host = FakeHost()
    async with limited(tmp_path, host, maxConcurrentCallsPerSession=1) as one:
        first, second = await opened(one), await opened(one)
        call = calling(first, "hang")
        await host.started.wait()
        assert words(await first.call("echo", {})) == (
            "limit: maxConcurrentCallsPerSession: a session may have 1 call in flight at once; "
            "nothing ran, call again when one has ended"
        )
        assert text(await second.call("echo", {"text": "x"})) == "x"
        host.release.set()
        await answer(call)


async def test_a_call_that_waits_for_its_owner_counts_too(tmp_path: Path) -> None:
    async with lent(tmp_path, maxConcurrentCalls=1) as one:
        client = await opened(one)
        call = calling(client, "echo", text="x")
        number = (await one.question()).id
        assert words(await client.call("echo", {"text": "y"})).startswith("limit: maxConcurrentCalls")
        one.order(messages.APPROVE, id=number)
        assert text(await answer(call)) == "x"


async def test_a_call_whose_time_is_up_is_ended_with_its_processes(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN, "callTimeout": 0.5}) as bridge:
        client = await opened(bridge)
        command = "sleep 600 & echo $$ $! > running; wait"
        assert words(await client.call("bash", {"command": command})) == (
            "limit: callTimeout: the call was ended after 0.5 s; do less in one call, or put it into the background"
        )
        assert len(pids(tmp_path / "running")) == 2
        all_gone(tmp_path / "running")
        assert text(await client.call("bash", {"command": "echo on"})) == "on\n"
        assert records(bridge.audit)[1]["isError"] is True


async def test_the_wait_for_the_owner_is_no_part_of_a_calls_time(tmp_path: Path) -> None:
    async with lent(tmp_path, callTimeout=0.05) as one:
        client = await opened(one)
        call = calling(client, "echo", text="x")
        number = (await one.question()).id
        await asyncio.sleep(0.1)
        one.order(messages.APPROVE, id=number)
        assert text(await answer(call)) == "x"


class TalkativeHost(FakeHost):
    """Answers what the test has put there."""

    answer: Callable[[], Result]

    async def call(self, name: str, arguments: object, call: Call) -> Result:
        return self.answer()


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([Text("x" * 20)], ["x" * 20]),
        (
            [Text("xäöü" * 5)],
            [
                "xäöüxäöüxäö\n[cut: 16 of 35 bytes are left out; the limit is maxResultBytes, 20. "
                "Ask for less at a time]"
            ],
        ),
        (
            [Text("x" * 10), Image("A" * 12, "image/png"), Text("y" * 5)],
            [
                "x" * 10,
                "[left out: an image of 12 bytes (image/png); the limit is maxResultBytes, 20]",
                "y" * 5,
            ],
        ),
        ([Image("A" * 20, "image/png")], ["A" * 20]),
    ],
)
async def test_a_result_that_is_too_large_is_cut_and_says_so(
    tmp_path: Path, content: list[Text | Image], shown: list[str]
) -> None:
    host = TalkativeHost()
    host.answer = lambda: Result(tuple(content))
    async with limited(tmp_path, host, maxResultBytes=20) as one:
        result = (await (await opened(one)).call("echo", {})).result
        assert [block.get("text", block.get("data")) for block in result["content"]] == shown
        assert result["isError"] is False


async def test_the_text_of_a_failure_is_cut_too(tmp_path: Path) -> None:
    def fails() -> Result:
        raise RuntimeError("x" * 1000)

    host = TalkativeHost()
    host.answer = fails
    async with limited(tmp_path, host, maxResultBytes=20) as one:
        assert words(await (await opened(one)).call("echo", {})).startswith("x" * 20 + "\n[cut: 980 of 1000 bytes")


# The control socket.

AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
    except PermissionError:
        print("refused")
try:
    os.listdir(os.path.dirname(sys.argv[1]))
except PermissionError:
    print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_cannot_open_the_control_socket(tmp_path: Path) -> None:
    assert NOBODY == 65534
    with served(tmp_path, settings=ALWAYS_ASK) as bridge:
        for directory in (tmp_path, *tmp_path.parents):
            if directory.stat().st_mode & 0o077 == 0 and directory.stat().st_uid == 0:
                directory.chmod(directory.stat().st_mode | 0o011)
        # The directory is closed; and the socket itself would be, were the directory open.
        ended = as_nobody(control(bridge))
        assert ended == ["refused", "refused"]
        control(bridge).parent.chmod(0o755)
        assert as_nobody(control(bridge)) == ["refused"]
        control(bridge).parent.chmod(0o700)
        assert ask(bridge, messages.STATUS)["pid"] == bridge.process.pid


def as_nobody(path: Path) -> list[str]:
    command = [sys.executable, "-IS", "-c", AS_NOBODY, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, cwd="/")
    return ended.stdout.split()


async def test_a_console_that_never_reads_or_says_half_a_line_blocks_nobody(tmp_path: Path) -> None:
    with served(tmp_path, settings=ALWAYS_ASK) as bridge:
        client = await opened(bridge)
        pending = calling(client, "bash", command="echo " + "x" * 50_000)
        asked = await question(bridge)
        deaf, slow, rude = (socket.socket(socket.AF_UNIX) for _ in range(3))
        with deaf, slow, rude:
            for link in (deaf, slow, rude):
                link.connect(str(control(bridge)))
                link.setblocking(False)
            # A few hundred megabytes of answers, of which not one is read.
            one = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "approvals/one", "params": {"id": asked["id"]}})
            wanted = f"{one}\n".encode() * 6000
            sent = 0
            while sent < len(wanted):
                try:
                    sent += deaf.send(wanted[sent:])
                except BlockingIOError:
                    await asyncio.sleep(0)
                except (BrokenPipeError, ConnectionResetError):
                    break
            slow.send(b'{"jsonrpc":"2.0","id":1,"meth')
            rude.send(b"\x00\xff{]\n[]\n{}\n" * 1000)
            assert (await client.message("ping")).result == {}
            assert ask(bridge, messages.APPROVE, id=asked["id"]) == f"request {asked['id']} approved: it runs"
            assert text(await answer(pending)) == "x" * 50_000 + "\n"
            slow.send(b'od":"sessions"}\n')
            slow.settimeout(20)
            assert json.loads(slow.makefile().readline())["result"][0]["client"] == "lab"


async def test_what_the_owner_is_told_can_always_be_read(tmp_path: Path) -> None:
    """A host's words may hold half a character, which would make all of an answer unreadable."""
    host = TalkativeHost()

    def fails() -> Result:
        raise RuntimeError("file \udcff")

    host.answer = fails
    async with limited(tmp_path, host) as one:
        await (await opened(one)).call("echo", {})
        ended = await one.ended()
        path = tmp_path / "a2a-bridge" / f"{os.getpid()}.sock"
        for method, params in ((messages.OVERVIEW, {}), (messages.CALL, {"id": ended.call.id})):
            told = await asyncio.to_thread(control_client.ask, path, method, params)
            assert "file \ufffd" in json.dumps(told, ensure_ascii=False)
