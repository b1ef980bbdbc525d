"""L1 to L5."""

import asyncio
import hashlib
import json
import multiprocessing
import os
import re
import resource
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.audit.redaction import LONGEST_TEXT, shown_arguments
from a2a_bridge.audit.writer import ROTATE_BYTES, AuditWriter, timestamp
from tests.support.callers import Client, MemoryCaller
from tests.support.processes import records

CALLS: list[tuple[Any, bool]] = [("echo", False), ("raise", True), ("fail", True), ("no-such", True), (5, True)]


@pytest.mark.parametrize(("name", "is_error"), CALLS)
async def test_l1_every_call_writes_a_start_and_a_done(client: Client, name: Any, is_error: bool) -> None:
    before = len(records(client.caller.audit))
    await client.call(name, {"path": "/x"})
    start, done = records(client.caller.audit)[before:]
    assert list(start) == ["ts", "id", "sid", "phase", "tool", "args"]
    assert list(done) == ["ts", "id", "sid", "phase", "tool", "isError", "args"]
    assert start["id"] == done["id"] == str(UUID(start["id"]))
    assert start["sid"] == done["sid"] == client.session
    assert start["tool"] == done["tool"] == (name if isinstance(name, str) else "")
    assert start["args"] == done["args"] == '{"path":"/x"}'
    assert (start["phase"], done["phase"], done["isError"]) == ("start", "done", is_error)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", start["ts"])


def test_l1_timestamps() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_796_102_471_007) == "2026-12-01T05:21:11.007Z"


async def test_l1_the_start_is_on_disk_before_the_host_is_asked(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    hanging = asyncio.create_task(client.call("hang"))
    await memory.host.started.wait()
    assert [record["phase"] for record in records(memory.audit)] == ["start"]
    memory.host.release.set()
    await hanging
    assert [record["phase"] for record in records(memory.audit)] == ["start", "done"]


async def test_l1_other_messages_write_nothing(client: Client) -> None:
    before = records(client.caller.audit)
    for method in ("ping", "tools/list", "nope", "notifications/x"):
        await client.message(method)
    assert records(client.caller.audit) == before


LONG = "x" * 121


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, "{}"),
        ({"a": [1, 2.5, True, None, "é"]}, '{"a":[1,2.5,true,null,"é"]}'),
        ("text", '"text"'),
        ({"a": "x" * 120}, f'{{"a":"{"x" * 120}"}}'),
        ({"a": LONG}, f'{{"a":"<len:121,sha256:{hashlib.sha256(LONG.encode()).hexdigest()[:8]}>"}}'),
        ({LONG: {"b": [LONG]}}, None),
        ({"n": 10**30, "a": "\ud800" * 3}, '{"n":1000000000000000000000000000000,"a":"???"}'),
        ({"a": b"raw"}, None),
        ({"a": object()}, '{"a":"<object>"}'),
    ],
)
def test_l2_what_is_shown(arguments: Any, shown: str | None) -> None:
    text = shown_arguments(arguments)
    assert shown is None or text == shown
    assert LONG not in text
    json.loads(text)


@pytest.mark.parametrize("open_", ["[", '{"a":'])
def test_l2_below_32_levels(open_: str) -> None:
    close = "]" if open_ == "[" else "}"
    whole = open_ * 32 + "1" + close * 32
    assert shown_arguments(json.loads(whole)) == whole
    assert "<max-depth>" in shown_arguments(json.loads(open_ * 33 + "1" + close * 33))
    assert "<max-depth>" in shown_arguments(json.loads(open_ * 400 + "1" + close * 400))


def test_l1_more_than_1024_characters_are_cut() -> None:
    short = ["é" * 100] * 9
    assert len(shown_arguments(short)) < LONGEST_TEXT
    text = shown_arguments(["é" * 100] * 500)
    assert len(text) == LONGEST_TEXT + 1
    assert text.endswith("…")
    assert json.dumps(["é" * 100] * 500, ensure_ascii=False, separators=(",", ":")).startswith(text[:-1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
)


@given(JSON)
def test_l1_l2_anything_is_shown_within_bounds(arguments: Any) -> None:
    text = shown_arguments(arguments)
    assert len(text) <= LONGEST_TEXT + 1
    text.encode()
    if not text.endswith("…"):
        json.loads(text)


async def test_l2_a_long_tool_name_does_not_fill_the_log(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    await client.call("n" * 100_000)
    assert all(len(record["tool"]) < 50 for record in records(memory.audit))


def write(journal: AuditWriter, times: int) -> None:
    for number in range(times):
        journal.start(f"call-{number}", "session", "tool", "{}")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_l3_mode_0600_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "audit.log"
    journal = AuditWriter(path, pytest.fail)
    with umask(mask):
        write(journal, 6000)
    assert mode(path) == mode(tmp_path / "audit.log.1") == 0o600
    journal.close()


def test_l3_a_loose_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.touch(0o644)
    path.chmod(0o644)
    journal = AuditWriter(path, pytest.fail)
    write(journal, 1)
    assert mode(path) == 0o600
    journal.close()


def test_l3_it_rotates_past_512_kib_and_keeps_one_generation(tmp_path: Path) -> None:
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"
    journal = AuditWriter(path, pytest.fail)
    write(journal, 3000)
    assert not old.exists()
    write(journal, 3000)
    assert old.stat().st_size <= ROTATE_BYTES
    assert len(records(old)) + len(records(path)) == 6000
    write(journal, 6000)
    assert sorted(tmp_path.iterdir()) == [path, old]
    journal.close()


def test_l3_a_file_that_is_full_already_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b'{"old":true}\n' * (ROTATE_BYTES // 13 + 1))
    journal = AuditWriter(path, pytest.fail, clock=count(1).__next__)
    write(journal, 2)
    assert len(records(path)) <= 2
    assert (tmp_path / "audit.log.1").exists()
    journal.close()


def test_l3_a_log_that_cannot_be_rotated_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    (tmp_path / "audit.log.1" / "in the way").mkdir(parents=True)
    reports: list[str] = []
    journal = AuditWriter(path, reports.append)
    write(journal, 6000)
    journal.close()
    assert len(records(path)) == 6000
    assert journal.failed == 0
    assert len(reports) == 1
    assert f"audit log {path}: it cannot be rotated and goes on growing" in reports[0]


def _writer(path: Path, name: str, times: int, ready: Any, clock: Callable[[], float]) -> None:
    journal = AuditWriter(path, sys.exit, clock=clock)
    ready.wait()
    for number in range(times):
        journal.start(f"{name}-{number}", "session", "tool", "{}" * (number % 40))
    journal.close()


def test_l3_concurrent_writers_lose_and_tear_nothing_at_the_border(tmp_path: Path) -> None:
    """Four processes write one and a half files together, so that one rotation happens under all of them.
    Two look at the path before each record, two only once in a while, as a busy bridge does."""
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"
    writers, each = 4, 1200
    clocks = [count(1).__next__, time.monotonic] * 2
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(writers)
    processes = [context.Process(target=_writer, args=(path, f"w{n}", each, ready, clocks[n])) for n in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert old.exists(), "no rotation happened"
    found = [record["id"] for part in (old, path) for record in records(part)]
    assert sorted(found) == sorted(f"w{n}-{number}" for n in range(writers) for number in range(each))


def test_l3_a_log_that_another_has_rotated_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    journal = AuditWriter(path, pytest.fail, clock=count(1).__next__)
    write(journal, 1)
    path.rename(tmp_path / "audit.log.1")
    write(journal, 1)
    assert len(records(path)) == 1
    path.unlink()
    write(journal, 1)
    assert len(records(path)) == 1
    journal.close()


def test_l3_a_symlink_stays_and_its_target_rotates(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "audit.log"
    link.symlink_to(tmp_path / "real" / "log")
    journal = AuditWriter(link, pytest.fail)
    write(journal, 6000)
    assert link.is_symlink()
    assert (tmp_path / "real" / "log.1").exists()
    assert records(link)
    journal.close()


def unwritable(kind: str, home: Path) -> Path:
    """A path that no log can be written to."""
    if kind == "directory":
        return home
    if kind == "fifo":
        os.mkfifo(home / "fifo")
        return home / "fifo"
    (home / "file").write_text("")
    return home / "file" / "audit.log"


@pytest.mark.parametrize("kind", ["directory", "fifo", "below a file"])
async def test_l4_a_failing_write_never_fails_the_call(memory: MemoryCaller, tmp_path: Path, kind: str) -> None:
    client = Client(memory)
    await client.open()
    memory.journal.path = unwritable(kind, tmp_path)
    for _ in range(60):
        assert (await client.call("echo", {"text": "x"})).result["isError"] is False
    assert memory.journal.failed == 120
    assert len(memory.reports) == 2, "the first failure and the hundredth"
    assert str(memory.journal.path) in memory.reports[0]


def test_l4_a_path_that_heals_is_written_again(tmp_path: Path) -> None:
    reports: list[str] = []
    (tmp_path / "parent").write_text("")
    journal = AuditWriter(tmp_path / "parent" / "audit.log", reports.append)
    write(journal, 1)
    (tmp_path / "parent").unlink()
    write(journal, 1)
    assert journal.failed == len(reports) == 1
    assert len(records(journal.path)) == 1
    journal.close()


def _writer_on_a_full_disk(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    reports: list[str] = []
    journal = AuditWriter(path, reports.append)
    write(journal, 50)
    sys.exit(0 if journal.failed and reports else 1)


def test_l4_a_full_disk_leaves_no_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    process = multiprocessing.get_context("spawn").Process(target=_writer_on_a_full_disk, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert path.read_bytes().endswith(b"\n")
    assert 0 < len(records(path)) < 50


def test_l4_a_device_may_stand_in_for_the_log() -> None:
    before = os.stat(os.devnull).st_mode
    journal = AuditWriter(Path(os.devnull), pytest.fail)
    write(journal, 5)
    assert os.stat(os.devnull).st_mode == before
    journal.close()


async def test_l5_a_call_that_never_settles_has_no_done(memory: MemoryCaller) -> None:
    client = Client(memory)
    await client.open()
    hanging = asyncio.create_task(client.call("hang"))
    await memory.host.started.wait()
    assert [record["phase"] for record in records(memory.audit)] == ["start"]
    hanging.cancel()
    await asyncio.wait([hanging])
    assert [record["phase"] for record in records(memory.audit)] == ["start", "done"]
