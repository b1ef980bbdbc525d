"""Keeps a key that was meant for elsewhere from answering a question that has just come onto the screen."""

from collections.abc import Callable

GUARD_SECONDS = 0.5


class Guard:
    """Closed for a moment after each `close`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()

    def close(self) -> None:
        self._since = self._clock()

    @property
    def open(self) -> bool:
        return self._clock() - self._since >= GUARD_SECONDS
