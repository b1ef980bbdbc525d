"""The life of a call as people see it: in flight, ended, and how; and a short memory of the last ones."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from itertools import takewhile

import msgspec

from a2a_bridge.summary import summarize
from a2a_bridge.tool import Call, Image, Result, Text

MOST_REMEMBERED = 200
MOST_BYTES = 16 * 1024
# A tool's name of no more characters than this is small, and arguments that are so in the audit log, where it left out
# nothing.
_SMALL = 120


Confirm = Callable[[], Awaitable[None]]


async def nobody_hangs_up() -> None:
    """Of a call that has no connection."""


class Outcome(StrEnum):
    """How a call ended. Only of the last kind nothing has run."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    WITHDRAWN = "withdrawn"


class ActiveCall(msgspec.Struct, eq=False):
    """A call in flight. `began` is in seconds of the bridge's clock, `args` as the audit log shows them;
    `key` is what its caller knows it by, and `reason` the answer when it was ended from outside. `request` is the
    number of the question to the owner that it waits on, 0 while it does not; `decided` what let it run. `confirm`
    returns when its caller has not hung up, and cancels its task otherwise."""

    call: Call
    tool: str
    arguments: object
    args: str
    began: float
    task: asyncio.Task[object] | None
    key: bytes
    reason: str = ""
    request: int = 0
    decided: str = ""
    confirm: Confirm = nobody_hangs_up


class FinishedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that has ended, for whoever watches. `seconds` is how long it took; `result` is None when there was
    nobody to get one."""

    call: Call
    tool: str
    arguments: object
    args: str
    seconds: float
    outcome: Outcome
    decided: str
    result: Result | None


class RememberedCall(msgspec.Struct, frozen=True):
    """A call that is remembered. `at` is in seconds since the epoch; `arguments` (JSON) and `result` are cut where
    they are long, and say so."""

    call: Call
    tool: str
    summary: str
    at: float
    seconds: float
    outcome: Outcome
    decided: str
    arguments: str
    result: str


class CallHistory:
    """Counts the calls that have ended and remembers the last ones, in bounded memory."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.done = 0
        self.failed = 0
        self._now = now
        self._last: deque[tuple[float, FinishedCall | RememberedCall]] = deque(maxlen=MOST_REMEMBERED)

    def put(self, settled: FinishedCall) -> None:
        """Take in one call; at thousands a second, so what is small is kept as it is, and told when asked."""
        if settled.outcome is Outcome.DONE:
            self.done += 1
        else:
            self.failed += 1
        at = self._now()
        self._last.append((at, settled if _small(settled) else _ended(at, settled)))

    def last(self, most: int = MOST_REMEMBERED) -> list[RememberedCall]:
        """The newest first."""
        newest = [self._last[-index] for index in range(1, min(most, len(self._last)) + 1)]
        return [one if isinstance(one, RememberedCall) else _ended(at, one) for at, one in newest]


def written(arguments: object) -> str:
    """Arguments as JSON text, long strings and many members cut, which the text says itself."""
    try:
        encoded = msgspec.json.encode(arguments)
        if len(encoded) > MOST_BYTES:
            encoded = msgspec.json.encode(_Reducer().value(arguments))
        return encoded.decode()
    except (ValueError, TypeError, RecursionError) as error:
        return f'"[arguments that cannot be shown: {type(error).__name__}]"'


class _Reducer:
    """Copies a value until the room is used up."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def value(self, value: object) -> object:
        if isinstance(value, str):
            return self._string(value)
        self._left -= 8
        if isinstance(value, list):
            kept = [self.value(item) for item in takewhile(lambda _: self._left > 0, value)]
            return kept if len(kept) == len(value) else [*kept, f"[{len(value)} in all]"]
        if isinstance(value, dict):
            some = takewhile(lambda _: self._left > 0, value.items())
            short = {self._string(str(name)): self.value(item) for name, item in some}
            return short if len(short) == len(value) else {**short, "…": f"[{len(value)} in all]"}
        return value

    def _string(self, text: str) -> str:
        kept = text[: max(0, self._left)]
        self._left -= len(kept) + 8
        return text if len(kept) == len(text) else f"{kept}… [{len(text)} characters in all]"


def told(result: Result | None) -> str:
    """A result as text, cut where it is long."""
    if result is None:
        return ""
    parts = [
        f"[{block.mime_type} image, {len(block.data)} characters of base64]" if isinstance(block, Image) else block.text
        for block in result.content
    ]
    text = "\n".join(part[: MOST_BYTES + 1] for part in parts)
    whole = sum(map(len, parts))
    return text if len(text) <= MOST_BYTES else f"{text[:MOST_BYTES]}… [{whole} characters in all]"


def _small(settled: FinishedCall) -> bool:
    if (
        len(settled.args) > _SMALL
        or len(settled.tool) > _SMALL
        or "<len:" in settled.args
        or "<max-depth>" in settled.args
    ):
        return False
    if settled.result is None:
        return True
    blocks = settled.result.content
    return len(blocks) == 1 and isinstance(block := blocks[0], Text) and len(block.text) <= MOST_BYTES


def _ended(at: float, settled: FinishedCall) -> RememberedCall:
    return RememberedCall(
        settled.call,
        settled.tool if len(settled.tool) <= _SMALL else f"{settled.tool[:_SMALL]}…",  # a caller may call it anything
        summarize(settled.tool, settled.arguments),
        at,
        settled.seconds,
        settled.outcome,
        settled.decided,
        written(settled.arguments),
        told(settled.result),
    )
