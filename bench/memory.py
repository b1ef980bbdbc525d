"""Peak memory of a process and all that it starts, from /proc (Linux)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

AVAILABLE = Path("/proc/self/clear_refs").exists()
_PAUSE = 0.005


class Peak:
    """In MB. Libraries that programs share are counted for each of them."""

    megabytes = 0.0


@contextmanager
def peak(pid: int) -> Iterator[Peak]:
    """The highest sum, at any one time, of what each process of the tree has held at most since the block began."""
    found = Peak()
    done = threading.Event()
    for each in _tree(pid):
        with suppress(OSError):
            Path(f"/proc/{each}/clear_refs").write_text("5")

    def look() -> None:
        while True:
            found.megabytes = max(found.megabytes, sum(map(_held, _tree(pid))) / 1024)
            if done.wait(_PAUSE):
                return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        done.set()
        looking.join()


def _tree(pid: int, parent: bytes = b"") -> list[int]:
    """Without a child that is just being started: until it is another program it shares all of its parent's memory."""
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if command != parent:
            tasks = Path(f"/proc/{pid}/task").iterdir()
            return [pid, *(each for task in tasks for child in _children(task) for each in _tree(child, command))]
    return []


def _children(task: Path) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in (task / "children").read_text().split()]
    return []


def _held(pid: int) -> int:
    """VmHWM in KiB; 0 for one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0
