"""The bridge lives as long as omp's session does, says what is wrong with it, and comes back when it falls over."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.omp.conftest import client_of
from tests.omp.test_tools import sleeping, soon, text_of
from tests.support.callers import Client, HttpCaller
from tests.support.omp import Home, Omp, alive, children, omp, until
from tests.support.processes import Served

GONE = "host unavailable: omp has ended"

ENDS: dict[str, Callable[[Omp], None]] = {
    "stdin ends": lambda one: one.process.stdin.close(),  # type: ignore[union-attr]
    "SIGTERM": lambda one: one.process.send_signal(signal.SIGTERM),
    "SIGINT": lambda one: one.process.send_signal(signal.SIGINT),
    "SIGHUP": lambda one: one.process.send_signal(signal.SIGHUP),
    "SIGKILL": lambda one: one.process.send_signal(signal.SIGKILL),
}


async def opened(one: Omp, since: int = 0) -> Client:
    client = client_of(one, since)
    await client.open()
    return client


async def hanging(client: Client, seconds: int) -> "asyncio.Task[Any]":
    """A call that runs; `seconds` tells its process from others."""
    call = asyncio.create_task(client.call("bash", {"command": f"env sleep {seconds}"}))
    await soon(lambda: sleeping(seconds), call)
    return call


@pytest.mark.parametrize("end", ENDS)
async def test_the_bridge_ends_with_omp_and_answers_first(home: Home, end: str) -> None:
    with omp(home) as one:
        client = await opened(one)
        call, bridge = await hanging(client, 310), one.bridge_pid()
        began = time.monotonic()
        ENDS[end](one)
        assert (await call).result == {"content": [{"type": "text", "text": GONE}], "isError": True}
        await soon(lambda: not alive(bridge))
        assert time.monotonic() - began < 2
        one.process.wait(10)
    until(lambda: not sleeping(310) or end == "SIGKILL", "omp ends its own commands")
    for process in sleeping(310):
        os.kill(process, signal.SIGKILL)  # SIGKILL leaves omp no time; they are its children, not ours


async def test_a_bridge_that_is_killed_comes_back_where_it_was(home: Home) -> None:
    with omp(home) as one:
        client = await opened(one)
        call, bridge = await hanging(client, 311), one.bridge_pid()
        os.kill(bridge, signal.SIGKILL)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await call
        await soon(lambda: not sleeping(311))  # nothing runs for nobody
        said = await asyncio.to_thread(one.notice, "is started again in", "warning")
        assert "SIGKILL" in said
        again = await opened(one, since=2)
        assert again.caller.served.port == client.caller.served.port  # type: ignore[attr-defined]
        assert again.token == client.token
        assert (await text_of(again, "bash", command="echo here")).startswith("here\n")
        assert children(one.process.pid, "a2a_bridge") == [one.bridge_pid()]


async def test_a_bridge_that_is_ended_from_outside_stays_away(home: Home) -> None:
    with omp(home) as one:
        await opened(one)
        os.kill(one.bridge_pid(), signal.SIGTERM)
        await asyncio.to_thread(one.notice, "it was ended from outside; /a2a restart starts it again", "warning")
        one.command("/a2a")
        await asyncio.to_thread(one.notice, "not running: it was ended from outside", "error")
        one.command("/a2a restart")
        await opened(one, since=3)


async def test_an_omp_that_is_stopped_is_given_up_and_found_again(home: Home) -> None:
    with omp(home) as one:
        client = await opened(one)
        call = await hanging(client, 312)
        one.process.send_signal(signal.SIGSTOP)
        assert (await client.message("ping")).result == {}
        words = (await call).result["content"][0]["text"]
        assert words.startswith("host unavailable: omp does not answer; it may be stopped (Ctrl-Z)")
        assert await text_of(client, "bash", is_error=True, command=f"touch {home.work}/ran") == words
        assert (await client.message("tools/list", message_id=1)).error == (200, -32000, words, 1)
        assert "(does not answer)" in json.loads(home.a2a("status", "--json").stdout)["host"]
        one.process.send_signal(signal.SIGCONT)
        await soon(lambda: not sleeping(312))  # its cancel has waited in the pipe
        await until_answered(client)
        assert not (home.work / "ran").exists()


async def until_answered(client: Client) -> None:
    async with asyncio.timeout(30):
        while (await client.call("bash", {"command": "echo back"})).result["isError"]:
            await asyncio.sleep(0.05)


async def test_a_call_that_an_omp_never_saw_is_not_run_when_it_goes_on(home: Home) -> None:
    with omp(home) as one:
        client = await opened(one)
        one.process.send_signal(signal.SIGSTOP)
        command = f"echo ran >> {home.work}/ran"
        assert await text_of(client, "bash", is_error=True, command=command)
        one.process.send_signal(signal.SIGCONT)
        await until_answered(client)
        assert not (home.work / "ran").exists(), "its caller was told that it failed"


# What is wrong is said once, with what to do.


async def test_c3_a_malformed_file_is_told_once(home: Home) -> None:
    home.bridge(port="many", token="")
    with omp(home) as one:
        said = await asyncio.to_thread(one.notice, "field port", "error")
        assert str(home.config) in said
        assert "expected a whole number" in said
        await soon(lambda: not children(one.process.pid, "a2a_bridge"))
        one.command("/a2a")
        await asyncio.to_thread(one.notice, "not running", "error")
        assert len([words for _, words in one.notices() if "field port" in words and "not running" not in words]) == 1
        home.bridge(token="")
        one.command("/a2a restart")
        await opened(one)
        assert len(json.loads(home.config.read_text())["token"]) == 43


async def test_c4_warnings_are_omps_warnings(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        home.bridge(port=port, host="0.0.0.0", token="", Deny=[])
        with omp(home) as one:
            await asyncio.to_thread(one.notice, f"port {port} is taken; listening on port", "warning")
            await asyncio.to_thread(one.notice, "is not loopback", "warning")
            await asyncio.to_thread(one.notice, "did you mean deny?", "warning")


# What is typed behind /a2a.


async def typed(one: Omp, line: str, level: str, words: str = "") -> str:
    before = len(one.notices())
    one.command(line)
    said = await asyncio.to_thread(one.notice, words, None, before)
    assert one.notices()[before] == (level, said)
    return said


async def test_commands(home: Home) -> None:
    with omp(home) as one:
        client = await opened(one)
        served = one.served()
        for line in ("/a2a", "/a2a status", "/a2a  status "):
            said = await typed(one, line, "info")
            assert f"url       {served.url}" in said
            assert f"token     {served.token[:6]}…" in said
            assert "host      omp 18." in said
            assert served.token not in said
        assert await typed(one, "/a2a token", "info") == f"A2A bridge token: {served.token}"
        assert "there is status, token, restart, rotate, stop" in await typed(one, "/a2a nonsense", "error")
        await rotated(one, client, served)
        assert "stopped" in await typed(one, "/a2a stop", "info")
        with pytest.raises(OSError):
            await client.message("ping")
        assert one.status_line() is None
        assert "not running: it was stopped" in await typed(one, "/a2a token", "error")
        before = len(one.notices())
        one.command("/a2a restart")
        again = await opened(one, since=before)
        assert again.caller.served.port == served.port  # type: ignore[attr-defined]


async def rotated(one: Omp, client: Client, served: Served) -> None:
    """A5: the old token fails at once, on an open connection too; the new one counts and is in the file."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as kept:
        assert (await kept.delete(served.url)).status_code == 204
        said = await typed(one, "/a2a rotate", "info")
        assert (await kept.delete(served.url)).status_code == 401
    fresh = json.loads(one.home.config.read_text())["token"]
    assert fresh != served.token
    assert f"rotated; token {fresh[:6]}…" in said
    assert fresh not in said
    client.token = fresh
    assert (await client.message("ping")).result == {}, "sessions survive"


async def test_the_command_is_offered(home: Home) -> None:
    with omp(home) as one:

        def offered() -> list[str]:
            updates = [line["commands"] for line in one.lines if line["type"] == "available_commands_update"]
            return [command["description"] for update in updates for command in update if command["name"] == "a2a"]

        await soon(offered)
        assert set(offered()) == {"The A2A bridge: status, token, restart, rotate, stop"}


async def test_two_omps_have_a_bridge_each(home: Home) -> None:
    """One file of settings, one terminal each: the second finds the port taken and says so."""
    with omp(home) as one, omp(home) as two:
        first, second = await opened(one), await opened(two)
        ports = {one.served().port, two.served().port}
        assert len(ports) == 2
        for client in (first, second):
            assert (await client.message("ping")).result == {}
        listed = home.a2a("status").stderr
        assert all(f"http://127.0.0.1:{port}/" in listed for port in ports)


async def test_control_commands_reach_it(home: Home) -> None:
    with omp(home) as one:
        served = one.served()
        status = json.loads(home.a2a("status", "--json").stdout)
        assert status["url"] == served.url
        assert status["host"].startswith("omp 18.")
        entry = json.loads(home.a2a("mcp-json", "--client", "omp").stdout)["mcpServers"]["a2a"]
        assert entry == {
            "type": "http",
            "url": served.url,
            "timeout": 0,
            "headers": {"Authorization": f"Bearer {served.token}"},
        }
        assert "A2A" in str(one.status_line())
        caller = HttpCaller(served)
        assert (await caller.send("GET", {})).status == 405
