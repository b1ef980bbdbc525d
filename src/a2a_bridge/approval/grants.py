"""What a person has allowed beyond one answer: the next identical call, or a session's calls. In memory only."""

from collections.abc import Callable
from enum import StrEnum
from itertools import count

import msgspec

from a2a_bridge.approval.fingerprint import Fingerprint
from a2a_bridge.tool import Call

# Past this the oldest go: a person's answers are few, and a caller's tricks with them shall not be many.
MOST_GRANTS = 500


class Kind(StrEnum):
    """How far a grant reaches."""

    ONCE = "once"
    CALL = "this call, for the session"
    TOOL = "this tool, for the session"


class Grant(msgspec.Struct, eq=False):
    """One allowance. `until` is in seconds of the clock, None for as long as its session lives."""

    id: int
    kind: Kind
    tool: str
    summary: str
    fingerprint: Fingerprint
    session: str
    client: str
    until: float | None

    @property
    def reason(self) -> str:
        return f"grant {self.id}: {self.kind}"

    def covers(self, call: Call, tool: str, fingerprint: Fingerprint) -> bool:
        if self.kind is Kind.TOOL:
            return self.tool == tool and self.session == call.session
        return self.fingerprint == fingerprint and (self.kind is Kind.ONCE or self.session == call.session)


class Grants:
    """The table of grants; what has run out is not in it."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._ids = count(1)
        self._table: dict[int, Grant] = {}

    def add(self, kind: Kind, call: Call, tool: str, summary: str, fingerprint: Fingerprint) -> Grant:
        until = self._clock() + self._seconds if kind is Kind.ONCE else None
        grant = Grant(next(self._ids), kind, tool, summary, fingerprint, call.session, call.client, until)
        self._table[grant.id] = grant
        while len(self._table) > MOST_GRANTS:
            del self._table[next(iter(self._table))]
        return grant

    def use(self, call: Call, tool: str, fingerprint: Fingerprint) -> Grant | None:
        """A grant that covers the call; one that counts once is gone with it. Lasting ones are used first."""
        covering = [grant for grant in self.all() if grant.covers(call, tool, fingerprint)]
        found = min(covering, key=lambda grant: grant.kind is Kind.ONCE, default=None)
        if found is not None and found.kind is Kind.ONCE:
            del self._table[found.id]
        return found

    def revoke(self, grant_id: int) -> Grant | None:
        return self._table.pop(grant_id, None)

    def end_session(self, session: str) -> None:
        """What was granted for a session ends with it; what waits for a retry does not, which may come in a new one."""
        for grant in [one for one in self._table.values() if one.session == session and one.kind is not Kind.ONCE]:
            del self._table[grant.id]

    def all(self) -> list[Grant]:
        """The live grants, the oldest first."""
        now = self._clock()
        for grant in [one for one in self._table.values() if one.until is not None and one.until <= now]:
            del self._table[grant.id]
        return list(self._table.values())
