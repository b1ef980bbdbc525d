"""Whole outputs: in memory while they are short, then in files, within bounds, and gone with the bridge."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_bridge.hosts.local.processes import output_files as bounds
from a2a_bridge.hosts.local.processes.output_files import MEMORY_BYTES, Kept, Spool


@pytest.fixture
def made() -> list[str]:
    return []


@pytest.fixture
def kept(made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one = Kept(made.append)
    yield one
    one.close()


def files(made: list[str]) -> dict[str, int]:
    """Names and sizes of what is kept now."""
    return {path.name: path.stat().st_size for directory in made for path in Path(directory).iterdir()}


def spooled(kept: Kept, size: int) -> Spool:
    spool = Spool(kept)
    spool.write(b"x" * size)
    spool.finish()
    return spool


def test_a_short_output_touches_no_disk(kept: Kept, made: list[str]) -> None:
    spool = spooled(kept, MEMORY_BYTES)
    assert spool.where == ""
    assert made == []


@pytest.mark.parametrize("size", [1, 1000, MEMORY_BYTES])
def test_a_long_one_is_kept_from_its_first_byte(kept: Kept, made: list[str], size: int) -> None:
    spool = Spool(kept)
    content = os.urandom(3 * MEMORY_BYTES)
    for at in range(0, len(content), size):
        spool.write(content[at : at + size])
    path = Path(spool.where.removeprefix("; all of it is in "))
    assert path.read_bytes() == content
    assert path.parent == Path(made[0])
    assert path.stat().st_mode & 0o777 == 0o600
    spool.discard()
    assert files(made) == {}
    assert spool.where == ""


def test_one_output_has_a_bound(kept: Kept, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_FILE_BYTES", 100_000)
    spool = Spool(kept)
    for _ in range(5):
        spool.write(b"x" * 70_000)
    assert files(made) == {"output-1.txt": 70_000}
    assert spool.where == f"; the first 70000 bytes are in {made[0]}/output-1.txt"


def test_all_together_have_one_and_the_oldest_makes_room(
    kept: Kept, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 250_000)
    spools = [spooled(kept, 100_000) for _ in range(4)]
    assert files(made) == {"output-3.txt": 100_000, "output-4.txt": 100_000}
    assert [spool.where == "" for spool in spools] == [True, True, False, False]
    spools[3].discard()
    spooled(kept, 150_000)
    assert files(made) == {"output-3.txt": 100_000, "output-5.txt": 150_000}


def test_what_is_still_being_written_is_not_taken_away(
    kept: Kept, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 150_000)
    running = Spool(kept)
    running.write(b"x" * 100_000)
    late = spooled(kept, 100_000)
    assert files(made) == {"output-1.txt": 100_000, "output-2.txt": 0}
    assert late.where == "; it could not be kept: no room"
    running.discard()


def test_a_disk_that_takes_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/no/such/place")
    spool = spooled(kept, 100_000)
    assert spool.where == "; it could not be kept: No such file or directory"


def test_a_disk_that_is_full(kept: Kept, made: list[str]) -> None:
    spool = Spool(kept)
    spool.write(b"x" * 100_000)
    full = os.open("/dev/full", os.O_WRONLY) if Path("/dev/full").exists() else None
    if full is None:
        pytest.skip("left out: /dev/full is Linux's own")
    assert spool._file is not None
    os.dup2(full, spool._file.fileno())
    os.close(full)
    for _ in range(3):
        spool.write(b"y" * 1000)
    assert spool.where == f"; the first 100000 bytes are in {made[0]}/output-1.txt"


def test_closing_removes_everything(kept: Kept, made: list[str]) -> None:
    spooled(kept, 100_000)
    kept.close()
    assert not Path(made[0]).exists()
