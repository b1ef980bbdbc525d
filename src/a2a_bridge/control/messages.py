"""What is said over the control socket: the methods, and the one answer that is more than a string."""

import msgspec

STATUS = "status"
TOKEN = "token"  # noqa: S105 - a method's name
ROTATE = "rotate"


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
