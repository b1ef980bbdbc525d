"""What can go wrong between the console and a bridge, and that nobody waits for it."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from a2a_bridge.console import app
from a2a_bridge.console.connection import BridgeEnded, asked, in_thread
from a2a_bridge.control import client, messages
from a2a_bridge.errors import ControlError
from tests.console.fake import FakeBridge
from tests.console.person import at_console


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BridgeEnded, match="the bridge has ended"):
        asked(tmp_path / "1.sock", messages.STATUS, None, messages.Status)


async def test_a_socket_that_nobody_listens_on(bridge: FakeBridge) -> None:
    path = bridge.path.with_name("2.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(BridgeEnded):
        asked(path, messages.STATUS, None, messages.Status)


def test_a_path_that_cannot_be_asked() -> None:
    with pytest.raises(ControlError, match="cannot be asked") as caught:
        asked(Path("/" + "x" * 200), messages.STATUS, None, messages.Status)
    assert not isinstance(caught.value, BridgeEnded)


async def test_an_answer_of_another_version(bridge: FakeBridge) -> None:
    with pytest.raises(ControlError, match="of another version: token"):
        await in_thread(lambda: asked(bridge.path, messages.TOKEN, None, messages.Status))


async def test_an_answer_that_is_no_json(bridge: FakeBridge) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"result":"\\ud800"}\n')
        writer.close()

    path = bridge.path.with_name("3.sock")
    async with await asyncio.start_unix_server(serve, str(path)):
        with pytest.raises(ControlError, match="cannot be read: token"):
            await in_thread(lambda: asked(path, messages.TOKEN, None, str))


async def test_a_refusal_in_the_bridges_words(bridge: FakeBridge) -> None:
    bridge.refuse[messages.TOKEN] = "not today"
    with pytest.raises(ControlError, match="not today"):
        await in_thread(lambda: asked(bridge.path, messages.TOKEN, None, str))


async def test_a_fault_of_ours_is_raised_where_it_was_asked_for() -> None:
    def fault() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await in_thread(fault)


def test_a_thread_that_still_waits_keeps_no_loop_from_ending() -> None:
    async def leave() -> None:
        waiting = asyncio.ensure_future(in_thread(lambda: time.sleep(0.3)))
        await asyncio.sleep(0.01)
        waiting.cancel()

    began = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - began < 0.25
    time.sleep(0.4)  # the thread ends with nobody to tell; a fault in it would be a warning, and an error here


async def test_a_bridge_that_does_not_answer_is_said_and_asked_again(
    bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.6)
    monkeypatch.setattr(app, "SLOW_SECONDS", 0.1)
    async with at_console(bridge) as person:
        bridge.silent = True
        await person.sees("✗ the bridge does not answer")
        await person.sees("✗ the bridge with pid 4711 does not answer")
        await person.press("p")
        await person.sees("(SIGSTOP) or hung")
        bridge.silent = False
        await person.sees("audit ok", lacks=["✗"])
        assert bridge.most_at_once == 1


async def test_leaving_does_not_wait_for_a_bridge_that_does_not_answer(
    bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 3.0)
    monkeypatch.setattr(app, "SLOW_SECONDS", 0.1)
    async with at_console(bridge) as person:
        bridge.silent = True
        await person.sees("✗ the bridge does not answer")
        began = time.monotonic()
        await person.press("q")
    assert time.monotonic() - began < 2.5


async def test_a_console_that_comes_to_no_bridge_says_so(bridge: FakeBridge) -> None:
    await bridge.stop()
    console = app.Console(bridge.path, owns=True)
    async with console.run_test() as pilot:
        while "ended" not in "\n".join(strip.text for strip in console.screen._compositor.render_strips()):
            await asyncio.sleep(0.01)
        for key in ("j", "enter", "x", "q"):
            await pilot.press(key)
    assert console.return_value is False


def test_run_tells_whether_to_stop_the_bridge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[bool] = []

    def ran(self: app.Console, mouse: bool) -> bool | None:
        given.append(mouse)
        return answers.pop()

    answers: list[bool | None] = [True, False, None]
    monkeypatch.setattr(app.Console, "run", ran)
    assert [app.run(tmp_path, True) for _ in range(3)] == [False, False, True]
    assert given == [False] * 3
