"""A2 to A6."""

import pytest

from a2a_bridge.auth import Auth, Origins, is_loopback, token_prefix
from tests.support.callers import ALLOWED_ORIGIN, TOKEN, Client, HttpCaller, MemoryCaller

GOOD = [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER    {TOKEN}", f"bEaReR\t {TOKEN}", f"Bearer {TOKEN}  "]
BAD = [
    None,
    "",
    "Bearer",
    "Bearer ",
    TOKEN,
    f"Bearer{TOKEN}",
    f"Basic {TOKEN}",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN[:-1]}X",
    f"Bearer {TOKEN} {TOKEN}",
    f"Bearer {TOKEN.upper()}",
    f"x Bearer {TOKEN}",
    "Bearer ключ",
    "Bearer " + "x" * 5000,
]


@pytest.mark.parametrize("value", GOOD)
async def test_a2_the_scheme_in_any_case_and_any_blanks(client: Client, value: str) -> None:
    assert (await client.message("ping", authorization=value)).result == {}


@pytest.mark.parametrize("value", BAD)
async def test_a4_anything_else_is_401(client: Client, value: str | None) -> None:
    assert (await client.message("ping", authorization=value)).error == (401, -32000, "unauthorized", None)


@pytest.mark.parametrize("value", GOOD)
def test_a2_in_the_core(value: str) -> None:
    assert Auth(TOKEN).allows(value.encode())


@pytest.mark.parametrize("value", BAD)
def test_a3_in_the_core(value: str | None) -> None:
    assert not Auth(TOKEN).allows(None if value is None else value.encode())


def test_a3_a_token_that_is_no_ascii_is_compared_as_bytes() -> None:
    assert Auth("ключ").allows("Bearer ключ".encode())


async def test_a5_rotation_counts_at_once_and_sessions_survive(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    memory.auth.rotate("another-token")
    assert (await client.message("ping")).status == 401
    client.token = "another-token"
    assert (await client.message("ping")).result == {}


REFUSED = [
    "http://evil.example",
    "https://evil.example",
    "HTTP://EVIL.EXAMPLE",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://192.168.1.5:8080",
    "http://0.0.0.0",
    "https://app.example",  # listed with another port
    "http://app.example:8443",  # listed with another scheme
    "http://[::1",
    "http://",
]
PASSED = [
    "null",
    "",
    "http://localhost:3000",
    "https://LOCALHOST",
    "http://127.0.0.1",
    "http://127.9.9.9:1",
    "http://[::1]:5173",
    "vscode-webview://abc",
    "file://",
    ALLOWED_ORIGIN,
    ALLOWED_ORIGIN.upper(),
]


@pytest.mark.parametrize("origin", REFUSED)
async def test_a6_a_foreign_page_is_403(client: Client, origin: str) -> None:
    assert (await client.message("ping", origin=origin)).error == (403, -32000, "forbidden origin", None)


@pytest.mark.parametrize("origin", PASSED)
async def test_a6_others_pass(client: Client, origin: str) -> None:
    assert (await client.message("ping", origin=origin)).result == {}


def test_a6_a_listed_host_counts_for_any_port() -> None:
    origins = Origins(["app.example"])
    assert origins.allows(b"https://app.example:1")
    assert not origins.allows(b"https://sub.app.example")


def test_c6_of_a_short_token_at_most_half_is_shown() -> None:
    assert token_prefix("abcdefghijklmnop") == "abcdef…"
    assert token_prefix("abcd") == "ab…"


@pytest.mark.parametrize(
    ("host", "expected"), [("localhost", True), ("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("x", False)]
)
def test_c4_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_of_a_repeated_header_the_first_counts(http: HttpCaller) -> None:
    client = Client(http)
    await client.open()
    wrong, right = ("Authorization", "Bearer no"), ("Authorization", f"Bearer {TOKEN}")
    session = ("Mcp-Session-Id", client.session or "")
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert (await http.send("POST", [right, wrong, session], body)).status == 200
    assert (await http.send("POST", [wrong, right, session], body)).status == 401
