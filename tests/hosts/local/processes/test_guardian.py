"""The guardian: however the bridge ends, nothing that it started outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a2a_bridge.hosts.local.processes.guardian import Guardian
from tests.hosts import CALL, LOOPS, Machine, alive, all_gone, guardian_of, ok_text, pids, soon, until
from tests.support.processes import ROOT

LINGERING = "sleep 600 & echo $! >> pids"
RUNNING = {
    "a command": "echo $$ >> pids; sleep 600; :",
    "an exec": "echo $$ >> pids; exec sleep 600",
    "a family": "echo $$ >> pids; bash -c 'echo $$ >> pids; sleep 600 & echo $! >> pids; wait; :'; :",
    "its own groups": "echo $$ >> pids; set -m; sleep 60 & echo $! >> pids; timeout 9 sleep 60 & echo $! >> pids; wait",
    "deaf to signals": "trap '' TERM HUP INT PIPE; echo $$ >> pids; sleep 600; :",
    "a pipeline": "echo $$ >> pids; yes | cat > /dev/null",
    "stopped": "echo $$ >> pids; kill -STOP $$",
}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def here(loop: str, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, loop)
    yield machine
    machine.close()


@pytest.fixture
def guardian() -> Iterator[Guardian]:
    one = Guardian("of-this-test.")
    yield one
    one.close()


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process group that nobody has told the guardian of."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def bridge(
    directory: Path, loop: str, *commands: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, that runs these commands through a local host of its own. See `main` below."""
    command = [sys.executable, "-m", "tests.hosts.local.processes.test_guardian", str(directory), loop, *commands]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


async def main(directory: Path, commands: list[str]) -> None:
    """Write the guardian's id into `guardian`, then run the commands: those before a `--` one after the other and
    with the guardian killed after them, the others all at once."""
    from a2a_bridge.hosts.local import LocalHost

    host = LocalHost(directory)
    before = commands[: commands.index("--")] if "--" in commands else []
    for command in ["true", *before]:
        ok_text(await host.call("bash", {"command": command}, CALL))
    if before:
        old = guardian_of(host)
        os.kill(old, signal.SIGKILL)
        await soon(lambda: not alive(old), "the guardian has ended")
        ok_text(await host.call("bash", {"command": "true"}, CALL))
        assert guardian_of(host) != old
    (directory / "guardian").write_text(f"{guardian_of(host)}\n")
    after = commands[len(before) + bool(before) :]
    await asyncio.gather(*(host.call("bash", {"command": command}, CALL) for command in after))
    (directory / "over").touch()
    await asyncio.Event().wait()


def ended_with(process: subprocess.Popen[bytes], directory: Path, number: int) -> None:
    """End the bridge by a signal; then first the guardian ends, and by then all else is doomed."""
    process.send_signal(number)
    process.wait(20)
    (guardian,) = pids(directory / "guardian")
    until(lambda: not alive(guardian), "the guardian has ended")
    all_gone(directory / "pids")


@pytest.mark.parametrize("command", RUNNING.values(), ids=RUNNING)
def test_kill_9_leaves_no_command(command: str, loop: str, tmp_path: Path) -> None:
    with bridge(tmp_path, loop, command) as process:
        count = command.count("pids")
        until(lambda: len(pids(tmp_path / "pids")) == count, "the command runs")
        assert all(map(alive, pids(tmp_path / "pids")))
        ended_with(process, tmp_path, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT])
def test_no_signal_leaves_a_command(number: signal.Signals, tmp_path: Path) -> None:
    with bridge(tmp_path, "asyncio", "ulimit -c 0", RUNNING["a family"]) as process:
        until(lambda: len(pids(tmp_path / "pids")) == 3, "the command runs")
        ended_with(process, tmp_path, number)


def test_kill_9_leaves_nothing_of_a_command_that_has_ended(loop: str, tmp_path: Path) -> None:
    with bridge(tmp_path, loop, LINGERING, LINGERING) as process:
        until((tmp_path / "over").exists, "the commands have ended")
        assert [alive(pid) for pid in pids(tmp_path / "pids")] == [True, True]
        ended_with(process, tmp_path, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="left out: /proc is Linux's own")
def test_kill_9_leaves_nothing_that_has_left_its_session(loop: str, tmp_path: Path) -> None:
    away = "setsid sh -c 'echo $$ >> pids; exec sleep 600' & while ! [ -s pids ]; do :; done"
    with bridge(tmp_path, loop, away) as process:
        until((tmp_path / "over").exists, "the command has ended")
        assert [alive(pid) for pid in pids(tmp_path / "pids")] == [True]
        ended_with(process, tmp_path, signal.SIGKILL)


def test_kill_9_leaves_no_kept_output(loop: str, tmp_path: Path) -> None:
    """Even of a path with odd characters in it; and a new guardian knows of it too."""
    temporary = tmp_path / "it's a  place"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with bridge(tmp_path, loop, "seq 100000", "--", "true", environment=environment) as process:
        until((tmp_path / "over").exists, "the commands have ended")
        (kept,) = temporary.iterdir()
        assert [path.name for path in kept.iterdir()] == ["output-1.txt"]
        ended_with(process, tmp_path, signal.SIGKILL)
        assert list(temporary.iterdir()) == []


def test_kill_9_while_commands_are_starting(loop: str, tmp_path: Path) -> None:
    """No moment lies between a command's birth and its being known."""
    with bridge(tmp_path, loop, *["echo $$ >> pids; exec sleep 600"] * 30) as process:
        until(lambda: bool(pids(tmp_path / "pids")), "the first command runs")
        ended_with(process, tmp_path, signal.SIGKILL)


def test_a_new_guardian_knows_what_the_old_one_knew(loop: str, tmp_path: Path) -> None:
    with bridge(tmp_path, loop, LINGERING, "--", RUNNING["a command"]) as process:
        until(lambda: len(pids(tmp_path / "pids")) == 2, "both run")
        assert all(map(alive, pids(tmp_path / "pids")))
        ended_with(process, tmp_path, signal.SIGKILL)


def test_closing_leaves_nothing(here: Machine) -> None:
    ok_text(here.bash(LINGERING))
    guardian = here.guardian()
    lingering = pids(here.directory / "pids")
    assert all(map(alive, [guardian, *lingering]))
    here.run(here.host.close())
    assert not alive(guardian)
    all_gone(here.directory / "pids")


def test_closing_under_running_commands(here: Machine) -> None:
    async def close() -> None:
        calls = [here.host.call("bash", {"command": command}, CALL) for command in RUNNING.values()]
        running = [asyncio.create_task(call) for call in calls]
        count = sum(command.count("pids") for command in RUNNING.values())
        await soon(lambda: len(pids(here.directory / "pids")) == count, "all run")
        await here.host.close()
        async with asyncio.timeout(20):
            results = await asyncio.gather(*running)
        assert all(result.is_error for result in results)

    here.run(close())
    all_gone(here.directory / "pids")


def test_closing_before_anything_has_run(here: Machine) -> None:
    here.run(here.host.close())


def test_closing_twice(here: Machine) -> None:
    ok_text(here.bash("true"))
    here.run(here.host.close())
    here.run(here.host.close())


def test_one_guardian_for_all(here: Machine) -> None:
    ok_text(here.bash("true"))
    first = here.guardian()
    ok_text(here.bash("true"))
    assert here.guardian() == first


def test_a_guardian_that_was_killed_is_replaced(here: Machine) -> None:
    ok_text(here.bash(LINGERING))
    first = here.guardian()
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first), "the guardian has ended")
    assert ok_text(here.bash("echo works")) == "works\n"
    assert ok_text(here.bash("echo works")) == "works\n"
    second = here.guardian()
    assert second != first
    assert all(map(alive, [second, *pids(here.directory / "pids")]))
    here.run(here.host.close())
    assert not alive(second)
    all_gone(here.directory / "pids")


def test_closing_needs_no_guardian(here: Machine) -> None:
    ok_text(here.bash(LINGERING))
    os.kill(here.guardian(), signal.SIGKILL)
    until(lambda: not alive(here.guardian()), "the guardian has ended")
    here.run(here.host.close())
    all_gone(here.directory / "pids")


def test_closing_does_not_wait_for_a_guardian_that_is_stopped(here: Machine) -> None:
    ok_text(here.bash(LINGERING))
    guardian = here.guardian()
    os.kill(guardian, signal.SIGSTOP)
    here.run(here.host.close())
    assert not alive(guardian)
    all_gone(here.directory / "pids")


def test_a_guardian_that_dies_under_a_running_command(here: Machine) -> None:
    """The command and its answer do not suffer."""

    async def work() -> str:
        command = "touch on; while ! [ -e go ]; do sleep 0.05; done; echo done"
        running = asyncio.create_task(here.host.call("bash", {"command": command}, CALL))
        await soon((here.directory / "on").exists, "the command runs")
        guardian = here.guardian()
        os.kill(guardian, signal.SIGKILL)
        await soon(lambda: not alive(guardian), "the guardian has ended")
        (here.directory / "go").touch()
        return ok_text(await running)

    assert here.run(work()) == "done\n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_guardian_stays_at_its_post(here: Machine, number: signal.Signals) -> None:
    """Also when somebody ends the bridge and its children by Ctrl-C or a group's SIGTERM."""
    ok_text(here.bash(LINGERING))
    guardian = here.guardian()
    assert os.getsid(guardian) == guardian != os.getsid(0)
    for _ in range(3):
        os.kill(guardian, number)
    ok_text(here.bash("true"))
    assert here.guardian() == guardian
    assert alive(guardian)


def test_commands_have_groups_of_their_own(here: Machine) -> None:
    (one, two) = (ok_text(here.bash("ps -o pid=,pgid=,sess= -p $$ 2>/dev/null || cat /proc/$$/stat")) for _ in range(2))
    assert one != two
    groups = ok_text(here.bash(f"{sys.executable} -c 'import os; print(os.getppid(), os.getpgid(0), os.getsid(0))'; :"))
    (shell, group, session) = map(int, groups.split())
    assert shell == group == session
    assert os.getpgid(0) != group


def test_ended_groups_are_struck_off(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the guardian would one day kill a stranger that was given the same number."""
    written: list[bytes] = []
    write = os.write

    def spy(descriptor: int, data: bytes) -> int:
        if data.startswith((b"+ ", b"- ")):
            written.append(data)
        return write(descriptor, data)

    monkeypatch.setattr("a2a_bridge.hosts.local.processes.guardian.os.write", spy)
    ended = int(ok_text(here.bash("echo $$")))
    assert written == [f"- {ended}\n".encode()]
    written.clear()
    lingers, sleeps = map(int, ok_text(here.bash("sleep 600 >/dev/null 2>&1 & echo $$ $!")).split())
    second = int(ok_text(here.bash("echo $$")))
    assert written == [f"- {second}\n".encode()], "a group of which one still lives stays on the list"
    os.kill(sleeps, signal.SIGKILL)

    def struck_off() -> bool:
        ok_text(here.bash("true"))
        return f"- {lingers}\n".encode() in written

    until(struck_off, "the group is struck off once the last of it is gone")


# The guardian's own few lines of shell: told by hand, through the pipe that commands use.


@pytest.mark.parametrize(
    ("lines", "killed"),
    [
        ("+ {0}\n+ {1}\n", {0, 1}),
        ("+ {0}\n+ {1}\n- {0}\n", {1}),
        ("+ {0}\n+ {1}\n- {1}\n", {0}),
        ("+ {0}\n- {0}\n+ {1}\n- {1}\n", set()),
        ("+ {0}\n- {0}\n+ {0}\n", {0}),
        ("+ {0}\n- {0}0\n- 1{0}\n- {1}\n+ {1}\n", {0, 1}),
        ("- {0}\n+ {1}\n", {1}),
        ("\n* {0}\n? x\n+ {1}\n", {1}),
        ("+ 99999999\n+ {0}\n", {0}),
    ],
)
def test_the_list(guardian: Guardian, lines: str, killed: set[int]) -> None:
    with sleeper() as one, sleeper() as two:
        os.write(guardian.pipe(), lines.format(one.pid, two.pid).encode())
        guardian.close()  # waits for the guardian's end
        for number, process in enumerate((one, two)):
            if number in killed:
                assert process.wait(20) == -signal.SIGKILL
            else:
                assert process.poll() is None


def test_a_long_list(guardian: Guardian) -> None:
    """Thousands of commands later it still knows the first."""
    with sleeper() as one, sleeper() as two:
        pipe = guardian.pipe()
        os.set_blocking(pipe, True)
        os.write(pipe, f"+ {one.pid}\n".encode())
        for number in range(90_000_000, 90_003_000):
            os.write(pipe, f"+ {number}\n- {number}\n".encode())
        os.write(pipe, f"+ {two.pid}\n- {one.pid}\n".encode())
        guardian.close()
        assert two.wait(20) == -signal.SIGKILL
        assert one.poll() is None


def test_an_enrolled_command_is_known_without_a_word_from_the_bridge(guardian: Guardian) -> None:
    command = guardian.enrolled(["sleep", "600"])
    with subprocess.Popen(command, stderr=guardian.pipe(), start_new_session=True) as process:
        guardian.close()
        assert process.wait(20) == -signal.SIGKILL


def test_an_enrolled_command_gets_its_words_as_they_are(guardian: Guardian) -> None:
    words = ["a b", "", "$HOME", "*", "'\"", "-n", "\\", "line\nline", "ü"]
    command = guardian.enrolled(["printf", "<%s>", *words])
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=guardian.pipe(), start_new_session=True, check=True)
    assert ran.stdout.decode() == "".join(f"<{word}>" for word in words)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[2]]) as runner:
        runner.run(main(Path(sys.argv[1]), sys.argv[3:]))
