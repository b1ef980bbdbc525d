"""What omp's human sees and types: the approvals, the commands and the ends of a bridge, in a real terminal."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.callers import Client, HttpCaller
from tests.support.omp import Home, alive, processes, until
from tests.support.processes import records
from tests.support.terminal import Terminal, flat, terminal
from tests.support.tmux import Tmux

BOX = "Allow tool:"
APPROVE, DENY = "❯ Approve", "❯ Deny"
WAITS = "waits for approval"
# The line in which one types; an open box takes its place.
EDITOR = "╰─"
COMMANDS = ("status", "token", "restart", "rotate", "stop")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """One omp that asks its human about everything, for the tests that leave it as they found it."""
    home = Home(tmp_path_factory.mktemp("terminal"))
    home.install()
    home.settings("tools: { approvalMode: always-ask }\n")
    with terminal(home) as one:
        yield one
        assert alive(one.omp), "omp died during the tests"


@pytest.fixture
async def lab(desk: Terminal) -> Client:
    """An agent elsewhere, with an open session."""
    return await opened(desk)


async def opened(desk: Terminal) -> Client:
    served = desk.served()
    client = Client(HttpCaller(served), served.token)
    await client.open(name="lab-agent", version="1.0")
    return client


def asks(client: Client, command: str) -> "asyncio.Task[Any]":
    """A remote call of bash, on its way."""
    return asyncio.create_task(client.call("bash", {"command": command}))


async def text_of(call: "asyncio.Task[Any]", is_error: bool) -> str:
    result = (await call).result
    assert result["isError"] is is_error, result
    (block,) = result["content"]
    return str(block["text"])


async def sees(desk: Terminal, *words: str, lacks: Sequence[str] = ()) -> str:
    """The next screen with these words, while our own calls go on."""
    return await asyncio.to_thread(desk.shows, *words, lacks=lacks)


async def deny(desk: Terminal) -> None:
    desk.press("Down")
    await sees(desk, DENY)
    desk.press("Enter")


async def run(desk: Terminal, word: str) -> None:
    """`/a2a word`, chosen from the menu."""
    desk.type("/a2a ")
    await sees(desk, "❯ status")
    desk.press(*["Down"] * COMMANDS.index(word))
    await sees(desk, f"❯ {word}")
    desk.press("Tab")
    await sees(desk, f"{EDITOR} /a2a {word}", lacks=["❯"])
    desk.press("Enter")


def test_the_start_is_told_and_the_address_stays(desk: Terminal) -> None:
    served = desk.served()
    assert f"A2A bridge listening on {served.url} (token {served.token[:6]}…)" in flat(desk.began)
    *_, editor, last = desk.began.rstrip().splitlines()
    assert editor.startswith(EDITOR)
    assert last.rstrip() == f"A2A {served.url}"
    assert served.token not in desk.began


# Approvals.


async def test_a_call_is_approved_by_one_who_saw_what_it_is(desk: Terminal, lab: Client) -> None:
    made = desk.home.work / "approved"
    call = asks(lab, "echo hello; touch approved")
    screen = flat(await sees(desk, BOX, APPROVE, WAITS))
    assert not call.done()
    assert not made.exists()
    assert "Allow tool: bash" in screen
    assert "Command: echo hello; touch approved" in screen
    assert "REMOTE call" in screen
    assert "lab-agent 1.0" in screen
    assert screen.count('bash {command: "echo hello; touch approved"}') == 2, "the notice, and the line that stays"
    desk.press("Enter")
    assert (await text_of(call, is_error=False)).startswith("hello\n")
    assert made.exists()
    await sees(desk, EDITOR, lacks=[BOX, WAITS, "1 call"])


async def test_a_call_is_denied(desk: Terminal, lab: Client) -> None:
    call = asks(lab, "touch denied")
    await sees(desk, "Command: touch denied", APPROVE, WAITS)
    await deny(desk)
    assert "denied" in await text_of(call, is_error=True)
    await sees(desk, EDITOR, lacks=[BOX, WAITS])
    assert not (desk.home.work / "denied").exists()


async def test_two_wait_and_each_gets_its_own_answer(desk: Terminal, lab: Client) -> None:
    first = asks(lab, "echo first; touch first")
    await sees(desk, "Command: echo first", WAITS)
    second = asks(lab, "echo second; touch second")
    screen = await sees(desk, 'bash {command: "echo second; touch second"}', "2 calls")
    assert flat(screen).count(WAITS) == 2
    for words in ("first", "second"):
        assert f'bash {{command: "echo {words}; touch {words}"}}' in flat(screen)
    assert "Command: echo first" in screen, "omp asks one after the other"
    assert "Command: echo second" not in screen
    desk.press("Enter")
    assert (await text_of(first, is_error=False)).startswith("first\n")
    screen = await sees(desk, "Command: echo second", APPROVE, WAITS, "1 call")
    assert flat(screen).count(WAITS) == 1
    assert not second.done()
    await deny(desk)
    assert "denied" in await text_of(second, is_error=True)
    await sees(desk, EDITOR, lacks=[BOX, WAITS])
    assert (desk.home.work / "first").exists()
    assert not (desk.home.work / "second").exists()


async def test_m8_l5_a_caller_hangs_up_while_the_box_is_open(desk: Terminal, lab: Client) -> None:
    call = asks(lab, "touch withdrawn")
    await sees(desk, "Command: touch withdrawn", WAITS)
    call.cancel()
    screen = await sees(desk, EDITOR, "REMOTE call withdrawn", lacks=[BOX, WAITS, "1 call"])
    assert "nothing runs" in flat(screen)
    # The next call runs and is logged; the one before would have been by then.
    after = asks(lab, "echo after")
    await sees(desk, "Command: echo after", APPROVE)
    desk.press("Enter")
    assert (await text_of(after, is_error=False)).startswith("after\n")
    assert not (desk.home.work / "withdrawn").exists()
    assert phases(desk.home, "touch withdrawn") == ["start"]
    assert phases(desk.home, "echo after") == ["start", "done"]


def phases(home: Home, command: str) -> list[str]:
    """What the audit log has of the call."""
    return [one["phase"] for one in records(home.audit) if json.loads(one["args"]) == {"command": command}]


async def test_a_long_command_does_not_push_off_that_it_is_remote(desk: Terminal, lab: Client) -> None:
    call = asks(lab, "echo long" + "\n" * 60 + "echo end")
    screen = await sees(desk, "echo end", APPROVE)
    desk.press("Escape")
    assert "denied" in await text_of(call, is_error=True)
    await sees(desk, EDITOR, lacks=[BOX, APPROVE])
    assert "REMOTE call" in screen
    assert "lab-agent 1.0" in flat(screen)


async def test_many_that_wait_do_not_push_off_the_one_that_is_asked(desk: Terminal, lab: Client) -> None:
    calls = []
    for number in range(8):
        calls.append(asks(lab, f"echo {number} {'x' * 400}"))
        await sees(desk, BOX, f"{number + 1} call")
    screen = await sees(desk, "8 calls")
    for number, call in enumerate(calls):
        await sees(desk, f"Command: echo {number} ", APPROVE)
        desk.press("Escape")
        assert "denied" in await text_of(call, is_error=True)
    await sees(desk, EDITOR, lacks=[BOX, WAITS])
    assert "Command: echo 0" in screen
    assert APPROVE in screen
    assert 'REMOTE call waits for approval: bash {command: "echo 0 ' in flat(screen)


async def test_the_calls_in_flight_are_counted(desk: Terminal, lab: Client) -> None:
    url = desk.served().url
    go = desk.home.work / "go"
    call = asks(lab, "while ! test -e go; do sleep 0.05; done; echo gone")
    await sees(desk, BOX, APPROVE)
    desk.press("Enter")
    screen = await sees(desk, EDITOR, f"A2A {url} · 1 call", lacks=[BOX, WAITS])
    assert screen.rstrip().splitlines()[-1].rstrip() == f"A2A {url} · 1 call"
    assert not call.done()
    go.touch()
    assert (await text_of(call, is_error=False)).startswith("gone\n")
    screen = await sees(desk, f"A2A {url}", lacks=["1 call"])
    assert screen.rstrip().splitlines()[-1].rstrip() == f"A2A {url}"


# Commands.


async def test_the_menu_begins_with_status_and_tab_takes_it(desk: Terminal) -> None:
    served = desk.served()
    desk.type("/a2a ")
    screen = await sees(desk, "❯ status")
    menu = screen[screen.rindex(EDITOR) :].splitlines()[1 : len(COMMANDS) + 1]
    assert menu[0].startswith("❯ status"), "Enter must not do harm by habit"
    assert tuple(row.removeprefix("❯").split()[0] for row in menu) == COMMANDS
    desk.press("Tab")
    await sees(desk, f"{EDITOR} /a2a status", lacks=["❯"])
    desk.press("Enter")
    shown = flat(await sees(desk, "A2A bridge url", "config"))
    assert f"url {served.url}" in shown
    assert f"token {served.token[:6]}…" in shown
    assert served.token not in shown
    assert "host omp " in shown
    assert f"pid {desk.bridge} " in shown
    assert "calls 0 in flight" in shown


async def test_enter_runs_a_command_that_is_typed_in_full(desk: Terminal) -> None:
    """omp's Enter takes the entry of an open menu, and then runs nothing: a menu with nothing to add is closed."""
    try:
        desk.type("/a2a toke")
        await sees(desk, "❯ token")
        desk.type("n")
        await sees(desk, f"{EDITOR} /a2a token", lacks=["❯"])
        desk.press("Enter")
        await sees(desk, f"A2A bridge token: {desk.served().token}", lacks=["/a2a token"])
    finally:
        desk.press("C-u")


async def test_the_token_is_shown_when_asked_for(desk: Terminal) -> None:
    await run(desk, "token")
    await sees(desk, f"A2A bridge token: {desk.served().token}")


async def test_c7_rotate_counts_at_once(desk: Terminal, lab: Client) -> None:
    assert (await lab.message("ping")).status == 200
    await run(desk, "rotate")
    screen = await sees(desk, "A2A bridge: rotated")
    token = desk.served().token
    assert token != lab.token
    assert f"token {token[:6]}… counts at once" in flat(screen)
    assert (await lab.message("ping")).status == 401
    assert (await (await opened(desk)).message("ping")).result == {}


async def test_a_console_shows_the_calls_of_omp(desk: Terminal, lab: Client) -> None:
    """omp asks, the console shows."""
    command = [sys.executable, "-m", "a2a_bridge", "console", "--pid", str(desk.bridge)]
    console = Tmux(command, {**desk.home.env, "TERM": "xterm-256color"}, desk.home.work, 80, 24)
    try:
        await asyncio.to_thread(lambda: console.shows(desk.served().url, "host omp 18.2.3", "? keys"))
        assert (await lab.call("glob", {"path": "*"})).result["isError"] is False
        await asyncio.to_thread(lambda: console.shows("glob * lab-agent", "✓"))
        call = asks(lab, "touch shown")
        await asyncio.to_thread(lambda: console.shows("bash touch shown lab-agent", "1 running", "0 waiting"))
        await sees(desk, BOX, APPROVE)
        await deny(desk)
        assert (await text_of(call, is_error=True)).startswith("Tool call denied by user")
        await asyncio.to_thread(lambda: console.shows("bash touch shown lab-agent", "✗", "0 running"))
    finally:
        console.end(set())


async def test_stop_and_restart(desk: Terminal, lab: Client) -> None:
    served = desk.served()
    await run(desk, "stop")
    await sees(desk, "A2A bridge: stopped", lacks=[f"A2A {served.url}"])
    assert refuses(served.port)
    await asyncio.to_thread(until, lambda: not alive(desk.bridge), "the bridge has ended")
    await run(desk, "restart")
    await sees(desk, "A2A bridge listening on", f"A2A {served.url}")
    assert desk.served() == served
    assert (await (await opened(desk)).message("ping")).result == {}


def refuses(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


# Ends.


async def test_ctrl_z_is_told_to_callers_and_fg_goes_on(desk: Terminal, lab: Client) -> None:
    desk.press("C-z")
    await asyncio.to_thread(until, lambda: state(desk.omp) == "T", "omp is stopped")
    call = asks(lab, "touch stopped")
    assert (await lab.message("ping")).result == {}
    assert not call.done()
    assert (await text_of(call, is_error=True)).startswith("host unavailable: omp does not answer")
    assert (await lab.message("ping")).result == {}
    desk.type("fg")
    desk.press("Enter")
    await sees(desk, EDITOR, "A2A http://", lacks=[BOX])
    # omp draws again before it has answered the ping that it owes.
    await asyncio.to_thread(until, lambda: answers(desk), "the bridge has heard of omp again")
    found = (await lab.call("glob", {"path": "*"})).result
    assert found["isError"] is False, found
    assert BOX not in desk.screen(), "the call that was given up is not asked about"
    assert not (desk.home.work / "stopped").exists()


def answers(desk: Terminal) -> bool:
    return "does not answer" not in json.loads(desk.home.a2a("status", "--json").stdout)["host"]


def state(pid: int) -> str:
    (found,) = [state[0] for one, _, state, _ in processes() if one == pid]
    return found


def types_quit(one: Terminal) -> None:
    one.type("/quit")
    one.shows(f"{EDITOR} /quit")
    one.press("Enter")


def gets(number: signal.Signals) -> Callable[[Terminal], None]:
    return lambda one: os.kill(one.omp, number)


ENDS: dict[str, Callable[[Terminal], None]] = {
    "/quit": types_quit,
    "Ctrl-C twice": lambda one: one.press("C-c", "C-c"),
    "SIGTERM": gets(signal.SIGTERM),
    "SIGHUP": gets(signal.SIGHUP),
    "SIGKILL": gets(signal.SIGKILL),
    "the terminal hangs up": Terminal.hang_up,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_bridge_ends_with_omp(tmp_path: Path, end: Callable[[Terminal], None]) -> None:
    home = Home(tmp_path)
    home.install()
    with terminal(home) as one:
        port = one.served().port
        assert not refuses(port)
        end(one)
        began = time.monotonic()
        took = {name: ended(pid) - began for name, pid in (("omp", one.omp), ("bridge", one.bridge))}
        assert max(took.values()) < 2, took
        assert refuses(port)


def ended(pid: int) -> float:
    """When it has ended."""
    until(lambda: not alive(pid), f"{pid} has ended", 10)
    return time.monotonic()
