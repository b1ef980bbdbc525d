"""Running ripgrep: where it is found, what comes of its ends, and that nothing of it stays behind."""

import asyncio
import contextlib
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.glob import GLOB
from a2a_bridge.hosts.local.grep import GREP
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.workspace import MAX_READERS, Workspace
from a2a_bridge.hosts.typed import TypedTool
from tests.hosts import LOOPS, NOBODY, Machine, alive, all_gone, pids, result_text, soon, until
from tests.support.processes import ROOT

# Where the real one would be too quick. It writes its id, then goes on for long.
SLOW = "echo $$ >> pids; exec sleep 600"


@pytest.fixture(params=LOOPS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, request.param)
    yield machine
    machine.close()


def place_of(here: Machine) -> Workspace:
    return here.host._workspace


def stand_in(monkeypatch: pytest.MonkeyPatch, here: Machine, script: str) -> None:
    """A ripgrep that does this."""
    file = here.directory / "stand-in"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setattr(ripgrep, "find", lambda: str(file))


def searched(here: Machine) -> ripgrep.Searched[bytes]:
    return here.run(ripgrep.run(place_of(here), here.directory, [], b"".join))


def refused(here: Machine) -> str:
    with pytest.raises(ToolError) as caught:
        searched(here)
    return str(caught.value)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """All of us, so that what we start is it too: a shell takes back what only the effective user has given up."""
    if os.geteuid() != 0:
        yield
        return
    if not hasattr(os, "setresuid"):
        pytest.skip("left out: root has no way back here")
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


# The binary


def test_the_package_has_it() -> None:
    found = ripgrep.find()
    assert found is not None
    assert Path(found).resolve() == (Path(sys.prefix) / "bin" / "rg").resolve()
    assert subprocess.check_output([found, "--version"]).startswith(b"ripgrep 15.")


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No package; what the only directory of the PATH is."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_else_the_path_has_it(without_package: Path) -> None:
    (without_package / "rg").write_text("#!/bin/sh\n")
    assert ripgrep.find() is None, "what cannot be run is not it"
    (without_package / "rg").chmod(0o755)
    assert ripgrep.find() == str(without_package / "rg")


def test_what_the_package_has_must_be_one_that_runs(without_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a package for another system, or one that was unpacked by hand."""
    file = importlib.metadata.PackagePath("rg")
    file.dist = importlib.metadata.PathDistribution(without_package / "x.dist-info")
    (without_package / "rg").touch(0o644)
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [file])
    assert ripgrep.find() is None
    (without_package / "rg").chmod(0o755)
    assert ripgrep.find() == str(without_package / "rg")


@pytest.mark.usefixtures("without_package")
def test_without_it_both_tools_say_so(here: Machine) -> None:
    assert ripgrep.find() is None
    for tool in (GREP, GLOB):
        with pytest.raises(ToolError) as caught:
            here.run(tool({"pattern": "x"}, place_of(here)))
        assert str(caught.value) == ripgrep.MISSING


def test_its_own_settings_do_not_count(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.directory / "settings").write_text("--ignore-case\n--max-count=1\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(here.directory / "settings"))
    (here.directory / "f").write_text("x\nX\nx\n")
    assert result_text(here.run(GREP({"pattern": "x", "path": "f"}, place_of(here)))) == "f:1:x\nf:3:x"


def test_the_settings_of_the_bridge_are_its_own(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_BRIDGE_TOKEN", "secret")
    monkeypatch.setenv("OTHER", "kept")
    stand_in(monkeypatch, here, "env")
    shown = searched(here).value
    assert b"A2A_BRIDGE_" not in shown
    assert b"OTHER=kept" in shown


def test_it_has_no_stdin_and_no_descriptor_of_the_bridge(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all not the guardian's pipe."""
    stand_in(monkeypatch, here, "wc -c; exec ls -l /dev/fd/")
    (here.directory / "typed").write_text("to the bridge")
    was = os.dup(0)
    with (here.directory / "typed").open() as typed:
        os.dup2(typed.fileno(), 0)
    try:
        count, *lines = searched(here).value.decode().splitlines()
    finally:
        os.dup2(was, 0)
        os.close(was)
    assert count.strip() == "0"
    pipes = {word for line in lines for word in line.split() if word.startswith("pipe:")}
    assert sys.platform != "linux" or len(pipes) == 2, lines


# How it ends


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo out; echo words >&2; exit 7", "status 7: words"),
        ("echo words >&2; exit 1", "status 1: words"),
        ("kill -9 $$", "status -9"),
        ("exit 127", "status 127"),
    ],
)
def test_a_failure_is_told(here: Machine, monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    stand_in(monkeypatch, here, script)
    assert words in refused(here)


def test_what_cannot_be_run_is_told(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "find", lambda: str(here.directory / "gone"))
    assert "ripgrep has failed with status" in refused(here)


def test_a_refusal_of_the_options_is_told(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, 'echo "rg: no such thing" >&2; exit 2')
    assert refused(here) == "no such thing"


def test_files_that_could_not_be_read_are_a_note(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        'test "$2" = /dev/null && exit 1; echo out; for n in $(seq 20000); do echo "rg: ./$n: why" >&2; done; exit 2'
    )
    stand_in(monkeypatch, here, script)
    found = searched(here)
    assert found.value == b"out\n"
    assert (
        found.complaints.note(lambda path: f"d/{path}") == "[20,000 could not be read: d/1: why; d/2: why; d/3: why; …]"
    )
    assert len(found.complaints.text()) <= ripgrep.MOST_COMPLAINT_BYTES


def test_a_long_command_line(here: Machine) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(GREP({"pattern": "x" * 3_000_000}, place_of(here)))
    assert str(caught.value) == f"ripgrep could not be started in {here.directory}: Argument list too long"


def test_calls_leak_no_descriptor(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, "echo out; echo err >&2; exit 0")
    searched(here)
    before = descriptors()
    for _ in range(5):
        searched(here)
    stand_in(monkeypatch, here, "exit 2")
    for _ in range(5):
        refused(here)
    assert descriptors() <= before


# Its bounds


def test_it_is_killed_when_enough_was_read(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, "echo $$ >> pids; exec yes")
    assert here.run(ripgrep.run(place_of(here), here.directory, [], next)).value.startswith(b"y\ny\n")
    assert pids(here.directory / "pids")
    assert not [pid for pid in pids(here.directory / "pids") if alive(pid)], "the answer came before its end"


def test_more_than_there_are_threads_at_once(here: Machine) -> None:
    (here.directory / "f").write_text("x\n")

    async def all_of_them() -> set[str]:
        calls = (GREP({"pattern": "x"}, place_of(here)) for _ in range(3 * MAX_READERS))
        return {result_text(one) for one in await asyncio.gather(*calls)}

    assert here.run(all_of_them()) == {"f:1:x"}


@given(data=st.data(), texts=st.lists(st.binary(max_size=9).filter(lambda text: b"\n" not in text)))
def test_records_are_the_same_however_the_output_is_cut(data: st.DataObject, texts: list[bytes]) -> None:
    whole = b"".join(b"./%b\n" % text for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found = ripgrep.records(iter(pieces), re.compile(rb"\./([^\n]*)\n"), b"\n")
    assert [record[1] for record in found] == texts


def test_of_a_record_without_end_the_rest_is_not_held() -> None:
    piece = b"x" * ripgrep.READ_BYTES
    pieces = [b"./", *[piece] * 100, b"y\n./next\n"]
    first, second = ripgrep.records(iter(pieces), re.compile(rb"\./([^\n]*)\n"), b"\n")
    assert len(first[1]) <= ripgrep.MOST_RECORD_BYTES + ripgrep.READ_BYTES
    assert second[1] == b"next"


# How it is ended


def test_a_cancel_ends_it(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, SLOW)

    async def cancel(tool: TypedTool[Any, Workspace]) -> None:
        running = asyncio.create_task(tool({"pattern": "x"}, place_of(here)))
        await soon(lambda: bool(pids(here.directory / "pids")), "it runs")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # It was killed before the call ended, so this takes no time worth a bound of its own.
        await soon(lambda: not any(map(alive, pids(here.directory / "pids"))), "it has ended", seconds=0.5)

    for tool in (GREP, GLOB):
        here.run(cancel(tool))
        (here.directory / "pids").unlink()


def test_a_cancel_at_any_moment_ends_it(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, SLOW)

    async def cancel(turns: int) -> None:
        running = asyncio.create_task(GREP({"pattern": "x"}, place_of(here)))
        for _ in range(turns):
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    place_of(here).guardian.pipe()
    here.run(cancel(0))
    before = descriptors()
    for turns in range(20):
        here.run(cancel(turns))
    all_gone(here.directory / "pids")
    until(lambda: descriptors() <= before, "all descriptors are closed")


def test_what_starts_after_a_cancel_is_ended(here: Machine) -> None:
    """Entering a directory of a slow disk may take long, and nobody waits for what comes after it."""

    async def start() -> int | None:
        process = ripgrep._Process(place_of(here))
        process.kill()

        def search() -> int | None:
            with process.started(["sleep", "600"], here.directory) as output:
                assert list(output.pieces()) == []
            return output.status

        return await asyncio.to_thread(search)

    assert here.run(start()) == -signal.SIGKILL


def test_a_cancelled_one_is_struck_off_the_guardians_list(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its number, when it has become another's, would be killed with the bridge."""
    stand_in(monkeypatch, here, SLOW)

    async def cancel() -> None:
        running = asyncio.create_task(GREP({"pattern": "x"}, place_of(here)))
        guardian = place_of(here).guardian
        await soon(lambda: bool(guardian._sessions), "it is on the list")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await soon(lambda: not guardian._sessions, "it is struck off")

    here.run(cancel())


def test_the_end_of_the_host_ends_it(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, here, SLOW)

    async def close() -> None:
        running = asyncio.create_task(GREP({"pattern": "x"}, place_of(here)))
        await soon(lambda: bool(pids(here.directory / "pids")), "it runs")
        await here.host.close()
        await asyncio.gather(running, return_exceptions=True)

    here.run(close())
    all_gone(here.directory / "pids")


@pytest.mark.parametrize("loop", LOOPS)
def test_the_death_of_the_bridge_ends_it(tmp_path: Path, loop: str) -> None:
    command = [sys.executable, "-m", "tests.hosts.local.search.test_ripgrep", str(tmp_path), loop]
    with subprocess.Popen(command, cwd=ROOT) as bridge:
        until(lambda: bool(pids(tmp_path / "pids")), "it runs")
        bridge.send_signal(signal.SIGKILL)
    all_gone(tmp_path / "pids")


def main(directory: Path, loop: str) -> None:
    """A bridge that searches for ever."""
    here = Machine(directory, loop)
    with pytest.MonkeyPatch.context() as monkeypatch:
        stand_in(monkeypatch, here, SLOW)
        here.run(GREP({"pattern": "x"}, place_of(here)))


# How its files are shown


@pytest.mark.parametrize(
    ("directory", "path", "shown"),
    [
        ("/top", "a/b", "a/b"),
        ("/top/sub", "a b", "sub/a b"),
        ("/top/sub/../..", "a", "sub/../../a"),
        ("/topping", "a", "/topping/a"),
        ("/", "a", "/a"),
        ("/top", "~root", "/top/~root"),
        ("/top/~x", "a", "/top/~x/a"),
        ("/top", "new\nline", "$'new\\x0aline'"),
        ("/top", "bad\udcff", "$'bad\\xff'"),
        ("/top", "-n", "-n"),
    ],
)
def test_a_shown_path_is_one_for_the_other_tools(directory: str, path: str, shown: str) -> None:
    assert ripgrep.name(Workspace(Path("/top")), Path(directory), path) == shown


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])


def test_what_has_not_ended_is_not_searched() -> None:
    """Its text may look like the beginning of a record in very many places, and each would be tried to its end."""
    record = re.compile(rb"\./([^\0]*?)\0(\d+):([^\n]*)\n")
    unfinished = b"./" * 20_000
    assert [found[1] for found in ripgrep.records(iter([b"./a\x001:x\n" + unfinished]), record, b"\n")] == [b"a"]

    class Watched:
        def finditer(self, text: bytes, start: int, end: int) -> "list[re.Match[bytes]]":
            assert (start, end) == (0, text.rfind(b"\n") + 1)
            return []

    assert list(ripgrep.records(iter([unfinished, b"x\n" + unfinished]), Watched(), b"\n")) == []  # type: ignore[arg-type]
