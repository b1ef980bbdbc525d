"""`tools` and `call`: a small client, through the real HTTP endpoint, for trying things."""

import http.client
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from json import loads
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import msgspec
import typer

from a2a_bridge.cli import options
from a2a_bridge.control import client, messages
from a2a_bridge.errors import BridgeError, ControlError
from a2a_bridge.wire.mcp import PROTOCOL_VERSION

DESCRIPTION_CHARACTERS = 160


class _UsageError(BridgeError):
    exit_code = 2


def tools(
    port: options.Port = None,
    pid: options.Pid = None,
    json: bool = typer.Option(False, "--json", help="The whole list, with descriptions and schemas, as JSON."),
) -> None:
    """List the tools that a running bridge lends."""
    with _session(port, pid) as session:
        listed = session.request("tools/list", {})["tools"]
    if json:
        print(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return
    for tool in listed:
        required = tool["inputSchema"].get("required", [])
        names = [name if name in required else f"[{name}]" for name in tool["inputSchema"].get("properties", {})]
        print(f"{tool['name']} {' '.join(names)}\n    {_in_short(tool['description'])}")


def _in_short(description: str) -> str:
    """A description's first line: an agent's host may have pages of instructions for its model."""
    first = description.strip().partition("\n")[0]
    return first if len(first) <= DESCRIPTION_CHARACTERS else f"{first[:DESCRIPTION_CHARACTERS]}…"


def call(
    name: Annotated[str, typer.Argument(help="The tool.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE…")] = None,
    port: options.Port = None,
    pid: options.Pid = None,
    json: Annotated[str | None, typer.Option("--json", help="All arguments as one JSON object.")] = None,
) -> None:
    """Call a tool and print its result. Exit code 1 when it is an error result."""
    with _session(port, pid) as session:
        given = _arguments(arguments or [], _schema(session, name)) if json is None else _object(json, arguments)
        result = session.request("tools/call", {"name": name, "arguments": given})
    for block in result["content"]:
        if block["type"] == "text":
            print(block["text"])
        else:
            print(f"[{block['mimeType']} image, {len(block['data'])} characters of base64]")
    if result["isError"]:
        raise typer.Exit(1)


def _object(text: str, arguments: list[str] | None) -> dict[str, Any]:
    if arguments:
        raise _UsageError("give the arguments either as KEY=VALUE or with --json, not both")
    try:
        given = loads(text)
        msgspec.json.encode(given)
        if isinstance(given, dict):
            return given
        reason = f"this is {text:.60}"
    except UnicodeEncodeError:
        reason = "it holds half a character (a lone surrogate), which this command cannot send"
    except ValueError as error:
        reason = str(error)
    raise _UsageError(f'--json: expected a JSON object such as \'{{"path": "notes.txt"}}\'; {reason}')


def _schema(session: "_Session", name: str) -> Mapping[str, Any]:
    for tool in session.request("tools/list", {})["tools"]:
        if tool["name"] == name:
            properties = tool["inputSchema"].get("properties", {})
            return properties if isinstance(properties, dict) else {}
    return {}


def _arguments(pairs: list[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    """`KEY=VALUE` words as arguments: a value is text where the tool's schema takes text, JSON elsewhere."""
    given: dict[str, Any] = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark or not key:
            raise _UsageError(f"argument {pair!r}: expected KEY=VALUE, as in path=notes.txt")
        if _not_text(pair):
            raise _UsageError(f"argument {pair!r} is not UTF-8 text")
        if _takes_text(properties.get(key, {"type": "string"})):
            given[key] = value
        else:
            try:
                given[key] = msgspec.json.decode(value)
            except msgspec.DecodeError:
                given[key] = value  # the tool says better than we could what it wanted
    return given


def _not_text(value: str) -> bool:
    """Whether it holds bytes that were no UTF-8 on the command line."""
    return any("\udc80" <= character <= "\udcff" for character in value)


def _takes_text(schema: Any) -> bool:
    kinds = [schema, *schema.get("anyOf", [])] if isinstance(schema, dict) else []
    return any("string" in kind.get("type", "") for kind in kinds if isinstance(kind, dict))


class _Session:
    """An MCP session over one HTTP connection."""

    def __init__(self, connection: http.client.HTTPConnection, url: str, secret: str) -> None:
        self._connection = connection
        self._url = url
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request's result. Raises ControlError when it is refused."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response, body = self.send("POST", msgspec.json.encode(message))
        answer = msgspec.json.decode(body, type=dict[str, Any])
        if session := response.getheader("mcp-session-id"):
            self.headers["mcp-session-id"] = session
        if "error" in answer:
            raise ControlError(f"{self._url} refused {method}: {answer['error']['message']} (HTTP {response.status})")
        result = answer["result"]
        return result if isinstance(result, dict) else {}

    def send(self, method: str, body: bytes = b"") -> tuple[http.client.HTTPResponse, bytes]:
        try:
            self._connection.request(method, "/", body, self.headers)
            response = self._connection.getresponse()
            return response, response.read()
        except (OSError, http.client.HTTPException) as error:
            _unreachable(self._url, error)


def _unreachable(url: str, error: Exception) -> NoReturn:
    raise ControlError(f"{url} cannot be reached: {error}") from None


@contextmanager
def _session(port: int | None, pid: int | None) -> Iterator[_Session]:
    found = options.bridge(port, pid)
    secret = client.ask(found.socket, messages.TOKEN)
    parts = urlsplit(found.status.client_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    session = _Session(connection, found.status.client_url, secret)
    info = {"name": "a2a-bridge", "version": found.status.version}
    try:
        session.request("initialize", {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": info})
        try:
            yield session
        finally:
            with suppress(ControlError, KeyboardInterrupt):
                session.send("DELETE")
    except KeyboardInterrupt:
        sys.stderr.write("a2a-bridge: interrupted; the bridge cancels the call\n")
        raise
    finally:
        connection.close()
