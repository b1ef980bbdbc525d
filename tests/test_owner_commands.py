"""The owner's commands against a real bridge that asks: what they print, what they do, and how they fail."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_bridge.control import messages
from tests.hosts import alive, all_gone, pids, soon
from tests.support.asking import ALWAYS_ASK, answer, ask, lent, question, text, waiting, words
from tests.support.callers import Client, HttpCaller, Reply
from tests.support.processes import Served, a2a, environment, records, served

# What a command says that had just asked when the bridge ended.
CUT_OFF = "the bridge closed the connection"

Pending = asyncio.Task[Reply]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def bridge(home: Path) -> Iterator[Served]:
    with served(home, "--approval-mode", "always-ask", settings={"token": ALWAYS_ASK["token"]}) as one:
        yield one


@pytest.fixture
async def client(bridge: Served) -> Client:
    one = Client(HttpCaller(bridge))
    await one.open(name="claude-code", version="3.4.1")
    return one


def said(home: Path, *arguments: str) -> str:
    """What a command that goes well prints."""
    ended = a2a(home, *arguments)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout


def refused(home: Path, *arguments: str, code: int = 1) -> str:
    """What one that does not says, in one line."""
    ended = a2a(home, *arguments)
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    (line,) = ended.stderr.splitlines()
    return line


def timeless(printed: str) -> str:
    return re.sub(r"\d+(\.\d)? m?s\b", "N s", printed)


async def bash(bridge: Served, client: Client, command: str, message_id: int = 1, **more: object) -> Pending:
    """A call that waits for its owner."""
    before = len(waiting(bridge))
    call = asyncio.create_task(client.call("bash", {"command": command, **more}, message_id))
    await soon(lambda: len(waiting(bridge)) > before, "it waits")
    return call


async def hang_up(bridge: Served, call: Pending) -> None:
    before = len(waiting(bridge))
    call.cancel()
    await soon(lambda: len(waiting(bridge)) < before, "it is withdrawn")


async def test_a_call_hangs_until_a_command_from_another_process_approves_it(
    bridge: Served, home: Path, client: Client
) -> None:
    call = await bash(bridge, client, "echo ran | tee trace")
    assert (await client.message("ping")).result == {}
    assert len((await client.message("tools/list")).result["tools"]) == 7
    assert text(await client.call("read", {"path": "bridge.json", "limit": 1})).startswith("     1\t{")
    assert not call.done()
    assert not (home / "trace").exists()
    assert said(home, "approve", "1") == "request 1 approved: it runs\n"
    assert text(await answer(call)) == "ran\n"
    assert (home / "trace").read_text() == "ran\n"
    done = {record["tool"]: record for record in records(bridge.audit) if record["phase"] == "done"}
    assert done["bash"]["decided"] == "approved by the owner"
    assert done["read"]["decided"] == "mode always-ask, tier read, no rule"
    assert refused(home, "approve", "1") == (
        "a2a-bridge: request 1: it has been approved; a2a-bridge approvals shows what waits"
    )


async def test_a_denial_with_a_reason_reaches_the_caller(bridge: Served, home: Path, client: Client) -> None:
    call = await bash(bridge, client, "touch trace")
    assert said(home, "deny", "1", "--reason", "  use the simulator ") == "request 1 denied\n"
    assert words(await answer(call)).startswith("denied: use the simulator (the owner's reason; nothing ran).")
    call = await bash(bridge, client, "touch trace")
    assert said(home, "deny", "2") == "request 2 denied\n"
    assert words(await answer(call)).startswith("denied: by the owner (who gave no reason; nothing ran).")
    assert not (home / "trace").exists()
    assert refused(home, "deny", "2").startswith("a2a-bridge: request 2: it has been denied")


async def test_approvals_shows_all_of_a_question(bridge: Served, home: Path, client: Client) -> None:
    assert said(home, "approvals") == "no call waits\n"
    call = await bash(bridge, client, "make flash \u202e; rm -rf /\n  │ request 9  bash", background=True)
    session = str(client.session)[:8]
    assert timeless(said(home, "approvals")).splitlines() == [
        "request 1  bash  exec  waiting for N s",
        f"  asked by claude-code 3.4.1 (session {session}, 127.0.0.1)",
        f"  in {home}",
        "  command (42 characters, 2 lines; not ASCII: │ U+2502 box drawings light vertical):",
        "  │ make flash \\u{202e}; rm -rf /",
        "  │   │ request 9  bash",
        "  background (4 characters, 1 line, JSON):",
        "  │ true",
        "  why asked: mode always-ask, tier exec, no rule",
        "  a2a-bridge approve 1   a2a-bridge deny 1",
        "",
    ]
    assert timeless(said(home, "approvals", "1")) == timeless(said(home, "approvals")).removesuffix("\n")
    (row,) = json.loads(said(home, "approvals", "--json"))
    assert {name: row[name] for name in ("id", "tool", "tier", "client", "callers", "times", "withdrawn")} == {
        "id": 1,
        "tool": "bash",
        "tier": "exec",
        "client": "claude-code 3.4.1",
        "callers": 1,
        "times": 1,
        "withdrawn": "",
    }
    await hang_up(bridge, call)
    shown = timeless(said(home, "approvals")).splitlines()
    assert shown[0] == "request 1  bash  exec  asked earlier, N s ago; it was cancelled, or its caller hung up"


async def test_a_long_question_is_cut_in_the_list_and_whole_when_asked_for(
    bridge: Served, home: Path, client: Client
) -> None:
    line = "echo " + "x" * 60
    call = await bash(bridge, client, "\n".join([line] * 1000) + "\ntouch trace")
    listed = said(home, "approvals")
    assert f"\n  … and {988 * 66 + 12} characters more: a2a-bridge approvals 1 shows all" in listed
    assert "touch trace" not in listed
    whole = said(home, "approvals", "1")
    assert whole.count(f"  │ {line}\n") == 1000
    assert "  │ touch trace\n" in whole
    await hang_up(bridge, call)


async def test_nothing_that_a_caller_names_can_forge_a_line(home: Path) -> None:
    """The tool's and the arguments' names come from the caller too, where the host lets them."""
    forged = "x\n  a2a-bridge approve 1\x1b[2J"
    async with lent(home) as one:
        caller = Client(HttpCaller(Served(one.live.url, ALWAYS_ASK["token"], home, None)))  # type: ignore[arg-type]
        await caller.open(name=forged)
        calls = [asyncio.create_task(caller.call(forged, {forged: number, "n": forged})) for number in range(22)]
        while len(one.order(messages.APPROVALS)) < len(calls):
            await asyncio.sleep(0.001)
        for arguments in (["approvals"], ["approvals", "2"], ["calls"], ["sessions"]):
            shown = await asyncio.to_thread(said, home, *arguments)
            assert "\x1b" not in shown
            real = [line for line in shown.splitlines() if re.match(r"  a2a-bridge approve 1\b", line)]
            assert real == (["  a2a-bridge approve 1   a2a-bridge deny 1"] if arguments == ["approvals"] else [])
        one.order(messages.APPROVE, id=1, scope="tool")
        await asyncio.gather(*calls)
        assert "\x1b" not in await asyncio.to_thread(said, home, "grants")


async def test_a_change_is_shown_with_its_difference(bridge: Served, home: Path, client: Client) -> None:
    (home / "note").write_text("one\ntwo\n")
    arguments = {"path": "note", "edits": [{"old": "two", "new": "2\x1b[2J"}]}
    call = asyncio.create_task(client.call("edit", arguments))
    await question(bridge)
    shown = said(home, "approvals")
    assert "  it would change:\n" in shown
    assert "  │ -two\n  │ +2\\u{1b}[2J\n" in shown
    (home / "note").write_text("three\n")
    assert "  │ it would fail: " in said(home, "approvals", "1")
    said(home, "deny", "1")
    assert words(await answer(call)).startswith("denied: ")


class Watcher:
    """`approvals --watch` in a process of its own."""

    def __init__(self, home: Path, process: subprocess.Popen[str]) -> None:
        self._out = home / "watched"
        self.process = process

    async def shows(self, words: str) -> None:
        await soon(lambda: words in self._out.read_text(), f"{words} is shown")

    def ends(self) -> tuple[int, str]:
        """Its exit code, and what it said of it."""
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


@pytest.fixture
def watcher(bridge: Served, home: Path) -> Iterator[Watcher]:
    command = [sys.executable, "-m", "a2a_bridge", "approvals", "--watch"]
    with (
        (home / "watched").open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, env=environment(home), text=True) as process,
    ):
        try:
            yield Watcher(home, process)
        finally:
            process.kill()


async def test_watch_shows_each_question_as_it_comes_and_goes(bridge: Served, client: Client, watcher: Watcher) -> None:
    first = await bash(bridge, client, "echo first")
    await watcher.shows("request 1  bash  exec  waiting")
    ask(bridge, messages.APPROVE, id=1)
    assert text(await answer(first)) == "first\n"
    await watcher.shows("request 1: answered\n")
    second = await bash(bridge, client, "echo second")
    await watcher.shows("request 2  bash  exec  waiting")
    await hang_up(bridge, second)
    await watcher.shows("request 2: it was cancelled, or its caller hung up\n")


async def test_watch_says_when_the_bridge_ends(bridge: Served, client: Client, watcher: Watcher) -> None:
    call = await bash(bridge, client, "echo first")
    await watcher.shows("request 1  bash  exec  waiting")
    bridge.process.terminate()
    assert words(await answer(call)).startswith("cancelled: the bridge is shutting down")
    code, said = watcher.ends()
    assert code == 1
    assert said in (f"a2a-bridge: the bridge with pid {bridge.process.pid} has ended\n", f"a2a-bridge: {CUT_OFF}\n")


async def test_watch_ends_with_ctrl_c(bridge: Served, client: Client, watcher: Watcher) -> None:
    call = await bash(bridge, client, "echo first")
    await watcher.shows("request 1  bash  exec  waiting")
    watcher.process.send_signal(signal.SIGINT)
    assert watcher.ends() == (130, "")
    await hang_up(bridge, call)


async def test_calls_and_cancel(bridge: Served, home: Path, client: Client) -> None:
    assert said(home, "calls") == "no call is in flight\n"
    running = await bash(bridge, client, "echo $$ > running; exec sleep 600")
    said(home, "approve", "1")
    await soon(lambda: bool(pids(home / "running")), "it runs")
    waits = await bash(bridge, client, "echo waits", 2)
    session = str(client.session)[:8]
    assert timeless(said(home, "calls")).splitlines() == [
        f"1  runs  N s  claude-code 3.4.1 ({session})  bash  echo $$ > running; exec sleep 600",
        f"2  waits for request 2  N s  claude-code 3.4.1 ({session})  bash  echo waits",
    ]
    first, second = json.loads(said(home, "calls", "--json"))
    assert (first["request"], second["request"]) == (0, 2)
    assert said(home, "cancel", "1") == "call 1 cancelled: bash; its caller is told so\n"
    assert words(await answer(running)) == "cancelled by the owner"
    all_gone(home / "running")
    assert said(home, "cancel", second["id"]) == "call 2 cancelled: bash; its caller is told so\n"
    assert words(await answer(waits)) == "cancelled by the owner"
    assert refused(home, "cancel", "1") == "a2a-bridge: there is no call 1, or no longer; a2a-bridge calls lists them"


async def test_sessions_and_their_end(bridge: Served, home: Path, client: Client) -> None:
    other = Client(HttpCaller(bridge))
    await other.open(name="omp\x1b[2J")
    one, two = str(client.session)[:8], str(other.session)[:8]
    running = await bash(bridge, client, "echo $$ > running; exec sleep 600")
    said(home, "approve", "1")
    await soon(lambda: bool(pids(home / "running")), "it runs")
    waits = await bash(bridge, client, "echo waits", 2)
    others = await bash(bridge, other, "echo others")
    listed = timeless(said(home, "sessions")).splitlines()
    assert listed == [
        f"{one}  claude-code 3.4.1 from 127.0.0.1  opened N s ago, seen N s ago  2 calls",
        f"{two}  omp[2J from 127.0.0.1  opened N s ago, seen N s ago  1 calls",
    ]
    assert [row["calls"] for row in json.loads(said(home, "sessions", "--json"))] == [2, 1]
    assert said(home, "sessions", "end", one) == (
        f"session {one} ended, 1 of its calls cancelled by the owner; its client may open a new one\n"
    )
    assert words(await answer(running)) == "cancelled by the owner"
    assert words(await answer(waits)).startswith("withdrawn: its session ended; nothing ran.")
    all_gone(home / "running")
    assert (await client.message("ping")).status == 404
    assert (await other.message("ping")).result == {}
    said(home, "approve", "3")
    assert text(await answer(others)) == "others\n"
    assert refused(home, "sessions", "end", one) == (
        f"a2a-bridge: there is no session {one}, or no longer; a2a-bridge sessions lists them"
    )


async def test_grants_and_their_end(bridge: Served, home: Path, client: Client) -> None:
    assert said(home, "grants") == "nothing is granted\n"
    call = await bash(bridge, client, "echo mine")
    assert said(home, "approve", "1", "--session") == (
        "request 1 approved: it runs; grant 1: this call, for the session (a2a-bridge grants revoke 1)\n"
    )
    assert text(await answer(call)) == "mine\n"
    assert text(await client.call("bash", {"command": "echo mine"})) == "mine\n"
    call = await bash(bridge, client, "echo theirs")
    said(home, "approve", "2", "--tool")
    await answer(call)
    assert text(await client.call("bash", {"command": "echo anything"})) == "anything\n"
    session = str(client.session)[:8]
    whose = f"claude-code 3.4.1 ({session})"
    assert said(home, "grants").splitlines() == [
        f"1  this call, for the session  while its session lives  {whose}  bash  echo mine",
        f"2  this tool, for the session  while its session lives  {whose}  bash  every call",
    ]
    assert said(home, "grants", "revoke", "2") == "grant 2 revoked: bash is asked about again\n"
    assert [row["id"] for row in json.loads(said(home, "grants", "--json"))] == [1]
    call = await bash(bridge, client, "echo anything")
    assert refused(home, "grants", "revoke", "2").startswith("a2a-bridge: there is no grant 2, or no longer")
    other = Client(HttpCaller(bridge))
    await other.open(name="claude-code", version="3.4.1")
    another = await bash(bridge, other, "echo mine")
    for number in (3, 4):
        said(home, "deny", str(number))
    await answer(call)
    await answer(another)
    assert (await client.caller.send("DELETE", client.headers())).status == 204
    assert said(home, "grants") == "nothing is granted\n"


async def test_approving_a_tool_lets_what_waits_of_it_run_too(bridge: Served, home: Path, client: Client) -> None:
    calls = [await bash(bridge, client, f"echo {number}", number) for number in range(3)]
    assert said(home, "approve", "2", "--tool").startswith("request 2 approved: it runs; so does 2 more that waited; ")
    assert [text(await answer(call)) for call in calls] == ["0\n", "1\n", "2\n"]


async def test_approving_what_was_given_up_serves_the_retry_of_a_new_session(
    bridge: Served, home: Path, client: Client
) -> None:
    call = await bash(bridge, client, "echo ran >> trace; echo done")
    await hang_up(bridge, call)
    assert said(home, "approve", "1") == (
        "request 1 was withdrawn before (it was cancelled, or its caller hung up), so nothing runs now; "
        "unasked runs the next identical call within 600 s (grant 1)\n"
    )
    assert not (home / "trace").exists()
    assert re.fullmatch(
        r"1  once  for 9:\d\d min more  claude-code 3\.4\.1 \(\w{8}\)  bash  echo ran >> trace; echo done\n",
        said(home, "grants"),
    )
    assert "approved, the next identical call runs" in said(home, "approvals")
    retry = Client(HttpCaller(bridge))
    await retry.open(name="claude-code", version="3.4.1")
    assert text(await retry.call("bash", {"command": "echo ran >> trace; echo done"})) == "done\n"
    again = await bash(bridge, retry, "echo ran >> trace; echo done")
    assert (home / "trace").read_text() == "ran\n"
    await hang_up(bridge, again)


async def test_pause_stops_everything_and_resume_lets_it_go_on(bridge: Served, home: Path, client: Client) -> None:
    said_nothing = home / "background"
    started = await bash(bridge, client, f"echo $$ > {said_nothing}; sleep 600 & echo $! >> {said_nothing}; wait", 1)
    in_background = await bash(bridge, client, "echo $$ > job; exec sleep 600", 2, background=True)
    waits = await bash(bridge, client, "touch trace", 3)
    for number in ("1", "2"):
        said(home, "approve", number)
    assert text(await answer(in_background)).startswith("job 1 runs")
    await soon(lambda: len(pids(said_nothing)) == 2 and len(pids(home / "job")) == 1, "they run")

    assert said(home, "pause") == (
        "paused: 1 running call cancelled, background jobs ended, new calls refused until a2a-bridge resume\n"
    )
    assert not [pid for file in (said_nothing, home / "job") for pid in pids(file) if alive(pid)]
    paused = "paused by the owner; nothing runs until they resume. Ask them, or try again later"
    assert words(await answer(started)) == paused
    assert words(await answer(waits)) == paused
    assert words(await client.call("read", {"path": "bridge.json"})) == paused
    assert words(await client.call("bash", {"command": "touch trace"})) == paused
    assert (await client.message("ping")).result == {}
    assert len((await client.message("tools/list")).result["tools"]) == 7
    assert "PAUSED" in said(home, "status")
    assert ask(bridge, messages.STATUS)["waiting"] == 0

    assert said(home, "resume") == "resumed: new calls run again\n"
    assert said(home, "resume") == "it was not paused\n"
    call = await bash(bridge, client, "echo on", background=True)
    said(home, "approve", "4")
    assert text(await answer(call)).startswith("job 2 runs")
    assert not (home / "trace").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["approve"], 2, "Missing argument 'ID'"),
        (["approve", "x"], 2, "not a valid int"),
        (["approve", "1", "--session", "--tool"], 2, "give one of them"),
        (["approve", "7"], 1, "request 7: there is none, or no longer"),
        (["approve", "99999999999999999999999999"], 1, "there is none, or no longer"),
        (["deny", "7"], 1, "request 7: there is none, or no longer"),
        (["deny", "1", "--reason", "\udcff"], 2, "is not UTF-8 text"),
        (["approvals", "7"], 1, "request 7: there is none, or no longer"),
        (["approvals", "--watch", "--json"], 2, "neither --json nor ID"),
        (["approvals", "1", "--watch"], 2, "neither --json nor ID"),
        (["cancel", "7"], 1, "there is no call 7, or no longer"),
        (["cancel", ""], 1, "there is no call , or no longer"),
        (["sessions", "end", "x"], 1, "there is no session x, or no longer"),
        (["sessions", "start"], 2, "No such command"),
        (["grants", "revoke", "7"], 1, "there is no grant 7, or no longer"),
        (["grants", "revoke", "99999999999999999999999999"], 1, "or no longer"),
    ],
)
def test_errors_are_one_line_and_have_exit_codes(
    asking: tuple[Served, Path], arguments: list[str], code: int, words: str
) -> None:
    assert words in refused(asking[1], *arguments, code=code)


@pytest.mark.parametrize(
    "command", ["approvals", "approve 1", "deny 1", "calls", "cancel 1", "sessions", "grants", "pause"]
)
def test_without_a_bridge_they_say_so(tmp_path: Path, command: str) -> None:
    assert refused(tmp_path, *command.split()).startswith("a2a-bridge: no bridge is running for this user; start one")


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """One bridge for those who only ask."""
    home = tmp_path_factory.mktemp("asking")
    with served(home, settings=ALWAYS_ASK) as one:
        yield one, home
