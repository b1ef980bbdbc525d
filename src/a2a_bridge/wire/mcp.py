"""The Model Context Protocol's part: what the methods take and give (rules M1 to M6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from a2a_bridge.tool import Content, Image, Result, Text, Tool

PROTOCOL_VERSION = "2025-11-25"
SERVER_NAME = "omp-a2a-bridge"
SERVER_VERSION = "0.1.0"

INITIALIZE_RESULT = msgspec.json.encode(
    {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": SERVER_NAME, "version": SERVER_VERSION},
    }
)
EMPTY_RESULT = b"{}"

_CLIENT_CHARACTERS = 64


def encode_tools(tools: Sequence[Tool]) -> bytes:
    """The result of `tools/list`: one page, no cursor (M3)."""
    return _encode({"tools": list(tools)})


def encode_result(result: Result) -> bytes:
    """The result of `tools/call` (M4)."""
    return _encode(result)


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A host's text may hold lone surrogates (file names do): UTF-8 cannot, so they become U+FFFD.
        return msgspec.json.encode(_well_formed(msgspec.to_builtins(value)))


def _well_formed(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_well_formed(name): _well_formed(item) for name, item in value.items()}
    return value


def call_parameters(params: object) -> tuple[str, object]:
    """The tool's name and its arguments. A missing or non-string name is `""` (M6), missing arguments are `{}`."""
    if not isinstance(params, dict):
        return "", {}
    name = params.get("name")
    arguments = params.get("arguments")
    return name if isinstance(name, str) else "", {} if arguments is None else arguments


def cancelled_request(params: object) -> object:
    """`requestId` of a `notifications/cancelled`, or None."""
    return params.get("requestId") if isinstance(params, dict) else None


def client_name(params: object) -> str:
    """Name and version from an `initialize`'s `clientInfo`, short and printable; `""` when not told."""
    info = params.get("clientInfo") if isinstance(params, dict) else None
    if not isinstance(info, dict):
        return ""
    words = [word for word in (info.get("name"), info.get("version")) if isinstance(word, str)]
    shown = "".join(character for character in " ".join(words)[:_CLIENT_CHARACTERS] if character.isprintable())
    return shown.strip()


def content_block(block: Mapping[str, Any]) -> Content:
    """A block from a foreign host. Text and images pass; any other becomes text that holds its JSON (M4)."""
    match block:
        case {"type": "text", "text": str(words)}:
            return Text(words)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return Image(data, mime_type)
    return Text(_encode(block).decode())
