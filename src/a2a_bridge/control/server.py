"""The bridge's end of the control socket."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from a2a_bridge.errors import ControlError
from a2a_bridge.peer import Handler, Peer


@asynccontextmanager
async def listening(path: Path, handlers: Mapping[str, Handler], report: Callable[[str], None]) -> AsyncIterator[None]:
    """Answer at `path` (mode 0600 from its creation) while the block runs. Raises ControlError."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            connections.add(task)
            task.add_done_callback(connections.discard)
        # The stream's own callback would log a cancelled task as an error: it ends here like any other.
        with suppress(asyncio.CancelledError):
            await Peer(reader, writer, handlers, report).run()
        writer.close()

    server = await asyncio.start_unix_server(connected, sock=_bind(path))
    try:
        yield
    finally:
        server.close()
        for connection in list(connections):
            connection.cancel()
        with suppress(FileNotFoundError):
            path.unlink()


def _bind(path: Path) -> socket.socket:
    """A listening socket under its name only once it listens: commands clear away sockets that refuse them."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = path.with_suffix(".new")
    before = os.umask(0o177)
    try:
        draft.unlink(missing_ok=True)  # of a dead process that had our number
        bound.bind(str(draft))
        bound.listen()
        draft.rename(path)
    except OSError as error:
        bound.close()
        raise ControlError(f"{path} cannot be bound: {error.strerror or error}") from None
    finally:
        os.umask(before)
    return bound
