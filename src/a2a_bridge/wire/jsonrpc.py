"""One JSON-RPC 2.0 message in, one response out, as bytes."""

from typing import Any, Literal

import msgspec

from a2a_bridge.errors import InvalidRequest, ParseError
from a2a_bridge.wire.tolerant_json import read_object

NULL = b"null"

Id = bytes | msgspec.Raw  # JSON text


class Message(msgspec.Struct, frozen=True, gc=False):
    """A request or a notification. `id` is its JSON text as sent, `null` when absent (B3).

    `id` keeps the whole body alive; who holds on to it for long makes `bytes` of it.
    """

    jsonrpc: Literal["2.0"]
    method: str
    id: msgspec.Raw = msgspec.Raw(NULL)
    params: Any = None


_decode = msgspec.json.Decoder(Message).decode


def parse(body: bytes) -> Message:
    """The message in `body`.

    Raises ParseError (B1; nesting too deep to be read counts as that) or InvalidRequest (B2).
    """
    # The decoder passes over strings that it need not build, without checking that they are UTF-8.
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            raise ParseError from None
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return _parse_any(body)


def _parse_any(body: bytes) -> Message:
    """What the fast decoder refused: rare but legal JSON, or a body to be refused for the right reason."""
    try:
        members = read_object(body)
    except (ValueError, RecursionError):
        raise ParseError from None
    if members is None:
        raise InvalidRequest
    values = {name: member.value for name, member in members.items()}
    method = values.get("method")
    if values.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise InvalidRequest
    sent = members["id"].text.encode() if "id" in members else NULL
    return Message("2.0", method, msgspec.Raw(sent), values.get("params"))


def result(message_id: Id, value: bytes) -> bytes:
    """A response: `message_id` and `value` are JSON already."""
    return b"".join((b'{"jsonrpc":"2.0","id":', message_id, b',"result":', value, b"}"))


def error(message_id: Id, code: int, message: str) -> bytes:
    """An error response (T7)."""
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b}}' % (
        message_id,
        code,
        msgspec.json.encode(message),
    )


def request_key(message_id: Id) -> object:
    """A value equal for ids that are equal as JSON, or None for an id that nobody can refer to.

    `1` and `1.0` are one id, as are `"a"` and an escape of it; `1` and `"1"` are two.
    """
    try:
        return id_key(msgspec.json.decode(message_id))
    except (msgspec.DecodeError, RecursionError):
        members = read_object(b'{"id":%b}' % message_id)  # what `parse` could read, this can
        return id_key(members["id"].value) if members else None


def id_key(value: object) -> object:
    """The same, for an id that is decoded already."""
    if value is None or (isinstance(value, int | float | str) and not isinstance(value, bool)):
        return value
    try:
        return msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError):
        return None
