"""Bridges in a row: an omp borrows from another through its own MCP client, and lends on what it borrowed."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path

import pytest

from tests.omp.conftest import client_of
from tests.omp.test_tools import sleeping, soon, text_of
from tests.support.callers import SETTINGS, TOKEN, Client
from tests.support.omp import Home, Omp, omp
from tests.support.processes import records, scripted


def borrows(home: Home, name: str, url: str, token: str) -> None:
    """As `a2a-bridge mcp-json --client omp` has it."""
    headers = {"Authorization": f"Bearer {token}"}
    entry = {"type": "http", "url": url, "timeout": 0, "headers": headers}
    (home.agent / "mcp.json").write_text(json.dumps({"mcpServers": {name: entry}}))


async def names(client: Client) -> set[str]:
    return {tool["name"] for tool in (await client.message("tools/list")).result["tools"]}


async def opened(one: Omp) -> Client:
    client = client_of(one)
    await client.open()
    return client


async def connected(one: Omp, tool: str) -> Client:
    """Once omp's MCP client has connected; its tools come late."""
    client = await opened(one)
    async with asyncio.timeout(30):
        while tool not in one.drive(do="tools"):
            await asyncio.sleep(0.05)
    return client


@pytest.mark.parametrize("denied", [False, True])
async def test_m3_deny_mcp_tools(tmp_path: Path, denied: bool) -> None:
    home, far = Home(tmp_path / "near"), tmp_path / "far"
    far.mkdir()
    home.install()
    home.bridge(token=TOKEN, denyMCPTools=denied)
    with scripted(far, SETTINGS) as server:
        borrows(home, "far", server.url, TOKEN)
        with omp(home) as one:
            client = await connected(one, "mcp__far_echo")
            found = {name for name in await names(client) if name.startswith("mcp__")}
            if denied:
                assert found == set()
                said = await text_of(client, "mcp__far_echo", is_error=True, text="x")
                assert said == "tool 'mcp__far_echo' is not exposed by this bridge"
            else:
                assert "mcp__far_echo" in found
                assert await text_of(client, "mcp__far_echo", text="through two bridges") == "through two bridges"


async def test_a_call_in_one_omp_reads_a_file_in_another(tmp_path: Path) -> None:
    near, far = Home(tmp_path / "near"), Home(tmp_path / "far")
    for home in (near, far):
        home.install()
    (far.work / "there.txt").write_text("only over there\n")
    with omp(far) as lender:
        served = lender.served()
        borrows(near, "lab", served.url, served.token)
        with omp(near) as borrower:
            client = await connected(borrower, "mcp__lab_read")
            answer = borrower.drive(do="call", name="mcp__lab_read", arguments={"path": "there.txt"})
            assert "only over there" in answer["content"][0]["text"]
            assert answer["isError"] is False
            # Through the bridge on the borrower's side, too: hands at two removes.
            assert "only over there" in await text_of(client, "mcp__lab_read", path="there.txt")
            assert "not found" in await text_of(client, "read", is_error=True, path="there.txt")
            await a_cancel_goes_all_the_way(client)
            tools = [record["tool"] for record in records(far.audit) if record["phase"] == "start"]
            assert tools == ["read", "read", "bash"]
            assert lender.turns() == borrower.turns() == []


async def a_cancel_goes_all_the_way(client: Client) -> None:
    call = asyncio.create_task(client.call("mcp__lab_bash", {"command": "env sleep 320"}, message_id="c"))
    await soon(lambda: sleeping(320), call)
    await client.message("notifications/cancelled", {"requestId": "c"})
    assert (await call).result["isError"] is True
    await soon(lambda: not sleeping(320))


async def test_two_that_borrow_from_each_other_do_not_grow(tmp_path: Path) -> None:
    """Each start lists the other, which has listed the first: what comes from a third hand is not lent on."""
    left, right = Home(tmp_path / "left"), Home(tmp_path / "right")
    ports = {home: free_port() for home in (left, right)}
    for home, name, other in ((left, "right", right), (right, "left", left)):
        home.install()
        home.bridge(token=TOKEN, port=ports[home])
        borrows(home, name, f"http://127.0.0.1:{ports[other]}/", TOKEN)
    with contextlib.ExitStack() as lefts, contextlib.ExitStack() as rights:
        own = await names(await opened(rights.enter_context(omp(right))))
        one = lefts.enter_context(omp(left))
        lent = own | {f"mcp__right_{name}" for name in own}
        assert await names(await connected(one, "mcp__right_read")) == lent
        rights.close()
        again = await connected(rights.enter_context(omp(right)), "mcp__left_mcp_right_read")
        assert await names(again) == own | {f"mcp__left_{name}" for name in own}
        lefts.close()
        client = await connected(lefts.enter_context(omp(left)), "mcp__right_mcp_left_read")
        assert await names(client) == lent
        unlent = await text_of(client, "mcp__right_mcp_left_read", is_error=True, path=".")
        assert unlent == "tool 'mcp__right_mcp_left_read' is not exposed by this bridge"
        assert str(right.work) in await text_of(client, "mcp__right_bash", command="pwd")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
