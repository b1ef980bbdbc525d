"""What is said over the control socket: the methods, what they take, and what they give."""

from typing import Literal

import msgspec

STATUS = "status"
TOKEN = "token"  # noqa: S105 - a method's name
ROTATE = "rotate"
OVERVIEW = "overview"  # Watching → Overview
APPROVALS = "approvals"  # → Asked, all of them
APPROVAL = "approvals/one"  # Number → AskedWhole
APPROVE = "approve"  # Approval → what happened, in words
DENY = "deny"  # Denial → what happened, in words
CALLS = "calls"  # → those in flight
CALL = "calls/one"  # Id → CallWhole
CANCEL = "cancel"  # Id → what happened, in words
SESSIONS = "sessions"  # → all
END_SESSION = "sessions/end"  # Id → what happened, in words
PAUSE = "pause"  # → what happened, in words
RESUME = "resume"  # → what happened, in words
GRANTS = "grants"  # → all
REVOKE = "grants/revoke"  # Number → what happened, in words


def call_number(call_id: str) -> str:
    """The part of a call's id that people read and type: where it differs from the others of its bridge."""
    return call_id.rpartition("-")[2].lstrip("0")


def session_start(session_id: str) -> str:
    """The same of a session's id."""
    return session_id.partition("-")[0]


class Number(msgspec.Struct, frozen=True):
    """Which request, or which grant."""

    id: int


class Id(msgspec.Struct, frozen=True):
    """Which call or session: its id, or the part of it that lists show."""

    id: str


class Approval(msgspec.Struct, frozen=True):
    """`scope`: this once; this very call, for the session; or everything of its tool, for the session."""

    id: int
    scope: Literal["once", "call", "tool"] = "once"


class Denial(msgspec.Struct, frozen=True):
    """`reason` reaches the caller."""

    id: int
    reason: str = ""


class Watching(msgspec.Struct, frozen=True):
    """`attached`: a person looks at a console, and needs no notification."""

    attached: bool = False


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """How a bridge is. `uptime` is in seconds; `token_prefix` is all of the token that is shown unasked (C6)."""

    url: str
    client_url: str
    port: int
    pid: int
    host: str
    uptime: float
    sessions: int
    calls: int
    audit: str
    audit_failed: int
    config: str
    token_prefix: str
    version: str
    waiting: int = 0
    paused: bool = False


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """A question to the owner. `seconds` since it was asked; `length` of its arguments as JSON, in characters;
    `callers` that wait on it; `times` it has been asked. `withdrawn` says why nobody waits any more, `granted` whether
    the next identical call runs unasked."""

    id: int
    tool: str
    tier: str
    summary: str
    client: str
    session: str
    address: str
    directory: str
    reason: str
    seconds: float
    length: int
    callers: int
    times: int
    withdrawn: str = ""
    granted: bool = False


class AskedWhole(msgspec.Struct, frozen=True):
    """With all that will run: the arguments as JSON text, and what they would change: a diff, or why they fail."""

    asked: Asked
    arguments: str
    preview: str


class LiveCall(msgspec.Struct, frozen=True, rename="camel"):
    """A call in flight. `seconds` since it came; `request` is the number of the question that it waits on, 0 for
    one that runs."""

    id: str
    tool: str
    summary: str
    client: str
    session: str
    seconds: float
    request: int = 0


class EndedCall(msgspec.Struct, frozen=True, rename="camel"):
    """A call that has ended: at `at` (seconds since the epoch), after `seconds`. `outcome` is `done`, `failed`,
    `abandoned` (its caller hung up) or `withdrawn` (that, before it ran); `decided` says what let it run."""

    id: str
    tool: str
    summary: str
    client: str
    session: str
    at: float
    seconds: float
    outcome: Literal["done", "failed", "abandoned", "withdrawn"]
    decided: str = ""


class CallWhole(msgspec.Struct, frozen=True):
    """One call in flight or one of the last that ended. `arguments` as JSON text and `result` as the caller got it;
    both are cut where they are very long, which they say themselves."""

    call: LiveCall | None
    ended: EndedCall | None
    arguments: str
    result: str


class SessionRow(msgspec.Struct, frozen=True):
    """A session. `opened` and `seen` are seconds ago; `calls` of it are in flight."""

    id: str
    client: str
    address: str
    opened: float
    seen: float
    calls: int


class GrantRow(msgspec.Struct, frozen=True):
    """What runs unasked. `kind` in words; `seconds` that it still holds, None for as long as its session lives."""

    id: int
    kind: str
    tool: str
    summary: str
    client: str
    session: str
    seconds: float | None


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """All that a console shows, in bounded lists: the oldest of what waits and behind it the newest of what was
    asked earlier, the newest of the rest. The counts are of
    everything: `done` and `failed` since the start, `waiting` calls that wait for the owner, `running` those that run,
    `earlier` requests that were withdrawn. `notices` are the bridge's own last words to its owner."""

    status: Status
    running: int
    waiting: int
    done: int
    failed: int
    earlier: int
    approvals: list[Asked]
    live: list[LiveCall]
    ended: list[EndedCall]
    sessions: list[SessionRow]
    notices: list[str]
