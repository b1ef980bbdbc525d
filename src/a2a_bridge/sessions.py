"""The MCP sessions of one process, as a table with one way out (rules S1 to S6). The clock is passed in."""

from collections.abc import Callable

import msgspec

IDLE_SECONDS = 24 * 60 * 60
MOST_SESSIONS = 64


class Session(msgspec.Struct):
    """One client's session. `address` is where it was opened from; `opened` and `seen` are in seconds of the
    table's clock."""

    id: str
    client: str
    address: str
    opened: float
    seen: float


class Sessions:
    """Opened by `initialize`, kept alive by each hit, ended by DELETE, by 24 idle hours, or by being the
    one seen longest ago when a 65th is opened. `ended` is told the id of each that ends."""

    def __init__(
        self, clock: Callable[[], float], new_id: Callable[[], str], ended: Callable[[str], None] = lambda _: None
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        self._ended = ended
        self._table: dict[bytes, Session] = {}

    def open(self, client: str, address: str = "") -> Session:
        if len(self._table) >= MOST_SESSIONS:
            self.close(min(self._table, key=lambda key: self._table[key].seen))
        now = self._clock()
        session = Session(self._new_id(), client, address, now, now)
        self._table[session.id.encode()] = session
        return session

    def touch(self, key: bytes) -> Session | None:
        """The session of that id, its idle time started anew; None when there is none, or no longer."""
        session = self._table.get(key)
        if session is None:
            return None
        now = self._clock()
        if now - session.seen > IDLE_SECONDS:
            self.close(key)
            return None
        session.seen = now
        return session

    def close(self, key: bytes) -> None:
        session = self._table.pop(key, None)
        if session is not None:
            self._ended(session.id)

    def ages(self, session: Session) -> tuple[float, float]:
        """Seconds since it was opened, and since it was seen."""
        now = self._clock()
        return now - session.opened, now - session.seen

    def live(self) -> list[Session]:
        """The sessions that have not expired, the oldest first."""
        now = self._clock()
        return [session for session in self._table.values() if now - session.seen <= IDLE_SECONDS]
