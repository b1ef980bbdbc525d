"""The server process: its address (C4), its start, and every way in which it can end."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from a2a_bridge.errors import StartError
from a2a_bridge.http.listener import listen
from tests.hosts import NAMES, alive
from tests.support.callers import SETTINGS, TOKEN, Client, HttpCaller, read_reply, request
from tests.support.processes import Served, a2a, environment, records, scripted, served


def until(holds: Callable[[], bool]) -> None:
    """Wait for another process to have done its part; 30 s means never."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_c4_a_taken_port_gives_a_free_one_and_a_warning() -> None:
    first = listen("127.0.0.1", 0)
    second = listen("127.0.0.1", first.port)
    assert second.port != first.port
    (warning,) = second.warnings
    assert f"port {first.port} is taken" in warning
    assert str(second.port) in warning
    first.socket.close()
    second.socket.close()


@pytest.mark.parametrize(
    ("host", "url", "client_url", "warns"),
    [
        ("127.0.0.1", "http://127.0.0.1:{}/", "http://127.0.0.1:{}/", False),
        ("localhost", "http://localhost:{}/", "http://localhost:{}/", False),
        ("::1", "http://[::1]:{}/", "http://[::1]:{}/", False),
        ("0.0.0.0", "http://0.0.0.0:{}/", "http://127.0.0.1:{}/", True),
        ("::", "http://[::]:{}/", "http://[::1]:{}/", True),
    ],
)
def test_c4_hosts(host: str, url: str, client_url: str, warns: bool) -> None:
    listener = listen(host, 0)
    try:
        assert listener.url == url.format(listener.port)
        assert listener.client_url == client_url.format(listener.port)
        assert bool(listener.warnings) is warns
        assert not warns or "not loopback" in listener.warnings[0]
        with socket.create_connection((client_url.split("//")[1].rsplit(":", 1)[0].strip("[]"), listener.port), 5):
            pass
    finally:
        listener.socket.close()


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "192.0.2.1", "a" * 300, "::zz"])
def test_c4_a_host_that_is_not_of_this_machine_stops_the_start(host: str) -> None:
    with pytest.raises(StartError, match=r"(host|listen)"):
        listen(host, 0)


def test_serve_says_where_and_logs_a_line_a_call(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        (tmp_path / "f").write_text("x\n")
        a2a(tmp_path, "call", "read", "path=f")
        a2a(tmp_path, "call", "read", "path=missing")
        one.process.terminate()
        assert one.process.wait(10) == 0
        out = one.process.stdout.read()
    good, bad = out.splitlines()
    assert "read" in good
    assert "  read  f  a2a-bridge " in good
    assert good.endswith("✓")
    assert bad.endswith("✗")
    assert TOKEN not in out


def test_serve_announces_its_prefix_only(tmp_path: Path) -> None:
    file = tmp_path / "bridge.json"
    file.write_text(json.dumps({"token": TOKEN}))
    process = subprocess.Popen(
        [sys.executable, "-m", "a2a_bridge", "serve", "--plain"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert line.startswith("A2A bridge listening on http://127.0.0.1:")
    assert line.endswith(f"/ (token {TOKEN[:6]}…)\n")


def test_serve_says_where_on_a_terminal_of_another_encoding(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}, PYTHONIOENCODING="latin-1") as one:
        assert one.url.startswith("http://")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_serve_without_standard_streams(tmp_path: Path, closed: str) -> None:
    """As some supervisors start a service: what is opened first must not become its stdout."""
    env = environment(tmp_path)
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "a2a_bridge", "serve", "--plain"]
    with subprocess.Popen(command, env=env, cwd=tmp_path) as process:
        until((tmp_path / "a2a-bridge" / f"{process.pid}.sock").exists)
        answer = a2a(tmp_path, "call", "bash", "command=echo fine")
        process.terminate()
        assert process.wait(20) == 0
    assert answer.stdout.strip() == "fine"


def test_serve_warns_on_stderr(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with served(tmp_path, "--port", str(port), settings={"token": TOKEN, "Deny": []}) as one:
            assert one.port != port
    err = (tmp_path / "stderr").read_text()
    assert f"[a2a-bridge] warning: port {port} is taken; listening on port {one.port} instead" in err
    assert "did you mean deny?" in err


def test_flags_add_to_the_file(tmp_path: Path) -> None:
    with served(tmp_path, "--deny", "bash", "--host", "localhost", settings={"token": TOKEN, "deny": ["other"]}) as one:
        assert one.url.startswith("http://localhost:")
        listed = [line.split()[0] for line in a2a(tmp_path, "tools").stdout.splitlines() if line[0] != " "]
        assert listed == [name for name in NAMES if name != "bash"]


def test_a_denied_name_that_the_host_does_not_have_is_told(tmp_path: Path) -> None:
    with served(tmp_path, "--deny", "bsah", settings={"token": TOKEN, "deny": ["read", "mcp__late"]}):
        pass
    warnings = (tmp_path / "stderr").read_text()
    assert warnings == f"[a2a-bridge] warning: deny: this host has no tool 'bsah'; it has {', '.join(NAMES)}\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "is not JSON"), ('{"port": "x"}', 'field port is "x"; expected a whole number from 0 to 65535')],
)
def test_c3_a_bad_file_stops_the_start_with_one_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bridge.json").write_text(content)
    ended = a2a(tmp_path, "serve", "--plain")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert words in ended.stderr
    assert ended.stderr.startswith(f"a2a-bridge: {tmp_path}/bridge.json")
    assert ended.stderr.count("\n") == 1


def test_a_directory_that_is_none_stops_the_start(tmp_path: Path) -> None:
    ended = a2a(tmp_path, "serve", "--plain", "--cwd", "/no/such/place")
    assert ended.returncode == 1
    assert "/no/such/place is not a directory" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_its_commands(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        a2a(tmp_path, "call", "bash", "command=(sleep 600 & echo $! > pid); echo started")
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        one.process.send_signal(number)
        assert one.process.wait(10) == 0
        until(lambda: not alive(pid))
    assert not list((tmp_path / "a2a-bridge").iterdir()), "the socket is gone"
    assert (tmp_path / "stderr").read_text() == ""


async def test_shutdown_answers_the_calls_in_flight_and_closes_the_door_at_once(tmp_path: Path) -> None:
    with scripted(tmp_path, SETTINGS, grace=2.0) as one:
        client = Client(HttpCaller(one))
        await client.open()
        hanging = [asyncio.create_task(client.call("hang", message_id=number)) for number in range(10)]
        async with asyncio.timeout(30):
            while len(records(one.audit)) < 10:
                await asyncio.sleep(0.01)
            one.process.send_signal(signal.SIGTERM)
            while not await refused(one.port):
                await asyncio.sleep(0.005)
            assert not any(call.done() for call in hanging), "the listener closes before the grace is over"
            for reply in await asyncio.gather(*hanging):
                assert reply.status == 200
                assert reply.result["isError"] is True
                assert reply.result["content"][0]["text"] == "cancelled: the bridge is shutting down"
        assert one.process.wait(10) == 0
    found = records(one.audit)
    assert len([record for record in found if record["phase"] == "done"]) == 10


async def refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def test_shutdown_lets_a_call_finish_within_its_grace(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        client = Client(HttpCaller(one))
        await client.open()
        command = "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo finished"
        call = asyncio.create_task(client.call("bash", {"command": command}))
        async with asyncio.timeout(30):
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
            one.process.send_signal(signal.SIGTERM)
            while not await refused(one.port):
                await asyncio.sleep(0.005)
            (tmp_path / "go").touch()
            assert (await call).result == {"content": [{"type": "text", "text": "finished\n"}], "isError": False}
        assert one.process.wait(10) == 0


async def test_a_connection_that_is_kept_alive_does_not_delay_the_end(tmp_path: Path) -> None:
    with scripted(tmp_path, SETTINGS) as one:
        caller = HttpCaller(one)
        client = Client(caller)
        await client.open()
        async with caller.connection() as (reader, writer):
            writer.write(request("POST", client.headers(), b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
            await read_reply(reader)
            began = time.monotonic()
            one.process.send_signal(signal.SIGTERM)
            one.process.wait(10)
            assert time.monotonic() - began < 5
            assert await reader.read() == b""


async def test_a_second_signal_ends_at_once_and_leaves_no_command(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        client = Client(HttpCaller(one))
        await client.open()
        call = asyncio.create_task(client.call("bash", {"command": "echo $$ > pid; sleep 600"}))
        async with asyncio.timeout(30):
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await asyncio.sleep(0.01)
        one.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            while not await refused(one.port):
                await asyncio.sleep(0.005)
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(3) == 128 + signal.SIGTERM
        pid = int((tmp_path / "pid").read_text())
        until(lambda: not alive(pid))
        await asyncio.wait([call])
        assert call.exception() is not None


async def test_kill_9_during_50_calls_loses_no_start_and_tears_no_line(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        client = Client(HttpCaller(one))
        await client.open()
        command = "echo $$ > ran.$$; mv ran.$$ pid.$$; sleep 600"
        calls = [asyncio.create_task(client.call("bash", {"command": command}, n)) for n in range(50)]
        async with asyncio.timeout(60):
            while len(list(tmp_path.glob("pid.*"))) < 25:
                await asyncio.sleep(0.001)
        one.process.kill()
        one.process.wait()
        await asyncio.wait(calls)
    ran = [int(file.read_text()) for file in tmp_path.glob("pid.*")]
    found = records(one.audit)  # raises for a torn line
    assert len(ran) >= 25
    assert len([record for record in found if record["phase"] == "start"]) >= len(ran)
    until(lambda: not any(alive(pid) for pid in ran))
    shown = a2a(tmp_path, "audit", "--hung")
    assert shown.stdout.count("not settled") == len(found)
    with served(tmp_path) as again:
        assert again.token == TOKEN
        assert a2a(tmp_path, "call", "bash", "command=echo back").stdout == "back\n\n"


async def test_on_disconnect_continue_lets_the_call_run_on(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN, "onDisconnect": "continue"}) as one:
        caller = HttpCaller(one)
        client = Client(caller)
        await client.open()
        command = "touch begun; while [ ! -e go ]; do sleep 0.01; done; touch finished"
        params = {"name": "bash", "arguments": {"command": command}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        async with caller.connection() as (_, writer):
            writer.write(request("POST", client.headers(), body))
            async with asyncio.timeout(30):
                while not (tmp_path / "begun").exists():
                    await asyncio.sleep(0.01)
        assert (await client.message("ping")).result == {}
        (tmp_path / "go").touch()
        until(lambda: len(records(one.audit)) == 2)
        assert (tmp_path / "finished").exists()
        assert records(one.audit)[1]["isError"] is False


def test_a_maximum_for_commands(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN, "maxCommandSeconds": 0.5}):
        assert "[timed out after 0.5 s" in a2a(tmp_path, "call", "bash", "command=sleep 600").stdout
        refused = a2a(tmp_path, "call", "bash", "command=true", "timeout=1")
        assert "timeout 1 is over this host's maximum of 0.5 s" in refused.stdout


def test_status_counts_the_jobs(tmp_path: Path) -> None:
    """Which belong to the bridge: each of these commands is a session of its own."""
    with served(tmp_path, settings={"token": TOKEN}):
        assert "in the background" not in a2a(tmp_path, "status").stdout
        started = a2a(tmp_path, "call", "bash", "command=echo on; sleep 600", "background=true")
        assert started.stdout == "job 1 runs; ask the tool job for it with id 1\n"
        assert "(1 job in the background)" in a2a(tmp_path, "status").stdout
        assert "killed, after" in a2a(tmp_path, "call", "job", "action=kill", "id=1").stdout
        assert "in the background" not in a2a(tmp_path, "status").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="left out: memory is told by /proc here")
async def test_memory_goes_back_after_large_edits(tmp_path: Path) -> None:
    """Many at once, each in a thread of its own, for which a C library likes to keep what it once took."""
    names = [f"file-{number}" for number in range(8)]
    for name in names:
        (tmp_path / name).write_text("some words in a line\n" * 1_000_000 + "the last line")
    with served(tmp_path, settings={"token": TOKEN}) as one:
        clients = [Client(HttpCaller(one)) for _ in names]
        for client in clients:
            await client.open()
        edits = [{"old": "the last", "new": "the very last"}]
        calls = (
            client.call("edit", {"path": name, "edits": edits}) for client, name in zip(clients, names, strict=True)
        )
        assert [answer.result["isError"] for answer in await asyncio.gather(*calls)] == [False] * len(names)
        (held,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{one.process.pid}/status").read_text())
        assert int(held) < 100_000


async def test_a_caller_that_hangs_up_ends_its_command(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as one:
        caller: HttpCaller = HttpCaller(one)
        client = Client(caller)
        await client.open()
        params = {"name": "bash", "arguments": {"command": "echo $$ > part; mv part pid; sleep 600"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        async with caller.connection() as (_, writer):
            writer.write(request("POST", client.headers(), body))
            async with asyncio.timeout(30):
                while not (tmp_path / "pid").exists():
                    await asyncio.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
        until(lambda: not alive(pid))
        until(lambda: len(records(one.audit)) == 2)
        assert isinstance(one, Served)


# Approvals.


async def test_a_question_is_a_line_with_the_commands_that_answer_it(tmp_path: Path) -> None:
    with served(tmp_path, "--approval-mode", "always-ask", settings={"token": TOKEN}) as one:
        client = Client(HttpCaller(one))
        await client.open(name="lab", version="1")
        call = asyncio.create_task(client.call("bash", {"command": "echo\thi"}))
        assert one.process.stdout is not None
        line = await asyncio.to_thread(one.process.stdout.readline)
        assert line.rstrip().endswith("  WAITING  bash  echo hi  lab 1  a2a-bridge approve 1  or  a2a-bridge deny 1")
        assert a2a(tmp_path, "approve", "1").returncode == 0
        assert (await call).result["content"][0]["text"] == "hi\n"


@pytest.mark.parametrize(("mode", "asked"), [("yolo", 0), ("write", 1), ("always-ask", 1)])
async def test_the_flag_wins_over_the_configured_mode(tmp_path: Path, mode: str, asked: int) -> None:
    configured = "always-ask" if mode == "yolo" else "yolo"
    settings = {"token": TOKEN, "tools": {"approvalMode": configured}}
    with served(tmp_path, "--approval-mode", mode, settings=settings) as one:
        client = Client(HttpCaller(one))
        await client.open()
        call = asyncio.create_task(client.call("bash", {"command": "echo hi"}))
        if asked:
            assert one.process.stdout is not None
            assert "WAITING" in await asyncio.to_thread(one.process.stdout.readline)
            assert a2a(tmp_path, "deny", "1").returncode == 0
        assert (await call).result["isError"] is bool(asked)


def test_a_rule_for_a_tool_that_is_not_there_is_told(tmp_path: Path) -> None:
    rules = {"bsah": "deny", "bash(rm*)": "deny", "mcp__x_*": "deny", "mcp__y": "deny", "read": "allow"}
    with served(tmp_path, settings={"token": TOKEN, "tools": {"approval": rules}}):
        pass
    warnings = [line for line in (tmp_path / "stderr").read_text().splitlines() if "warning" in line]
    assert [line.partition("; it has")[0] for line in warnings] == [
        "[a2a-bridge] warning: tools.approval: this host has no tool 'bsah'"
    ]
