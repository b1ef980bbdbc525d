"""A JSON-RPC 2.0 peer over newline-delimited JSON: both ends may ask, and answers come in any order.

The control socket and the link to a host process speak through it. It knows neither's messages.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Protocol

import msgspec

from a2a_bridge.errors import BridgeError, PeerError, described
from a2a_bridge.wire.framing import Lines
from a2a_bridge.wire.tolerant_json import read_object

# Several times the largest result a host should send; a peer that sends more is broken.
LONGEST_LINE = 256 * 1024 * 1024
READ_BYTES = 256 * 1024
# What the other end has not read yet. One that asks and never reads is cut off here; to stop reading instead
# could leave two peers waiting for each other.
MOST_UNREAD_BYTES = 64 * 1024 * 1024

# Of lines that are no messages. What sends more is no peer, and each costs a line to the owner.
MOST_BAD_LINES = 20

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
GONE = -32000

_ANSWERS = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d{1,18}),"(?:result|error)"')

Handler = Callable[[Any], Awaitable[object]]


class Reader(Protocol):
    """The half of asyncio's StreamReader that is used."""

    async def read(self, n: int = -1) -> bytes: ...


class Writer(Protocol):
    """The half of asyncio's StreamWriter that is used."""

    def write(self, data: bytes) -> None: ...

    @property
    def transport(self) -> asyncio.WriteTransport: ...


class _Line(msgspec.Struct):
    """Any line of the link: a request, a notification or a response."""

    method: str | None = None
    id: int | str | None = None
    params: Any = None
    result: Any = None
    error: dict[str, Any] | None = None


class Peer:
    """One end of a link. `handlers` answer the other end's requests and notifications, each in a task of its own."""

    def __init__(
        self, reader: Reader, writer: Writer, handlers: Mapping[str, Handler], report: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handlers = handlers
        self._report = report
        self._ids = count(1)
        self._waiting: dict[int | str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = ""
        self._bad_lines = 0

    async def run(self) -> None:
        """Read until the other end closes the link or breaks its rules; then every open request fails."""
        lines = Lines(LONGEST_LINE)
        why = "the link was closed"
        try:
            while piece := await self._reader.read(READ_BYTES):
                for line in lines.feed(piece):
                    self._take(line)
        except (PeerError, OSError) as error:
            why = str(error)
        finally:
            self._gone = why
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(PeerError(GONE, why))
            for task in self._tasks:
                task.cancel()

    async def request(self, method: str, params: object = None) -> Any:
        """Ask the other end. Raises PeerError when it answers with an error or goes away."""
        if self._gone:
            raise PeerError(GONE, self._gone)
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await answer
        finally:
            del self._waiting[number]

    def notify(self, method: str, params: object = None) -> None:
        """Tell the other end, without an answer. A link that is gone takes it silently."""
        if not self._gone:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _take(self, line: bytes) -> None:
        try:
            message = _message(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self._report(f"a line that is no JSON-RPC message was dropped ({error})")
            self._unread(line)
            self._bad_lines += 1
            if self._bad_lines >= MOST_BAD_LINES:
                raise PeerError(GONE, "the link was cut: its other end sends no messages") from None
            return
        if message.method is not None:
            task = asyncio.get_running_loop().create_task(self._answer(message.method, message.id, message.params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif message.id is not None and (waiting := self._waiting.get(message.id)) and not waiting.done():
            if message.error is None:
                waiting.set_result(message.result)
            else:
                code, words = message.error.get("code"), message.error.get("message")
                waiting.set_exception(PeerError(code if isinstance(code, int) else INTERNAL_ERROR, str(words)))

    def _unread(self, line: bytes) -> None:
        """An answer that cannot be read (nested too deep) is still one: its request must not wait for ever."""
        found = _ANSWERS.match(line)
        waiting = self._waiting.get(int(found[1])) if found else None
        if waiting is not None and not waiting.done():
            waiting.set_exception(PeerError(INTERNAL_ERROR, "the answer cannot be read; it may be nested too deep"))

    async def _answer(self, method: str, number: int | str | None, params: object) -> None:
        outcome: dict[str, object]
        handler = self._handlers.get(method)
        if handler is None:
            outcome = {"error": {"code": METHOD_NOT_FOUND, "message": f"no method {method!r}"}}
        else:
            try:
                outcome = {"result": await handler(params)}
            except msgspec.ValidationError as error:
                outcome = {"error": {"code": INVALID_PARAMS, "message": f"{method}: {error}"}}
            except BridgeError as error:
                outcome = {"error": {"code": GONE, "message": str(error)}}
            except Exception as error:  # a bug of ours: the other end gets an answer, the owner the detail
                self._report(f"internal error: {method}: {described(error)}")
                outcome = {"error": {"code": INTERNAL_ERROR, "message": "internal error"}}
        if number is not None and not self._gone:
            self._send({"jsonrpc": "2.0", "id": number, **outcome})

    def _send(self, message: dict[str, object]) -> None:
        self._writer.write(_text(message) + b"\n")
        if self._writer.transport.get_write_buffer_size() > MOST_UNREAD_BYTES:
            self._report("a link was cut: its other end asks and does not read")
            self._gone = "the link was cut"
            self._writer.transport.abort()


def _message(line: bytes) -> _Line:
    """Legal JSON that the fast decoder refuses (half a surrogate pair, from a file's name) is a message too, or a
    request would never be answered. Raises DecodeError, ValueError or RecursionError."""
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError:
        members = read_object(line)
        if members is None:
            raise
        return msgspec.convert({name: member.value for name, member in members.items()}, _Line)


def _text(message: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 has no bytes for
        return json.dumps(message, separators=(",", ":"), default=msgspec.to_builtins).encode()
