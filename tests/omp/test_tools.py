"""The tools of a real omp's session, called from outside: listed as they are, run as they are, and nothing woken."""

import asyncio
import base64
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextContent

from tests.omp.conftest import client_of
from tests.peers.test_python_sdk import connected
from tests.support.callers import Client
from tests.support.omp import Home, Omp, alive, omp, processes, until
from tests.support.processes import records

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"


async def text_of(client: Client, name: str, is_error: bool = False, **arguments: Any) -> str:
    """The one text of a call that ended so."""
    result = (await client.call(name, arguments)).result
    assert result["isError"] is is_error, result
    (block,) = result["content"]
    assert block["type"] == "text", block
    return str(block["text"])


def test_the_start_is_told_and_the_file_is_closed(one: Omp) -> None:
    served = one.served()
    assert ("info", f"A2A bridge listening on {served.url} (token {served.token[:6]}…)") in one.notices()
    until(lambda: one.status_line() == f"A2A {served.url}", "the status line tells the address")
    assert one.home.config.stat().st_mode & 0o777 == 0o600
    assert len(served.token) == 43
    assert served.token not in json.dumps(one.lines)


async def test_m3_the_list_is_the_registry_less_the_denied(one: Omp, hands: Client) -> None:
    tools = (await hands.message("tools/list")).result["tools"]
    assert all(set(tool) == {"name", "description", "inputSchema"} for tool in tools)
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)
    names = {tool["name"] for tool in tools}
    assert {"read", "write", "edit", "bash", "grep", "glob", "task", "hub", "goal"} <= names, "inactive ones too"
    assert "web_search" not in names
    (bash,) = [tool for tool in tools if tool["name"] == "bash"]
    assert bash["inputSchema"]["properties"]["command"]["type"] == "string"
    assert bash["inputSchema"]["required"] == ["command"]
    assert names == set(one.drive(do="tools")) - {"web_search"}


async def test_files_through_an_sdk(one: Omp) -> None:
    work = one.home.work
    (work / "notes.txt").write_text("one\ntwo\nthree\n")
    async with connected(one.served(), one.served().token) as client:

        async def said(name: str, **arguments: Any) -> str:
            result = await client.call_tool(name, arguments)
            (content,) = result.content
            assert isinstance(content, TextContent)
            assert not result.is_error, content.text
            return content.text

        shown = await said("read", path="notes.txt")
        assert "2:two" in shown
        tag = re.findall(r"\[notes\.txt#(\w+)\]", shown)[0]
        await said("edit", input=f"[notes.txt#{tag}]\nPUT 2.=2:\n+zwei\n")
        assert (work / "notes.txt").read_text() == "one\nzwei\nthree\n"
        await said("write", path="sub/new.txt", content="line\u2028 😀\n")
        assert (work / "sub" / "new.txt").read_text() == "line\u2028 😀\n"
        assert (await said("bash", command="cat sub/new.txt | wc -l")).startswith("1\n")
        assert "notes.txt" in await said("glob", path="*.txt")
        assert "zwei" in await said("grep", pattern="zw.i", path=".")


async def test_m5_errors_are_omps_own_and_clean(hands: Client) -> None:
    missing = await text_of(hands, "bash", is_error=True)
    assert missing.startswith('Validation failed for tool "bash"')
    assert "command must be a string" in missing
    assert "not found" in await text_of(hands, "read", is_error=True, path="no/such/file")
    assert (await text_of(hands, "bash", is_error=True, command="echo out; exit 3")).startswith("out\n")
    for arguments in ("text", [1], 5):
        result = (await hands.call("bash", arguments)).result
        assert result["isError"] is True
        assert "Validation failed" in result["content"][0]["text"]


async def test_m6_denied_unknown_and_aliases_get_the_same_words(hands: Client) -> None:
    for name in ("web_search", "nope", "xd://read", "xd://bash", "mcp__read", ""):
        assert await text_of(hands, name, is_error=True, query="x") == f"tool '{name}' is not exposed by this bridge"


async def test_m6_a_denied_tool_is_not_called_through_another(one: Omp, hands: Client) -> None:
    """Neither as a device that is written to, nor from code that is evaluated."""
    said = await text_of(hands, "write", is_error=True, path="xd://web_search", content='{"query":"x"}')
    assert "tool 'web_search' is not exposed by this bridge" in said
    code = "return await tool.web_search({query: 'x'})"
    shown = (await hands.call("eval", {"language": "js", "code": code})).result["content"][0]["text"]
    assert "tool 'web_search' is not exposed by this bridge" in shown
    code = "return (await tool.bash({command: 'echo exposed'})).text ?? 'exposed'"
    assert "exposed" in (await hands.call("eval", {"language": "js", "code": code})).result["content"][0]["text"]


async def test_a_service_is_not_started_for_a_caller(hands: Client) -> None:
    """Its end would be told to the host's model, and start a turn."""
    service = {"op": "start", "name": "svc", "application": "sh", "args": ["-c", "exit 3"]}
    result = (await hands.call("hub", service)).result
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("hub: a service is not started for a remote caller")


@pytest.mark.parametrize("how", ["written", "evaluated"])
async def test_background_work_of_a_tool_within_a_tool_is_followed(home: Home, how: str) -> None:
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        if how == "written":
            inner = json.dumps({"command": "sleep 0.5; echo followed", "timeout": 1})
            result = (await client.call("write", {"path": "xd://bash", "content": inner})).result
        else:
            code = "return await tool.bash({command: 'sleep 0.5; echo followed', timeout: 1})"
            result = (await client.call("eval", {"language": "js", "code": code})).result
        assert "followed\n" in "\n".join(block["text"] for block in result["content"]).replace("echo followed", "")
        await left_alone(one)


async def test_an_image_is_an_image(one: Omp, hands: Client) -> None:
    (one.home.work / "dot.png").write_bytes(base64.b64decode(PIXEL))
    blocks = (await hands.call("read", {"path": "dot.png"})).result["content"]
    (image,) = [block for block in blocks if block["type"] == "image"]
    assert set(image) == {"type", "data", "mimeType"}
    assert image["mimeType"].startswith("image/")
    assert base64.b64decode(image["data"])


async def test_a_large_result_comes_whole(home: Home) -> None:
    home.settings("tools: { artifactSpillThreshold: 100000 }\n")  # omp would give the head and the tail
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        assert await text_of(client, "produce", kind="large") == "0123456789abcdef\u2028é\n" * 250_000
        calls = [text_of(client, "produce", kind="large") for _ in range(4)]
        assert {len(shown) for shown in await asyncio.gather(*calls)} == {19 * 250_000}


async def test_odd_characters_both_ways(one: Omp, hands: Client) -> None:
    for words in ("a\u2028b\u2029c", "😀 \U0001f469\u200d\U0001f680", "é\ufeff", "tab\tend", "\u202eright to left"):
        await text_of(hands, "write", path="odd.txt", content=words)
        assert (one.home.work / "odd.txt").read_bytes() == words.encode()
        assert words in await text_of(hands, "read", path="odd.txt:raw")
    await text_of(hands, "write", path="nul.txt", content="a\0b")
    assert (one.home.work / "nul.txt").read_bytes() == b"a\0b"
    sent = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":%b}}'
    lone = await hands.post(sent % b'{"path":"lone.txt","content":"<\\ud800>"}')
    assert lone.result["isError"] is False
    assert (one.home.work / "lone.txt").read_text() == "<\ufffd>"
    (one.home.work / "bytes.bin.txt").write_bytes(b"x\xff\xfey\n")
    assert "x" in await text_of(hands, "bash", command="cat bytes.bin.txt; printf 'a\\0b'")


async def test_half_a_surrogate_pair_in_an_answer(hands: Client) -> None:
    """What JavaScript takes for text and UTF-8 does not; an answer that were lost would hang its caller."""
    assert await text_of(hands, "produce", kind="half") == "half \ufffd of a pair"
    assert await text_of(hands, "produce", kind="odd") == "nul \0, escape \x1b[31m, separator \u2028, bom \ufeff"


async def test_m4_other_blocks_become_text(hands: Client) -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///x", "text": "y"}}
    first, second = (await hands.call("produce", {"kind": "blocks"})).result["content"]
    assert first["type"] == "text"
    assert json.loads(first["text"]) == resource
    assert second == {"type": "text", "text": "z"}


async def test_a_tool_that_misbehaves_is_answered(hands: Client) -> None:
    assert "undefined" in await text_of(hands, "produce", is_error=True, kind="nothing")  # omp's own words
    assert await text_of(hands, "produce", is_error=True, kind="throw") == "no error, only a string"
    assert "BigInt" in await text_of(hands, "produce", is_error=True, kind="huge integer")
    assert "form" in await text_of(hands, "produce", is_error=True, kind="text alone")


async def test_32_calls_at_once_run_at_once(hands: Client) -> None:
    began = time.monotonic()
    calls = [text_of(hands, "bash", command=f"sleep 1; echo {number}") for number in range(32)]
    for number, shown in enumerate(await asyncio.gather(*calls)):
        assert shown.startswith(f"{number}\n")
    assert time.monotonic() - began < 15, "one after the other would take 32 s"


async def test_a_cancel_ends_the_process_within_half_a_second(hands: Client) -> None:
    hanging = asyncio.create_task(hands.call("bash", {"command": "env sleep 300"}, message_id="c1"))
    await soon(lambda: sleeping(300), hanging)
    began = time.monotonic()
    await hands.message("notifications/cancelled", {"requestId": "c1"})
    result = (await hanging).result
    assert time.monotonic() - began < 0.5
    assert result == {"content": [{"type": "text", "text": "cancelled by the caller"}], "isError": True}
    assert sleeping(300) == [], "the process is gone when its caller is told so"


async def test_a_caller_that_hangs_up_ends_its_process(one: Omp, hands: Client) -> None:
    hanging = asyncio.create_task(hands.call("bash", {"command": "env sleep 301"}))
    await soon(lambda: sleeping(301), hanging)
    hanging.cancel()
    await soon(lambda: not sleeping(301))


def sleeping(seconds: int) -> list[int]:
    """The processes of `env sleep N`; a bare `sleep` is a part of omp's own shell."""
    return [pid for pid, _, state, words in processes() if words == f"sleep {seconds}" and state[0] != "Z"]


async def soon(holds: Any, running: "asyncio.Task[Any] | None" = None) -> None:
    async with asyncio.timeout(60):
        while not holds():
            assert running is None or not running.done(), running
            await asyncio.sleep(0.01)


async def test_l1_each_call_has_its_pair(one: Omp, hands: Client) -> None:
    before = len(records(one.home.audit))
    await text_of(hands, "bash", command="true")
    await text_of(hands, "nope", is_error=True)
    first, second, third, fourth = records(one.home.audit)[before:]
    assert (first["phase"], first["tool"], second["phase"], second["isError"]) == ("start", "bash", "done", False)
    assert (third["phase"], third["tool"], fourth["phase"], fourth["isError"]) == ("start", "nope", "done", True)
    assert first["id"] == second["id"] != third["id"] == fourth["id"]


async def test_the_status_line_counts_the_calls_in_flight(one: Omp, hands: Client) -> None:
    url = one.served().url
    hanging = [asyncio.create_task(hands.call("bash", {"command": "env sleep 302"}, message_id=n)) for n in range(2)]
    await soon(lambda: one.status_line() == f"A2A {url} · 2 calls")
    for number in range(2):
        await hands.message("notifications/cancelled", {"requestId": number})
    await asyncio.gather(*hanging)
    await soon(lambda: one.status_line() == f"A2A {url}")


# Work that omp moves to the background.


async def test_background_work_is_followed_to_its_end(home: Home) -> None:
    home.settings("bash: { autoBackground: { thresholdMs: 300 } }\n")
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        good = "echo before; sleep 1.5; echo after"
        assert (await text_of(client, "bash", command=good)).startswith("before\nafter\n")
        bad = await text_of(client, "bash", is_error=True, command="echo before; sleep 1; echo worse; exit 4")
        assert bad.startswith("before\nworse\n")
        assert "exited with code 4" in bad
        # Its own limit makes omp begin in the background at once; a job that has ended before it is looked for.
        assert "quick" in await text_of(client, "bash", command="echo quick", timeout=1)
        assert "quick" in await text_of(client, "bash", is_error=True, command="echo quick; exit 1", timeout=1)
        many = [text_of(client, "bash", command=f"sleep 0.{number + 4}; echo {number}") for number in range(5)]
        assert [shown[0] for shown in await asyncio.gather(*many)] == list("01234")
        await left_alone(one)


async def test_cancelling_background_work_ends_it(home: Home) -> None:
    home.settings("bash: { autoBackground: { thresholdMs: 100 } }\n")
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        hanging = asyncio.create_task(client.call("bash", {"command": "env sleep 303"}, message_id="c"))
        await soon(lambda: sleeping(303), hanging)
        await soon(lambda: one.drive(do="jobs") == 1, hanging)
        began = time.monotonic()
        await client.message("notifications/cancelled", {"requestId": "c"})
        assert (await hanging).result["isError"] is True
        assert time.monotonic() - began < 0.5
        await soon(lambda: not sleeping(303))
        assert one.drive(do="jobs") == 0
        await left_alone(one)


async def test_a_subagent_has_no_bridge_and_its_end_is_its_callers(home: Home) -> None:
    """It fires Main's events once more, in the same process; and its result would wake Main's model."""
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        bridge = one.bridge_pid()
        task = {"context": "# Goal\nnothing", "tasks": [{"name": "Idle", "task": "Say hello."}]}
        call = asyncio.create_task(client.call("task", task, message_id="t"))
        await soon(lambda: one.drive(do="sessions") == 2, call)
        assert one.bridge_pid() == bridge, "one child, the same"
        assert (await client.message("ping")).result == {}
        await client.message("notifications/cancelled", {"requestId": "t"})
        assert (await call).result["content"][0]["text"] == "cancelled by the caller"
        assert (await text_of(client, "bash", command="echo still here")).startswith("still here\n")
        await left_alone(one)
        assert one.bridge_pid() == bridge


async def left_alone(one: Omp) -> None:
    """Nothing was put into the host's conversation, and its model was not asked."""
    one.say(id="messages", type="get_messages")
    answer = await asyncio.to_thread(
        until, lambda: [line for line in one.lines if line.get("id") == "messages"], "omp shows its conversation"
    )
    assert answer[0]["data"]["messages"] == []
    assert one.turns() == []


async def test_a_new_session_keeps_the_bridge(home: Home) -> None:
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        pid = one.bridge_pid()
        one.say(id="new", type="new_session")
        await soon(lambda: [line for line in one.lines if line.get("id") == "new"])
        assert (await text_of(client, "bash", command="echo still here")).startswith("still here\n")
        assert one.bridge_pid() == pid
        assert alive(pid)


async def test_modules_in_the_working_directory_are_not_ours(tmp_path: Path) -> None:
    """omp is started in other people's projects; what lies there must not be run as a part of the bridge."""
    home = Home(tmp_path)
    home.install()
    for name in ("json.py", "asyncio.py", "a2a_bridge.py", "msgspec.py"):
        (home.work / name).write_text("raise SystemExit('a stranger was run')\n")
    with omp(home) as one:
        client = client_of(one)
        await client.open()
        assert (await client.message("ping")).result == {}
