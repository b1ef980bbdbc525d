"""Tells an owner who looks elsewhere that a call waits: runs the command that they have set, one at a time."""

import asyncio
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

# A notifier that shows its message until it is clicked away shall not keep the next ones from coming for ever.
MOST_SECONDS = 30.0


class Notification:
    """`tell` never waits. While the command runs, further texts are counted, and the last one is told with their
    number. `report` gets what went wrong, once for each kind."""

    def __init__(self, command: Sequence[str], report: Callable[[str], None]) -> None:
        self._command = list(command)
        self._report = report
        self._next = ""
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None
        self._reported: set[str] = set()

    def tell(self, text: str) -> None:
        if not self._command:
            return
        self._next, self._waiting = text, self._waiting + 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            others, self._waiting = self._waiting - 1, 0
            text = f"{self._next} (and {others} more)" if others else self._next
            trouble = await self._ran(text)
            if trouble and trouble not in self._reported:
                self._reported.add(trouble)
                self._report(f"notifyCommand {self._command[0]}: {trouble}")

    async def _ran(self, text: str) -> str:
        """In a thread that nobody waits for at the end: a notifier that hangs shall not keep the bridge from ending."""
        loop = asyncio.get_running_loop()
        trouble: asyncio.Future[str] = loop.create_future()

        def settle(words: str) -> None:
            if not trouble.done():
                trouble.set_result(words)

        def work() -> None:
            words = self._run(text)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, words)

        threading.Thread(target=work, name="a2a-notify", daemon=True).start()
        return await trouble

    def _run(self, text: str) -> str:
        """Through the standard library, whose children inherit no descriptor of ours."""
        try:
            ended = subprocess.run(
                [*self._command, text],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=MOST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not end within {MOST_SECONDS:g} s and was killed"
        except (OSError, ValueError) as error:
            return f"it cannot be run: {getattr(error, 'strerror', None) or error}"
        return f"it ended with exit code {ended.returncode}" if ended.returncode else ""
