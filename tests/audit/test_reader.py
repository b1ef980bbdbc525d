"""Following the audit log: nothing is lost and nothing comes twice, however the file is rotated."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a2a_bridge.audit.reader import tail


class Follower:
    """Reads the log as `audit --follow` does, one `read` for each poll."""

    def __init__(self, path: Path) -> None:
        self.gaps = 0
        self._lines: Iterator[bytes | None] = tail(path, self._count)

    def _count(self) -> None:
        self.gaps += 1

    def read(self) -> list[str]:
        lines = []
        while (line := next(self._lines)) is not None:
            lines.append(line.decode().strip())
        return lines


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def by_renaming(log: Path) -> None:
    log.rename(f"{log}.1")
    log.touch()


def by_renaming_without_a_new_file(log: Path) -> None:
    log.rename(f"{log}.1")


def by_copying_and_truncating(log: Path) -> None:
    shutil.copy(log, f"{log}.1")
    with log.open("r+b") as file:
        file.truncate(0)


ROTATIONS = [by_renaming, by_renaming_without_a_new_file, by_copying_and_truncating]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.mark.parametrize("rotate", ROTATIONS)
@pytest.mark.parametrize("unread", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 1, 9])
def test_a_rotation_loses_and_repeats_nothing(
    log: Path, rotate: Callable[[Path], None], unread: int, after: int
) -> None:
    """`after` lines make the new file shorter than, and longer than, what was read of the old one."""
    append(log, "a", "b")
    follower = Follower(log)
    assert follower.read() == ["a", "b"]
    before = [f"unread {number}" for number in range(unread)]
    append(log, *before)
    rotate(log)
    new = [f"new {number}" for number in range(after)]
    append(log, *new)
    assert follower.read() + follower.read() == before + new
    assert follower.gaps == 0
    append(log, "last")
    assert follower.read() == ["last"]


@pytest.mark.parametrize("after", [0, 1, 9])
def test_a_truncation_without_a_copy_is_reported(log: Path, after: int) -> None:
    append(log, "a", "b")
    follower = Follower(log)
    follower.read()
    append(log, "lost")
    with log.open("r+b") as file:
        file.truncate(0)
    new = [f"new {number}" for number in range(after)]
    append(log, *new)
    assert follower.read() == new
    assert follower.gaps == 1


def test_an_incomplete_line_waits_for_its_end(log: Path) -> None:
    log.write_text("first\nsec")
    follower = Follower(log)
    assert follower.read() == ["first"]
    append(log, "ond")
    assert follower.read() == ["second"]


def test_a_log_that_appears_later_is_followed(log: Path) -> None:
    follower = Follower(log)
    assert follower.read() == []
    append(log, "a")
    assert follower.read() == ["a"]
