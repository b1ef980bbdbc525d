"""`mcp-json`: the entry for a client's configuration file, in that client's own format."""

from typing import Annotated

import msgspec
import typer

from a2a_bridge.cli import options
from a2a_bridge.control import client, messages
from a2a_bridge.control.client_config import Client, client_entry


def mcp_json(
    port: options.Port = None,
    pid: options.Pid = None,
    kind: Annotated[Client, typer.Option("--client", help="Whose format.")] = Client.GENERIC,
    name: Annotated[str, typer.Option(help="What the client shall call this server.")] = "a2a",
) -> None:
    """Print the client entry, with the full token, ready to paste."""
    if not name.strip() or not name.isprintable():
        raise typer.BadParameter(f"--name {name!r}: expected a name that can be read")
    found = options.bridge(port, pid)
    secret = client.ask(found.socket, messages.TOKEN)
    entry = client_entry(kind, name, found.status.client_url, secret)
    print(msgspec.json.format(msgspec.json.encode(entry), indent=2).decode())
