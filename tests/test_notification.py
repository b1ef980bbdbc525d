"""The command that tells an owner who looks elsewhere: how it is run, how often, and what is said when it cannot be."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_bridge.control import messages
from a2a_bridge.control.notification import Notification
from tests.hosts import pids, soon
from tests.support.asking import ALWAYS_ASK, answer, ask, lent, question
from tests.support.callers import Client, HttpCaller
from tests.support.processes import Served, served

# Writes its arguments down, then waits until it may end.
NOTIFIER = """
import json, os, sys, time
with open(sys.argv[1] + "/told", "a") as told:
    told.write(json.dumps(sys.argv[2:]) + "\\n")
while os.path.exists(sys.argv[1] + "/wait"):
    time.sleep(0.005)
"""


class Desk:
    """Where the notifier puts what it was told."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.command = [sys.executable, "-IS", "-c", NOTIFIER, str(home), "--title"]
        self.reports: list[str] = []

    def notification(self) -> Notification:
        return Notification(self.command, self.reports.append)

    def hold(self) -> None:
        (self.home / "wait").touch()

    def release(self) -> None:
        (self.home / "wait").unlink(missing_ok=True)

    @property
    def told(self) -> list[list[str]]:
        file = self.home / "told"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def hears(self, count: int) -> list[str]:
        """The last argument of each run, as soon as there are so many."""
        await soon(lambda: len(self.told) >= count, f"{count} notifications")
        assert all(len(arguments) == 2 and arguments[0] == "--title" for arguments in self.told)
        return [arguments[-1] for arguments in self.told]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path)
    yield one
    one.release()


@pytest.mark.parametrize(
    "text", ["$(touch x) `id` ; rm -rf / | & > f * ~ \"'", "-u critical", "a\nb\x1b[2J", "ü \u202e 😀"]
)
async def test_the_text_is_the_last_argument_as_it_is_and_no_shell_reads_it(desk: Desk, text: str) -> None:
    desk.notification().tell(text)
    assert await desk.hears(1) == [text]
    assert desk.reports == []


async def test_what_comes_while_it_runs_is_told_as_one_with_its_number(desk: Desk) -> None:
    desk.hold()
    notification = desk.notification()
    notification.tell("first")
    await desk.hears(1)
    for number in range(1000):
        notification.tell(f"call {number}")
    desk.release()
    assert await desk.hears(2) == ["first", "call 999 (and 999 more)"]
    notification.tell("last")
    assert (await desk.hears(3))[2] == "last"


async def test_without_a_command_nothing_is_done() -> None:
    reports: list[str] = []
    Notification([], reports.append).tell("x")
    assert len(asyncio.all_tasks()) == 1
    assert reports == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-notifier"], "notifyCommand no-such-notifier: it cannot be run: No such file or directory"),
        (["/"], "notifyCommand /: it cannot be run: Permission denied"),
        (["false"], "notifyCommand false: it ended with exit code 1"),
    ],
)
async def test_what_goes_wrong_is_reported_once(command: list[str], words: str) -> None:
    reports: list[str] = []
    notification = Notification(command, reports.append)
    for _ in range(3):
        notification.tell("x")
        await soon(lambda: len(asyncio.all_tasks()) == 1, "it has run")
    assert reports == [words]


async def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_bridge.control.notification.MOST_SECONDS", 0.05)
    reports: list[str] = []
    notification = Notification([sys.executable, "-IS", "-c", "import time; time.sleep(600)"], reports.append)
    notification.tell("x")
    await soon(lambda: len(asyncio.all_tasks()) == 1, "it has ended")
    assert reports == [f"notifyCommand {sys.executable}: it did not end within 0.05 s and was killed"]


async def test_a_question_is_told_with_the_command_that_answers_it(desk: Desk) -> None:
    async with lent(desk.home, notifyCommand=desk.command) as one:
        caller = Client(HttpCaller(Served(one.live.url, ALWAYS_ASK["token"], desk.home, None)))  # type: ignore[arg-type]
        await caller.open(name="claude-code", version="3.4.1")
        call = asyncio.create_task(caller.call("echo", {"text": "$(touch x)\x1b[2J\u202e"}))
        (told,) = await desk.hears(1)
        assert told.startswith("echo: {")
        assert "$(touch x)" in told
        assert told.isprintable()
        assert told.endswith(" (asked by claude-code 3.4.1; a2a-bridge approve 1)")
        one.order(messages.DENY, id=1)
        await answer(call)
        assert not (desk.home / "x").exists()


async def test_nobody_is_told_while_a_console_is_attached(desk: Desk) -> None:
    with served(desk.home, settings=ALWAYS_ASK | {"notifyCommand": desk.command}) as one:
        client = Client(HttpCaller(one))
        await client.open()
        ask(one, messages.OVERVIEW, attached=True)
        unheard = asyncio.create_task(client.call("bash", {"command": "echo 1"}))
        ask(one, messages.DENY, id=(await question(one))["id"])
        await answer(unheard)
        assert desk.told == []
    assert desk.told == []


async def test_who_only_asks_for_an_overview_is_no_console(desk: Desk) -> None:
    with served(desk.home, settings=ALWAYS_ASK | {"notifyCommand": desk.command}) as one:
        client = Client(HttpCaller(one))
        await client.open()
        ask(one, messages.OVERVIEW)
        call = asyncio.create_task(client.call("bash", {"command": "echo 1"}))
        await desk.hears(1)
        ask(one, messages.DENY, id=1)
        await answer(call)


async def test_a_notifier_that_hangs_does_not_keep_the_bridge_from_ending(desk: Desk) -> None:
    settings = ALWAYS_ASK | {"notifyCommand": ["sh", "-c", "echo $$ > notifier; exec sleep 600"]}
    with served(desk.home, settings=settings) as one:
        client = Client(HttpCaller(one))
        await client.open()
        call = asyncio.create_task(client.call("bash", {"command": "echo 1"}))
        await soon(lambda: bool(pids(desk.home / "notifier")), "the notifier runs")
        one.process.terminate()
        assert one.process.wait(10) == 0
        assert (await answer(call)).result["isError"] is True
    for pid in pids(desk.home / "notifier"):
        os.kill(pid, 9)
