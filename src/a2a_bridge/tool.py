"""The words that every room shares: a tool, what it returns, one call of it, and the host that runs it.

Nothing here knows HTTP, MCP sessions, tokens or the disk. The structs encode to the exact JSON
objects of the wire contract (rules M3 and M4), so no room translates them.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Literal, Protocol

import msgspec


class Tool(msgspec.Struct, frozen=True, rename="camel"):
    """One tool as `tools/list` shows it. `input_schema` is JSON Schema 2020-12 with `"type": "object"` at its top."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Text(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """A text block of a result."""

    text: str


class Image(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="image", rename="camel"):
    """An image block of a result: base64 `data` and its MIME type."""

    data: str
    mime_type: str


Content = Text | Image


class Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a call gives back: content blocks, and whether the tool refused or failed."""

    content: tuple[Content, ...]
    is_error: bool = False


class Call(msgspec.Struct, frozen=True, gc=False):
    """Who asks. `id` is the bridge's own UUID for the call, `session` the MCP session's id,
    `client` the name and version that the client gave in `initialize` (may be empty), `address` the IP address
    that the session was opened from (may be empty)."""

    id: str
    session: str
    client: str = ""
    address: str = ""


Tier = Literal["read", "write", "exec"]


class Access(msgspec.Struct, frozen=True):
    """What a call would do with the machine, for the rules that decide whether its owner is asked.

    `tier` is the most that it does; `directory` where it would do it; `command` the shell line that it would run,
    if it runs one; `usual` is false when it brings a directory or variables of its own for that line, and `opaque` is
    true when those could make the shell run something that the line does not say.
    """

    tier: Tier = "exec"
    directory: str = ""
    command: str | None = None
    usual: bool = True
    opaque: bool = False


class Host(Protocol):
    """Something that has tools and runs them. It is started once, then asked, then closed once.

    Cancelling the task that awaits `call` cancels the work, really: when `call` has ended, nothing
    that it started is still at work for it.
    """

    @property
    def name(self) -> str:
        """What a person would call this host, in a word or two."""

    @property
    def known_tools(self) -> Sequence[Tool] | None:
        """What `tools` would give, where that is known without waiting; else None."""

    async def start(self) -> None:
        """Make ready. Raises `HostUnavailable` when the host cannot serve."""

    async def close(self) -> None:
        """Stop all work and release everything. Never raises."""

    async def tools(self) -> Sequence[Tool]:
        """The tools as they are now. Asked anew for each `tools/list`; the same sequence object may be
        returned again while nothing has changed, and is then not encoded again."""

    def call(self, name: str, arguments: object, call: Call) -> Result | Coroutine[Any, Any, Result]:
        """Run one tool; one that need not wait may give its result at once.

        Raises `UnknownTool` for a name that `tools` does not list; any other
        exception becomes an `isError` result that carries its message. A call that is cancelled while it
        waits for a person's leave may end with `Withdrawn` in place of CancelledError."""

    def access(self, name: str, arguments: object) -> Access | None:
        """What that call would do, in no time; None when the host asks its own human and the bridge shall not ask
        again. Raises ToolError when the call would be refused anyway."""

    async def preview(self, name: str, arguments: object) -> str:
        """What that call would change, as a person judges it: a diff against the file as it is. Empty for nothing
        to show. Raises ToolError with the reason why it would fail."""

    async def halt(self) -> None:
        """End what earlier calls have left at work in the background. Never raises."""


def text(message: str) -> Result:
    """A successful result of one text block."""
    return Result((Text(message),))


def failure(message: str) -> Result:
    """An `isError` result of one text block."""
    return Result((Text(message),), is_error=True)
