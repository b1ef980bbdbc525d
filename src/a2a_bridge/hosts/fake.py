"""A host whose every answer is known: the fake that tests and benchmarks run the real bridge against."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from a2a_bridge.errors import HostUnavailable, UnknownTool
from a2a_bridge.tool import Access, Call, Image, Result, Text, Tier, Tool, failure, text

_ANYTHING = {"type": "object"}
_ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class FakeHost:
    """`echo` gives its text back, `image` a pixel, `fail` and `raise` fail in the two ways, `hang` waits until it
    is cancelled, `surrogate` says what UTF-8 cannot, `mcp__far_echo` seems to come from an MCP server.

    `seen` keeps the last thousand calls, `cancelled` counts the calls that were cancelled while they hung,
    and `started` is set at each hang. While `broken` or `unavailable` is set, the registry cannot be read.
    `tiers` says what a tool does where that is not `exec`; an argument `command` is a shell line to it.
    `halted` counts what `halt` was asked.
    """

    name = "scripted"

    def __init__(self, extra: Sequence[Tool] = ()) -> None:
        names = ("echo", "image", "fail", "raise", "hang", "surrogate", "mcp__far_echo")
        self.registry = (*(Tool(name, f"{name}, as scripted", _ANYTHING) for name in names), *extra)
        self.seen: deque[tuple[str, object, Call]] = deque(maxlen=1000)
        self.cancelled = 0
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.broken = ""
        self.unavailable = ""
        self.tiers: dict[str, Tier] = {}
        self.halted = 0

    async def start(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Nothing to release."""

    @property
    def known_tools(self) -> Sequence[Tool] | None:
        return None if self.broken or self.unavailable else self.registry

    async def tools(self) -> Sequence[Tool]:
        if self.broken:
            raise RuntimeError(self.broken)
        if self.unavailable:
            raise HostUnavailable(self.unavailable)
        return self.registry

    def call(self, name: str, arguments: object, call: Call) -> Result | Coroutine[Any, Any, Result]:
        self.seen.append((name, arguments, call))
        match name:
            case "echo" | "mcp__far_echo":
                words = arguments.get("text", "") if isinstance(arguments, dict) else arguments
                return text(str(words))
            case "image":
                return Result((Image(_ONE_PIXEL, "image/png"), Text("a pixel")))
            case "fail":
                return failure("it did not work")
            case "raise":
                raise RuntimeError("something inside broke")
            case "surrogate":
                return text("lone \ud800 surrogate")
            case "hang":
                return self._hang()
        raise UnknownTool(name)

    def access(self, name: str, arguments: object) -> Access | None:
        command = arguments.get("command") if isinstance(arguments, dict) else None
        return Access(self.tiers.get(name, "exec"), "/", command if isinstance(command, str) else None)

    async def preview(self, name: str, arguments: object) -> str:
        return f"what {name} would change"

    async def halt(self) -> None:
        self.halted += 1

    async def _hang(self) -> Result:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return text("released")
