"""The listener of a real process under callers without a token, and callers that end their sending side."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_bridge.control import messages
from a2a_bridge.http.server import MAX_UNAUTHENTICATED, RESERVED_FILES
from tests.conftest import missing
from tests.support.asking import ask, http_call
from tests.support.callers import SETTINGS, TOKEN, Client, HttpCaller, all_parsed, read_reply, request
from tests.support.processes import Served, bridge, records

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


async def opened(port: int, number: int, data: bytes = b"") -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    links = []
    for _ in range(number):
        link = socket.socket()
        link.setblocking(False)
        await loop.sock_connect(link, ("127.0.0.1", port))
        if data:
            await loop.sock_sendall(link, data)
        links.append(link)
    return links


@pytest.mark.parametrize(
    "data", [b"", b"POST / HTTP/1.1\r\nHost:", b"GET / HTTP/1.1\r\n\r\n"], ids=["silent", "head", "405"]
)
async def test_two_thousand_strangers_do_not_keep_out_a_client_or_the_owner(http: HttpCaller, data: bytes) -> None:
    client = Client(http)
    session = await client.open()
    async with http.connection() as (reader, writer):
        early = request("POST", client.headers(), PING)
        writer.write(early)
        assert (await read_reply(reader)).result == {}
        links: list[socket.socket] = []
        try:
            for _ in range(20):
                links += await opened(http.served.port, 100, data)
                assert (await client.message("ping")).result == {}, "a client that comes now"
            writer.write(early)
            assert (await read_reply(reader)).result == {}, "one that was there before"
            assert ask(http.served, messages.STATUS)["sessions"] >= 1
            held = sum(alive(link) for link in links)
            assert held <= MAX_UNAUTHENTICATED
        finally:
            for link in links:
                link.close()
    assert client.session == session


def alive(link: socket.socket) -> bool:
    try:
        while link.recv(65536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[Served]:
    """A bridge that may open 300 files."""
    command = ["sh", "-c", 'ulimit -n 300; exec "$0" "$@"', sys.executable, "-m", "tests.support.scripted"]
    with bridge([*command, str(tmp_path), "5"], tmp_path, SETTINGS) as served:
        yield served


async def test_when_files_run_out_the_owner_and_the_audit_log_have_theirs(few_files: Served) -> None:
    client = Client(HttpCaller(few_files))
    session = await client.open()
    hanging = await opened(few_files.port, 300 - RESERVED_FILES - 4, http_call(session, "hang", {}))
    strangers = await opened(few_files.port, 200)
    async with asyncio.timeout(20):
        while ask(few_files, messages.STATUS)["calls"] < len(hanging):
            await asyncio.sleep(0.01)
    assert (await client.message("ping")).result == {}
    assert len(records(few_files.audit)) == len(hanging)
    said = (few_files.home / "stderr").read_text()
    assert said.count("connections are open, the most that") <= 1
    for link in [*hanging, *strangers]:
        link.close()
    async with asyncio.timeout(20):
        while ask(few_files, messages.STATUS)["calls"]:
            await asyncio.sleep(0.01)
    assert (await client.message("ping")).result == {}


async def test_t9_a_half_closed_client_gets_its_answer_also_behind_a_pipeline(http: HttpCaller) -> None:
    session = await Client(http).open()
    async with http.connection() as (reader, writer):
        for number in range(3):
            writer.write(http_call(session, "echo", {"text": f"{number}"}, number))
        writer.write_eof()
        replies = all_parsed(await reader.read())
    assert [reply.json["id"] for reply in replies] == [0, 1, 2]


async def test_t9_a_half_closed_client_whose_call_lasts_gets_its_answer(tmp_path: Path) -> None:
    """It outlasts several probes."""
    command = [sys.executable, "-m", "a2a_bridge", "serve", "--plain"]
    with bridge(command, tmp_path, {"token": TOKEN}) as served:
        caller = HttpCaller(served)
        session = await Client(caller).open()
        async with caller.connection() as (reader, writer):
            writer.write(http_call(session, "bash", {"command": "sleep 1; echo done"}))
            writer.write_eof()
            answer = await reader.read()
    (reply,) = all_parsed(answer)
    assert "done" in reply.result["content"][0]["text"]
    assert answer.count(b"HTTP/1.1 100 Continue\r\n\r\n") > 1


async def test_t9_a_half_closed_client_that_goes_later_cancels_its_call(http: HttpCaller) -> None:
    session = await Client(http).open()
    before = len(records(http.audit))
    (link,) = await opened(http.served.port, 1, http_call(session, "hang", {}))
    link.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(20):
        while len(records(http.audit)) < before + 1:
            await asyncio.sleep(0.01)
        assert await asyncio.get_running_loop().sock_recv(link, 100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert len(records(http.audit)) == before + 1
        link.close()
        while len(records(http.audit)) < before + 2:
            await asyncio.sleep(0.01)
    assert [record["phase"] for record in records(http.audit)[before:]] == ["start", "done"]


def test_t9_netcat_gets_its_answer(scripted_process: Served) -> None:
    netcat = shutil.which("nc")
    if netcat is None:
        missing("nc (Debian: netcat-openbsd)")
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
    data = request("POST", {"Authorization": f"Bearer {TOKEN}"}, body)
    answer = subprocess.run(
        [str(netcat), "-N", "127.0.0.1", str(scripted_process.port)],
        input=data,
        capture_output=True,
        timeout=30,
        check=True,
    ).stdout
    (reply,) = all_parsed(answer)
    assert json.loads(reply.body)["result"]["serverInfo"]["name"] == "omp-a2a-bridge"


@pytest.mark.parametrize("blank", [" ", "\t", " \t "])
async def test_t8_blanks_around_header_values(http: HttpCaller, blank: str) -> None:
    session = await Client(http).open()
    headers = {"Authorization": f"{blank}Bearer {TOKEN}{blank}", "Mcp-Session-Id": f"{session}{blank}"}
    headers |= {"Content-Length": f"{len(PING)}{blank}", "Origin": f"http://localhost{blank}"}
    assert (await http.send("POST", headers, PING)).result == {}


@pytest.mark.parametrize(("coding", "status"), [("identity", 200), ("IDENTITY", 200), ("gzip", 415), ("br", 415)])
async def test_t10_a_body_in_another_coding_is_refused(http: HttpCaller, coding: str, status: int) -> None:
    client = Client(http)
    await client.open()
    reply = await client.post(PING, content_encoding=coding)
    assert reply.status == status
    if status == 415:
        assert reply.error == (415, -32600, "unsupported content encoding", None)
        assert (await client.post(PING, content_encoding=coding, authorization="Bearer no")).status == 401
