"""Lines for the owner's terminal, written by a thread of their own: a terminal that stands still stops no call."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TextIO, TypeVar

from a2a_bridge.cli.tables import cut
from a2a_bridge.terminal_text import escape

# Lines are written in batches, and a batch has an end: at thousands of calls a second the lines would cost
# more than the calls, for nobody who could read them. The audit log has them all.
BATCH_SECONDS = 0.2
MOST_WAITING_LINES = 100
CLOSE_SECONDS = 1.0

Item = TypeVar("Item")


class Printer(Generic[Item]):
    """`put` never waits, and what it takes becomes a line in the thread. When more lines wait than are kept,
    the oldest are dropped and their number is told."""

    def __init__(self, stream: TextIO, line: Callable[[Item], str]) -> None:
        self._stream = stream
        self._line = line
        self._items: deque[Item] = deque(maxlen=MOST_WAITING_LINES)
        self._put = 0
        self._written = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="a2a-printer", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._put += 1
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Write what waits, for as long as a second, and stop."""
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while not self._closing:
            self._wake.wait()
            self._write()
            if not self._closing:
                time.sleep(BATCH_SECONDS)
        self._write()

    def _write(self) -> None:
        self._wake.clear()
        lines = []
        while self._items:
            lines.append(cut(escape(self._line(self._items.popleft()))))
        if not lines:
            return
        dropped = self._put - self._written - len(lines) - len(self._items)
        self._written = self._put - len(self._items)
        if dropped > 0:
            lines.insert(0, f"… {dropped} lines left out")
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):
            return  # nobody reads any more; the bridge has better things to do than to die of it
