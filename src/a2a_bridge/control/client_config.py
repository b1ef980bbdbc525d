"""The entry for a client's configuration file, in that client's own format."""

from enum import StrEnum
from typing import Any


class Client(StrEnum):
    """The clients whose formats are known."""

    OMP = "omp"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    GENERIC = "generic"


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
