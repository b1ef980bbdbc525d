"""The console's end of the control socket: each question in a thread of its own, for `ask` blocks and the screen must
not."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from a2a_bridge.control import client
from a2a_bridge.errors import ControlError

Answer = TypeVar("Answer")

ENDED = "the bridge has ended"


class BridgeEnded(ControlError):
    """Nobody listens on the socket any more."""

    def __init__(self) -> None:
        super().__init__(ENDED)


def asked(path: Path, method: str, params: object, kind: type[Answer]) -> Answer:
    """One question, blocking. Raises ControlError, or BridgeEnded."""
    try:
        return msgspec.convert(client.ask(path, method, params), kind)
    except (ConnectionError, FileNotFoundError):
        raise BridgeEnded from None
    except OSError as error:
        raise ControlError(f"the bridge cannot be asked: {error.strerror or error}") from None
    except msgspec.ValidationError as error:
        raise ControlError(f"the bridge is of another version: {method}: {error}") from None
    except msgspec.DecodeError as error:
        raise ControlError(f"the bridge's answer cannot be read: {method}: {error}") from None


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Run `work` in a daemon thread, which leaving the console does not wait for: a pool's threads would be joined,
    and a bridge that stands still would keep the terminal for seconds."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(result: Answer | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # None only where the answer is

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # anything: it is raised again where it was asked for
            failure = error
        with suppress(RuntimeError):  # the loop has ended meanwhile, and nobody asks any more
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="a2a-console", daemon=True).start()
    return await future
