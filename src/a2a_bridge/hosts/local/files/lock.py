"""One at a time at one file: what a write puts there while an edit is at work would be lost."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from a2a_bridge.hosts.local.files.atomic_write import regular_status

# Few locks do for any number of files.
LOCKS = tuple(threading.Lock() for _ in range(64))


@contextmanager
def exclusive(path: Path) -> Iterator[os.stat_result | None]:
    """While nothing else of the bridge changes the same file, by whatever name. Gives its status, None when there
    is no file. Raises ToolError for anything that is no regular file, and OSError."""
    while True:
        status = regular_status(path)
        known = _key(path, status)
        with LOCKS[hash(known) % len(LOCKS)]:
            status = regular_status(path)
            if _key(path, status) == known:  # else what was waited for has put another file in its place
                yield status
                return


def _key(path: Path, status: os.stat_result | None) -> tuple[object, ...]:
    return (os.path.realpath(path),) if status is None else (status.st_dev, status.st_ino)
