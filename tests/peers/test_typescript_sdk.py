"""The official TypeScript SDK's client on Node."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import missing
from tests.support.callers import SETTINGS, TOKEN
from tests.support.processes import ROOT, Served, records, scripted

PEERS = ROOT / ".peers"
DRIVER = ROOT / "peers" / "sdk.mjs"


class Node:
    """The driver process: `do` takes one step and gives its outcome."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, step: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": step, **details}) + "\n")
        self._process.stdin.flush()
        outcome = json.loads(self._process.stdout.readline())
        return outcome.get("ok", outcome)


@contextmanager
def node(url: str, token: str = TOKEN) -> Iterator[Node]:
    if shutil.which("node") is None:
        missing("node")
    if not (PEERS / "node_modules" / "@modelcontextprotocol" / "sdk").exists():
        missing("@modelcontextprotocol/sdk under .peers (make test installs it, with npm)")
    env = {**os.environ, "PEERS": str(PEERS)}
    command = ["node", str(DRIVER), url, token]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    with process:
        yield Node(process)
        process.kill()


def test_connect_list_call_and_leave(scripted_process: Served) -> None:
    with node(scripted_process.url) as client:
        assert client.do("connect") == {"name": "omp-a2a-bridge", "version": "0.1.0"}
        names = client.do("list")
        assert "echo" in names
        assert "fail" not in names
        assert client.do("ping") == {}
        assert client.do("call", name="echo", arguments={"text": "über\u2028"}) == {
            "content": [{"type": "text", "text": "über\u2028"}],
            "isError": False,
        }
        assert client.do("call", name="raise", arguments={})["isError"] is True
        unknown = client.do("call", name="no-such-tool", arguments={})
        assert unknown["isError"] is True
        assert unknown["content"][0]["text"] == "tool 'no-such-tool' is not exposed by this bridge"
        assert client.do("call", name="image", arguments={})["content"][0]["mimeType"] == "image/png"
        assert client.do("terminate") is None
        assert "error" in client.do("call", name="echo", arguments={})
        client.do("close")
        assert client.do("connect")["name"] == "omp-a2a-bridge"
        assert client.do("call", name="echo", arguments={"text": "again"})["content"][0]["text"] == "again"


def test_a_wrong_token_is_an_error(scripted_process: Served) -> None:
    with node(scripted_process.url, "wrong") as client:
        assert "error" in client.do("connect")


def test_an_aborted_call_is_cancelled_over_here(scripted_process: Served) -> None:
    with node(scripted_process.url) as client:
        client.do("connect")
        assert "error" in client.do("cancel", name="hang", after=100)
        assert client.do("ping") == {}
    last = [record for record in records(scripted_process.audit) if record["tool"] == "hang"][-1]
    assert last["phase"] == "done"


def test_a_bridge_that_was_restarted_is_reached_again(tmp_path: Path) -> None:
    with scripted(tmp_path, SETTINGS) as first:
        port = first.port
        with node(first.url) as client:
            client.do("connect")
            first.process.terminate()
            first.process.wait(10)
            assert "error" in client.do("call", name="echo", arguments={"text": "x"})
            with scripted(tmp_path, {**SETTINGS, "port": port}):
                assert "error" in client.do("call", name="echo", arguments={"text": "x"}), "the session died"
                client.do("connect")
                assert client.do("call", name="echo", arguments={"text": "y"})["content"][0]["text"] == "y"
