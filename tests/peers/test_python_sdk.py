"""The official Python SDK's client, in its default mode: it asks for a newer revision first and must fall back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ImageContent, TextContent

from tests.support.callers import SETTINGS, TOKEN
from tests.support.processes import Served, records, scripted


@asynccontextmanager
async def connected(served: Served, token: str = TOKEN) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(served.url, http_client=http)) as client,
    ):
        yield client


async def test_connect_list_call_and_leave(scripted_process: Served) -> None:
    async with connected(scripted_process) as client:
        assert client.protocol_version == "2025-11-25"
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "echo" in names
        assert "fail" not in names
        result = await client.call_tool("echo", {"text": "über\u2028 😀"})
        assert result.content == [TextContent(type="text", text="über\u2028 😀")]
        assert not result.is_error
        failed = await client.call_tool("raise", {})
        assert failed.is_error
        assert failed.content == [TextContent(type="text", text="something inside broke")]
        unknown = await client.call_tool("no-such-tool", {})
        assert unknown.is_error
        assert unknown.content == [TextContent(type="text", text="tool 'no-such-tool' is not exposed by this bridge")]
        image, _ = (await client.call_tool("image", {})).content
        assert isinstance(image, ImageContent)
        assert image.mime_type == "image/png"


async def test_a_wrong_token_is_an_error(scripted_process: Served) -> None:
    with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
        async with connected(scripted_process, "wrong"):
            pass


async def test_a_cancelled_call_ends_on_the_other_side_too(scripted_process: Served) -> None:
    async with connected(scripted_process) as client:
        before = hangs(scripted_process)
        hanging = asyncio.create_task(client.call_tool("hang", {}))
        async with asyncio.timeout(30):
            while hangs(scripted_process) == before:
                await asyncio.sleep(0.01)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            while hangs(scripted_process) == before + 1:
                await asyncio.sleep(0.01)


def hangs(served: Served) -> int:
    """How many records there are of calls that hang."""
    return len([record for record in records(served.audit) if record["tool"] == "hang"])


async def test_a_new_client_after_a_restart(tmp_path: Path) -> None:
    with scripted(tmp_path, SETTINGS) as first:
        async with connected(first) as client:
            await client.call_tool("echo", {"text": "one"})
    with scripted(tmp_path) as second:
        async with connected(second) as client:
            result = await client.call_tool("echo", {"text": "two"})
            assert result.content == [TextContent(type="text", text="two")]
