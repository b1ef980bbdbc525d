"""What a person types: output, errors and exit codes of the commands, against real bridges."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.control.client_config import Client as Kind
from a2a_bridge.control.client_config import client_entry
from tests.hosts import NAMES
from tests.support.callers import TOKEN
from tests.support.processes import Served, a2a, environment, records, served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def one(home: Path) -> Iterator[Served]:
    with served(home, settings={"token": TOKEN}) as found:
        yield found


def test_status(one: Served, home: Path) -> None:
    shown = a2a(home, "status")
    assert shown.returncode == 0
    assert one.url in shown.stdout
    assert TOKEN not in shown.stdout
    assert f"{TOKEN[:6]}…" in shown.stdout
    found = json.loads(a2a(home, "status", "--json").stdout)
    told = {"url", "port", "pid", "host", "uptime", "sessions", "calls", "audit", "auditFailed", "tokenPrefix"}
    assert told <= set(found)
    assert (found["port"], found["pid"], found["audit"]) == (one.port, one.process.pid, str(one.audit))
    assert found["auditFailed"] == found["calls"] == 0


def test_token_prints_the_token_and_nothing_else(one: Served, home: Path) -> None:
    assert a2a(home, "token").stdout == f"{TOKEN}\n"


def test_the_control_socket_is_for_its_owner_alone(one: Served, home: Path) -> None:
    (path,) = (home / "a2a-bridge").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_tools_and_call(one: Served, home: Path) -> None:
    (home / "note.txt").write_text("one\ntwo\nthree\n")
    listed = a2a(home, "tools")
    assert "read path [offset] [limit]" in listed.stdout
    assert [tool["name"] for tool in json.loads(a2a(home, "tools", "--json").stdout)] == NAMES
    shown = a2a(home, "call", "read", "path=note.txt", "offset=2", "limit=1")
    assert shown.stdout.splitlines() == ["     2\ttwo", "[more lines follow; continue with offset 3]"]
    assert a2a(home, "call", "bash", '--json={"command": "echo $A", "env": {"A": "b"}}').stdout == "b\n\n"
    assert a2a(home, "call", "bash", "command=echo a=b; exit 4", 'env={"X": "y"}').returncode == 1
    failed = a2a(home, "call", "nope")
    assert failed.returncode == 1
    assert "not exposed" in failed.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["call", "read", "note.txt"], 2, "expected KEY=VALUE"),
        (["call", "read", "--json", "[1]"], 2, "expected a JSON object"),
        (["call", "read", "path=x", "--json", "{}"], 2, "not both"),
        (["call"], 2, "Missing argument"),
        (["nope"], 2, "No such command"),
        (["serve", "--port", "99999"], 2, "65535"),
        (["status", "--port", "x"], 2, "not a valid int"),
        (["mcp-json", "--client", "emacs"], 2, "emacs"),
        (["status", "--pid", "1"], 1, "no bridge with pid 1 is running; there is:"),
        (["call", "read", "offset=x"], 1, ""),
        (["audit", "--follow", "--hung"], 2, "give one of them"),
        (["token", "--config", "x", "--pid", "1"], 2, "give one of them"),
        (["call", "read", "path=a\udcff"], 2, "is not UTF-8 text"),
        (["call", "a\udcff"], 2, "is not UTF-8 text"),
        (["call", "read", "--json", '{"path":"a\\ud800"}'], 2, "half a character"),
        (["call", "read", "--json", '{"path"}'], 2, "Expecting ':' delimiter"),
        (["mcp-json", "--name", ""], 2, "expected a name that can be read"),
        (["mcp-json", "--name", "a\udcff"], 2, "expected a name that can be read"),
        (["token", "--config", "~no-such-user/x"], 1, "no such user's home directory"),
    ],
)
def test_errors_are_short_and_have_exit_codes(
    one: Served, home: Path, arguments: list[str], code: int, words: str
) -> None:
    ended = a2a(home, *arguments)
    assert ended.returncode == code, ended
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") <= 2


@pytest.mark.parametrize("command", ["status", "mcp-json", "tools", "call x"])
def test_without_a_bridge_there_is_one_line(tmp_path: Path, command: str) -> None:
    ended = a2a(tmp_path, *command.split())
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "a2a-bridge: no bridge is running for this user; start one with a2a-bridge serve, "
        "or start an omp that has it (a2a-bridge omp status)\n"
    )


def test_token_and_rotate_work_on_the_file_when_no_bridge_runs(tmp_path: Path) -> None:
    missing = a2a(tmp_path, "token")
    assert missing.returncode == 1
    assert "does not exist yet" in missing.stderr
    file = tmp_path / "bridge.json"
    file.write_text(json.dumps({"token": TOKEN, "mine": 1}))
    assert a2a(tmp_path, "token").stdout == f"{TOKEN}\n"
    rotated = a2a(tmp_path, "rotate")
    assert rotated.returncode == 0
    written = json.loads(file.read_text())
    assert written["mine"] == 1
    assert written["token"] != TOKEN
    assert written["token"] not in rotated.stdout
    file.write_text("{")
    assert a2a(tmp_path, "rotate").returncode == 1
    assert file.read_text() == "{"


def test_a5_rotate_counts_at_once_and_is_persisted(tmp_path: Path) -> None:
    import http.client

    with served(tmp_path, settings={"token": TOKEN}) as bridge:
        connection = http.client.HTTPConnection("127.0.0.1", bridge.port)
        body = '{"jsonrpc":"2.0","id":1,"method":"initialize"}'

        def status(token: str) -> int:
            connection.request("POST", "/", body, {"Authorization": f"Bearer {token}"})
            with connection.getresponse() as response:
                response.read()
                return response.status

        assert status(TOKEN) == 200
        kept = connection.sock
        assert a2a(tmp_path, "rotate").returncode == 0
        new = json.loads(bridge.config.read_text())["token"]
        assert status(TOKEN) == 401
        assert status(new) == 200
        assert connection.sock is kept, "all on one connection"
        connection.close()
        bridge.config.unlink()
        bridge.config.mkdir()
        failed = a2a(tmp_path, "rotate")
        assert failed.returncode == 1
        assert "is a directory" in failed.stderr
        assert a2a(tmp_path, "token").stdout == f"{new}\n", "the old one stays valid when the new one cannot be kept"


def test_two_bridges_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    shared = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with (
        served(tmp_path / "a", settings={"token": "a" * 43}, **shared) as first,
        served(tmp_path / "b", settings={"token": "b" * 43}, **shared) as second,
    ):
        unclear = a2a(tmp_path, "token", **shared)
        assert unclear.returncode == 1
        assert "2 bridges are running; say which one:" in unclear.stderr
        for bridge in (first, second):
            assert f"--pid {bridge.process.pid}  {bridge.url}" in unclear.stderr
            assert a2a(tmp_path, "token", "--port", str(bridge.port), **shared).stdout == f"{bridge.token}\n"
            assert a2a(tmp_path, "token", "--pid", str(bridge.process.pid), **shared).stdout == f"{bridge.token}\n"
        second.process.kill()
        second.process.wait()
        assert a2a(tmp_path, "token", **shared).stdout == f"{first.token}\n", "a dead one's socket does not count"
        assert len(list((tmp_path / "a2a-bridge").iterdir())) == 1


def test_rotating_a_file_names_the_bridges_that_keep_their_token(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as bridge:
        told = a2a(tmp_path, "rotate", "--config", str(bridge.config)).stdout
        assert f"note: the bridge with pid {bridge.process.pid} shares this file and keeps its old token" in told


def test_a_bridge_that_is_stopped_is_told(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as bridge:
        bridge.process.send_signal(signal.SIGSTOP)
        ended = a2a(tmp_path, "status")
        bridge.process.send_signal(signal.SIGCONT)
    assert ended.returncode == 1
    assert f"the bridge with pid {bridge.process.pid} does not answer" in ended.stderr


def test_a_control_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a2a-bridge").mkdir(0o755)
    ended = a2a(tmp_path, "status")
    assert ended.returncode == 1
    assert "mode 0700" in ended.stderr
    with served(tmp_path, settings={"token": TOKEN}):
        pass
    assert "commands cannot reach it" in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize(
    ("kind", "key", "entry"),
    [
        (Kind.OMP, "mcpServers", {"type": "http", "timeout": 0}),
        (Kind.CLAUDE_CODE, "mcpServers", {"type": "http"}),
        (Kind.CURSOR, "mcpServers", {}),
        (Kind.VSCODE, "servers", {"type": "http"}),
        (Kind.GENERIC, "mcpServers", {"type": "streamable-http"}),
    ],
)
def test_client_entries(kind: Kind, key: str, entry: dict[str, Any]) -> None:
    common = {"url": "http://127.0.0.1:1/", "headers": {"Authorization": "Bearer t"}}
    assert client_entry(kind, "lab", "http://127.0.0.1:1/", "t") == {key: {"lab": entry | common}}


def test_mcp_json_is_ready_to_paste(one: Served, home: Path) -> None:
    shown = a2a(home, "mcp-json", "--client", "omp", "--name", "lab")
    entry = json.loads(shown.stdout)["mcpServers"]["lab"]
    assert entry == {"type": "http", "url": one.url, "timeout": 0, "headers": {"Authorization": f"Bearer {TOKEN}"}}


def test_audit_pairs_across_both_files(tmp_path: Path) -> None:
    def line(call: str, phase: str, **more: Any) -> str:
        record = {"ts": f"t-{phase}", "id": call, "sid": "session", "phase": phase, "tool": "bash", "args": "{}"}
        return json.dumps(record | more) + "\n"

    old, new = tmp_path / "audit.log.1", tmp_path / "audit.log"
    old.write_text(line("gone", "done", isError=False) + line("one", "start") + line("two", "start") + "not json\n")
    new.write_text(line("one", "done", isError=True) + line("three", "start") + line("three", "done", isError=False))
    shown = a2a(tmp_path, "audit").stdout.splitlines()
    assert [(row.split("call ")[1].split()[0], row.split("  ")[1].strip()) for row in shown] == [
        ("gone", "ok"),
        ("one", "error"),
        ("two", "not settled"),
        ("three", "ok"),
    ]
    hung = a2a(tmp_path, "audit", "--hung").stdout.splitlines()
    assert len(hung) == 1
    assert "call two" in hung[0]


def test_audit_without_a_log_is_empty(tmp_path: Path) -> None:
    ended = a2a(tmp_path, "audit")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr == f"a2a-bridge: {tmp_path}/audit.log does not exist yet; the first call makes it\n"


def test_a_tilde_in_config_expands(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps({"token": TOKEN}))
    assert a2a(tmp_path, "token", "--config=~/mine.json").stdout == f"{TOKEN}\n"


def test_version(tmp_path: Path) -> None:
    assert a2a(tmp_path, "--version").stdout == "0.1.0\n"


def test_audit_follow_shows_calls_as_they_settle_through_a_rotation(tmp_path: Path) -> None:
    with served(tmp_path, settings={"token": TOKEN}) as bridge:
        command = [sys.executable, "-m", "a2a_bridge", "audit", "--follow"]
        a2a(tmp_path, "call", "bash", "command=true before")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as follower:
            assert follower.stdout is not None
            assert "true before" in follower.stdout.readline()
            a2a(tmp_path, "call", "bash", "command=true between")
            assert "true between" in follower.stdout.readline()
            os.replace(bridge.audit, tmp_path / "audit.log.1")
            a2a(tmp_path, "call", "bash", "command=true after")
            assert "true after" in follower.stdout.readline()
            follower.send_signal(signal.SIGINT)
            assert follower.wait(10) == 130
        assert len(records(bridge.audit)) == 2


def test_a_closed_pipe_is_no_traceback(one: Served, home: Path) -> None:
    command = [sys.executable, "-m", "a2a_bridge", "tools", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(home)
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(10) == 1
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_an_interrupted_call_is_cancelled(one: Served, home: Path) -> None:
    command = [sys.executable, "-m", "a2a_bridge", "call", "bash", "command=touch begun; sleep 600"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(home)) as process:
        deadline = time.monotonic() + 30
        while not (home / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    while json.loads(a2a(home, "status", "--json").stdout)["calls"]:
        assert time.monotonic() < deadline
