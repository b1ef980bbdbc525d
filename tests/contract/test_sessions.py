"""S1 to S6."""

from uuid import UUID

import pytest

from a2a_bridge.sessions import IDLE_SECONDS, MOST_SESSIONS, Sessions
from tests.support.callers import Caller, Client, MemoryCaller

UNKNOWN = (404, -32000, "unknown session", 1)


async def test_s1_each_initialize_opens_another_session(client: Client) -> None:
    first = client.session
    second = (await client.message("initialize")).headers["mcp-session-id"]  # the old header goes along
    third = (await client.message("initialize", mcp_session_id="long dead")).headers["mcp-session-id"]
    assert len({first, second, third}) == 3
    assert {UUID(one).version for one in (second, third)} == {4}
    assert (await client.message("ping")).result == {}


async def test_s1_an_initialize_without_an_id_opens_one_too(client: Client) -> None:
    reply = await client.post(b'{"jsonrpc":"2.0","method":"initialize"}', mcp_session_id=None)
    assert reply.json["id"] is None
    assert reply.headers["mcp-session-id"]


@pytest.mark.parametrize("method", ["ping", "tools/list", "tools/call", "nope", "notifications/initialized"])
async def test_s2_every_other_message_needs_a_session(client: Client, method: str) -> None:
    missing = await client.message(method, mcp_session_id=None)
    assert missing.error == (400, -32000, "missing mcp-session-id", 1)
    assert (await client.message(method, mcp_session_id="nope")).error == UNKNOWN
    assert (await client.message(method, mcp_session_id="")).error == UNKNOWN


async def test_s3_each_hit_restarts_24_idle_hours(client: Client) -> None:
    await client.caller.advance(IDLE_SECONDS - 60)
    assert (await client.message("notifications/initialized")).status == 202
    await client.caller.advance(IDLE_SECONDS - 60)
    assert (await client.message("ping")).result == {}
    await client.caller.advance(IDLE_SECONDS + 1)
    assert (await client.message("ping")).error == UNKNOWN


def test_s3_an_expired_entry_is_removed_when_it_is_met() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0], lambda: "id")
    sessions.open("")
    now[0] = IDLE_SECONDS
    assert sessions.touch(b"id") is not None
    now[0] = 2 * IDLE_SECONDS + 0.001
    assert sessions.live() == []
    assert sessions.touch(b"id") is None
    now[0] = 2 * IDLE_SECONDS
    assert sessions.touch(b"id") is None, "it must not come back"


async def test_s4_the_65th_evicts_the_one_seen_longest_ago(caller: Caller) -> None:
    clients = [Client(caller) for _ in range(MOST_SESSIONS)]
    for client in clients:
        await client.open()  # on a shared server these push out whatever was there
        await tick(caller)
    for client in reversed(clients):
        assert (await client.message("ping")).status == 200
        await tick(caller)
    await Client(caller).open()  # the last opened is now the one seen longest ago
    alive = [(await client.message("ping")).status == 200 for client in clients]
    assert alive == [True] * (MOST_SESSIONS - 1) + [False]


async def tick(caller: Caller) -> None:
    """In memory the clock stands still unless it is told otherwise; a real one has gone on."""
    if isinstance(caller, MemoryCaller):
        await caller.advance(1)


def test_s4_by_last_seen_not_by_age() -> None:
    now = [0.0]
    names = iter(f"s{number}" for number in range(100))
    sessions = Sessions(lambda: now[0], lambda: next(names))
    for _ in range(MOST_SESSIONS):
        now[0] += 1
        sessions.open("")
    now[0] += 1
    assert sessions.touch(b"s0") is not None
    sessions.open("")
    assert sessions.touch(b"s1") is None
    assert sessions.touch(b"s0") is not None
    assert len(sessions.live()) == MOST_SESSIONS


async def test_s5_delete_is_204_and_idempotent(client: Client) -> None:
    for headers in (
        client.headers(),
        client.headers(),
        client.headers(mcp_session_id=None),
        client.headers(mcp_session_id="nope"),
    ):
        reply = await client.caller.send("DELETE", headers)
        assert (reply.status, reply.body) == (204, b"")
    assert (await client.message("ping")).error == UNKNOWN


async def test_s5_delete_without_the_header_removes_nothing(client: Client) -> None:
    await client.caller.send("DELETE", client.headers(mcp_session_id=None))
    assert (await client.message("ping")).result == {}


async def test_s5_the_body_of_a_delete_is_not_looked_at(client: Client) -> None:
    assert (await client.caller.send("DELETE", client.headers(), b"{not json")).status == 204
