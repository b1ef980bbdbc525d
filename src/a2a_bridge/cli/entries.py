"""`mcp-json`: the entry for a client's configuration file, in that client's own format."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from a2a_bridge.cli import chosen
from a2a_bridge.control import client, messages


class Client(StrEnum):
    """The clients whose formats are known."""

    OMP = "omp"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    GENERIC = "generic"


def mcp_json(
    port: chosen.Port = None,
    pid: chosen.Pid = None,
    kind: Annotated[Client, typer.Option("--client", help="Whose format.")] = Client.GENERIC,
    name: Annotated[str, typer.Option(help="What the client shall call this server.")] = "a2a",
) -> None:
    """Print the client entry, with the full token, ready to paste."""
    if not name.strip() or not name.isprintable():
        raise typer.BadParameter(f"--name {name!r}: expected a name that can be read")
    found = chosen.bridge(port, pid)
    secret = client.ask(found.socket, messages.TOKEN)
    entry = client_entry(kind, name, found.status.client_url, secret)
    print(msgspec.json.format(msgspec.json.encode(entry), indent=2).decode())


def client_entry(kind: Client, name: str, url: str, secret: str) -> dict[str, Any]:
    """The entry as that client reads it. A call may wait for a person, so where a client
    takes a per-server timeout in its entry, the entry switches it off."""
    headers = {"Authorization": f"Bearer {secret}"}
    match kind:
        case Client.OMP:
            return {"mcpServers": {name: {"type": "http", "url": url, "timeout": 0, "headers": headers}}}
        case Client.CLAUDE_CODE:
            return {"mcpServers": {name: {"type": "http", "url": url, "headers": headers}}}
        case Client.CURSOR:
            return {"mcpServers": {name: {"url": url, "headers": headers}}}
        case Client.VSCODE:
            return {"servers": {name: {"type": "http", "url": url, "headers": headers}}}
        case Client.GENERIC:
            return {"mcpServers": {name: {"type": "streamable-http", "url": url, "headers": headers}}}
