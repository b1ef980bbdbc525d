"""Background work: `bash` with `background`, and the tool `job`."""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.processes import jobs
from a2a_bridge.hosts.local.processes.jobs import MOST_RUNNING
from a2a_bridge.hosts.local.processes.output import Output
from a2a_bridge.tool import Result
from tests.hosts import CALL, LOOPS, Machine, alive, all_gone, ok_text, pids, result_text, soon, until


@pytest.fixture(params=LOOPS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, request.param)
    yield machine
    machine.close()


def started(here: Machine, command: str, **arguments: Any) -> int:
    """The new job's id."""
    words = ok_text(here.bash(command, background=True, **arguments))
    found = re.fullmatch(r"job (\d+) runs; ask the tool job for it with id \1", words)
    assert found, words
    return int(found[1])


def ask(here: Machine, action: str, job: int | None = None, **arguments: Any) -> Result:
    given = {"action": action, **({} if job is None else {"id": job}), **arguments}
    return here.run(here.host.call("job", given, CALL))


def refused(here: Machine, action: str, job: int | None = None, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        ask(here, action, job, **arguments)
    return str(caught.value)


def timeless(words: str) -> str:
    """Without the seconds that it took."""
    return re.sub(r"\d+\.\d s", "N s", words)


def test_a_job_from_start_to_end(here: Machine) -> None:
    job = started(here, "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3")
    until(lambda: "one" in (first := result_text(ask(here, "poll", job))) or "two" in first, "it writes")
    assert timeless(ok_text(ask(here, "poll", job))) == f"[job {job}: running for N s]"
    (here.directory / "go").touch()
    last = ask(here, "wait", job)
    assert last.is_error
    assert timeless(result_text(last)) == f"two\n[job {job}: exit code 3, after N s]"
    assert timeless(result_text(ask(here, "poll", job))) == f"[job {job}: exit code 3, after N s]"


def test_a_job_that_ends_well(here: Machine) -> None:
    job = started(here, "printf done")
    assert timeless(ok_text(ask(here, "wait", job))) == f"done\n[job {job}: exit code 0, after N s]"


def test_the_list(here: Machine) -> None:
    assert ok_text(ask(here, "list")) == "[no jobs]"
    first = started(here, "sleep 600 # " + "x" * 200)
    second = started(here, "true\n\n echo  two")
    ask(here, "wait", second)
    one, two = timeless(ok_text(ask(here, "list"))).split("\n")
    assert one == f"{first}  running for N s  sleep 600 # {'x' * 88}…"
    assert two == f"{second}  exit code 0, after N s  true echo two"


def test_waiting_has_an_end(here: Machine) -> None:
    job = started(here, "sleep 600")
    assert timeless(ok_text(ask(here, "wait", job, wait_seconds=0.05))) == f"[job {job}: running for N s]"
    assert timeless(ok_text(ask(here, "wait", job, wait_seconds=0))) == f"[job {job}: running for N s]"


def test_who_no_longer_waits_ends_nothing(here: Machine) -> None:
    job = started(here, "until [ -e go ]; do sleep 0.01; done; echo end")

    async def give_up() -> None:
        waiting = asyncio.create_task(here.host.call("job", {"action": "wait", "id": job}, CALL))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    here.run(give_up())
    (here.directory / "go").touch()
    assert ok_text(ask(here, "wait", job)).startswith("end\n")


def test_killing(here: Machine) -> None:
    command = "echo $$ >> pids; sleep 600 & echo $! >> pids; set -m; sleep 600 & echo $! >> pids; echo begun; wait"
    job = started(here, command)
    until(lambda: len(pids(here.directory / "pids")) == 3, "it runs")
    killed = ask(here, "kill", job)
    assert not killed.is_error
    assert timeless(result_text(killed)) == f"begun\n[job {job}: killed, after N s]"
    all_gone(here.directory / "pids")
    assert timeless(ok_text(ask(here, "kill", job))) == f"[job {job} had ended: killed, after N s]"
    assert ask(here, "poll", job).is_error


def test_a_timeout_holds_in_the_background(here: Machine) -> None:
    job = started(here, "echo $$ >> pids; sleep 600", timeout=0.3)
    words = timeless(result_text(ask(here, "wait", job)))
    assert words == f"[job {job}: timed out after 0.3 s; the command and its processes were killed, after N s]".replace(
        "0.3 s", "N s"
    )
    all_gone(here.directory / "pids")


def test_a_signal_from_elsewhere(here: Machine) -> None:
    job = started(here, "echo $$ >> pids; exec sleep 600")
    until(lambda: bool(pids(here.directory / "pids")), "it runs")
    os.kill(pids(here.directory / "pids")[0], signal.SIGTERM)
    assert "killed by SIGTERM, after" in result_text(ask(here, "wait", job))


def test_input(here: Machine) -> None:
    job = started(here, 'read -r name; echo "hello $name"; cat; echo end')
    assert ok_text(ask(here, "input", job, text="wörld\n")) == f"[job {job}: 7 bytes written]"
    assert ok_text(ask(here, "input", job, text="rest")) == f"[job {job}: 4 bytes written]"
    assert ok_text(ask(here, "input", job)) == f"[job {job}: its standard input is closed]"
    assert timeless(ok_text(ask(here, "wait", job))) == f"hello wörld\nrestend\n[job {job}: exit code 0, after N s]"
    assert timeless(refused(here, "input", job, text="x")) == f"job {job} takes no input: exit code 0, after N s"


def test_input_after_its_end(here: Machine) -> None:
    job = started(here, "sleep 600")
    ask(here, "input", job)
    assert refused(here, "input", job, text="x") == f"job {job}: its standard input is closed"
    closed = started(here, "exec <&-; touch closed; sleep 600")
    until((here.directory / "closed").exists, "it has closed its input")
    assert "has closed its standard input; 0 bytes were taken" in refused(here, "input", closed, text="x")


def test_a_large_input_reaches_one_that_reads(here: Machine) -> None:
    job = started(here, "wc -c")
    assert ok_text(ask(here, "input", job, text="x" * 1_000_000)) == f"[job {job}: 1000000 bytes written]"
    ask(here, "input", job)
    assert ok_text(ask(here, "wait", job)).split()[0] == "1000000"


def test_input_to_one_that_does_not_read(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_bridge.hosts.local.job.DEFAULT_WAIT_SECONDS", 0.05)
    job = started(here, "sleep 600")
    words = refused(here, "input", job, text="x" * 1_000_000)
    found = re.fullmatch(rf"job {job} took (\d+) of 1000000 bytes in 0.05 s; it does not read", words)
    assert found
    assert 0 < int(found[1]) < 1_000_000


def test_two_who_write_at_once_write_one_after_the_other(here: Machine) -> None:
    """Also when the second comes just as there is room again, and before the first has heard of it."""
    job = started(here, "until [ -e go ]; do sleep 0.01; done; cat | uniq -c | awk '{print $1}'; echo end")
    standard_input = here.host._workspace.jobs.find(job)._stdin

    def waiting() -> int:
        return int.from_bytes(fcntl.ioctl(standard_input, termios.FIONREAD, bytes(4)), sys.byteorder)

    def write(letter: str) -> "asyncio.Task[Result]":
        given = {"action": "input", "id": job, "text": f"{letter}\n" * 100_000}
        return asyncio.create_task(here.host.call("job", given, CALL))

    async def both() -> list[Result]:
        first = write("a")
        await soon(lambda: waiting() > 0, "the first has filled the pipe")
        (here.directory / "go").touch()
        until(lambda: waiting() == 0, "the command has emptied it")  # while the loop stands still
        return list(await asyncio.gather(first, write("b")))

    assert [ok_text(one) for one in here.run(both())] == [f"[job {job}: 200000 bytes written]"] * 2
    ask(here, "input", job)
    assert ok_text(ask(here, "wait", job)).startswith("100000\n100000\nend\n")


def test_closing_the_input_that_another_waits_to_write(here: Machine) -> None:
    """It is told at once, and a job that gets the same descriptor next is not disturbed."""
    job = started(here, "sleep 600")

    async def close() -> None:
        call = here.host.call("job", {"action": "input", "id": job, "text": "x" * 200_000}, CALL)
        writing = asyncio.create_task(call)
        while not asyncio.all_tasks() - {asyncio.current_task(), writing}:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await here.host.call("job", {"action": "input", "id": job}, CALL)
        async with asyncio.timeout(10):
            with pytest.raises(ToolError, match=f"job {job}: its standard input is closed"):
                await writing

    here.run(close())
    other = started(here, "wc -c")
    assert ok_text(ask(here, "input", other, text="x" * 1_000_000)) == f"[job {other}: 1000000 bytes written]"


def test_without_input_it_waits_and_holds_nobody(here: Machine) -> None:
    job = started(here, "cat")
    assert "running" in ok_text(ask(here, "wait", job, wait_seconds=0.05))


def test_more_output_than_an_answer_holds(here: Machine) -> None:
    job = started(here, "seq 100000; echo go > half; until [ -e go ]; do sleep 0.01; done; seq 100001 200000")
    here.run(soon((here.directory / "half").exists, "half is written"))
    first = ok_text(ask(here, "poll", job))
    (here.directory / "go").touch()
    second = ok_text(ask(here, "wait", job))
    (path,) = {*re.findall(r"all of it is in (\S+) …", first + second)}
    assert Path(path).read_text() == "".join(f"{number}\n" for number in range(1, 200_001))
    assert "\n200000\n[job" in second


def test_a_job_that_cannot_start(here: Machine) -> None:
    with pytest.raises(ToolError, match="Argument list too long"):
        here.bash(f": {'x' * 3_000_000}", background=True)
    with pytest.raises(ToolError, match="is not a directory"):
        here.bash("true", background=True, cwd="missing")


def test_only_so_many_run(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_RUNNING", 2)
    one = started(here, "sleep 600")
    started(here, "sleep 600")
    with pytest.raises(ToolError, match="2 jobs are running, and no more may"):
        here.bash("touch ran", background=True)
    ask(here, "kill", one)
    started(here, "true")
    assert not (here.directory / "ran").exists()
    assert MOST_RUNNING > 2


def test_old_ones_are_forgotten(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their output, which may be large."""
    monkeypatch.setattr(jobs, "MOST_ENDED", 2)
    first = started(here, "seq 100000")
    (path,) = re.findall(r"all of it is in (\S+) …", ok_text(ask(here, "wait", first)))
    for _ in range(2):
        ask(here, "wait", started(here, "true"))
        assert Path(path).exists()
    started(here, "sleep 600")
    assert not Path(path).exists()
    assert refused(here, "poll", first) == "there is no job 1; there are: 2, 3, 4"


def test_jobs_end_with_the_host(here: Machine) -> None:
    started(here, "echo $$ >> pids; sleep 600 & echo $! >> pids; wait")
    until(lambda: len(pids(here.directory / "pids")) == 2, "it runs")
    assert all(map(alive, pids(here.directory / "pids")))
    here.run(here.host.close())
    all_gone(here.directory / "pids")


def test_the_host_says_how_many_run(here: Machine) -> None:
    assert here.host.name == "local"
    one = started(here, "sleep 600")
    assert here.host.name == "local (1 job in the background)"
    started(here, "sleep 600")
    assert here.host.name == "local (2 jobs in the background)"
    ask(here, "kill", one)
    assert here.host.name == "local (1 job in the background)"


def test_a_start_that_nobody_waits_for_any_more(here: Machine) -> None:
    """At any moment of it."""

    async def cancel(turns: int) -> None:
        command = {"command": "echo $$ >> pids; exec sleep 600", "background": True}
        starting = asyncio.create_task(here.host.call("bash", command, CALL))
        for _ in range(turns):
            await asyncio.sleep(0)
        if starting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await starting
        else:
            number = int(ok_text(await starting).split()[1])
            await here.host.call("job", {"action": "kill", "id": number}, CALL)

    ok_text(here.bash("true"))
    before = len(os.listdir("/dev/fd"))
    for turns in range(12):
        here.run(cancel(turns))
    assert here.host.name == "local"
    all_gone(here.directory / "pids")
    until(lambda: len(os.listdir("/dev/fd")) <= before, "all descriptors are closed")


def test_killing_before_its_first_step(here: Machine) -> None:
    """Somebody may guess the next id."""

    async def guess() -> Result:
        starting = asyncio.create_task(
            here.host.call("bash", {"command": "echo $$ >> pids; sleep 600", "background": True}, CALL)
        )
        while not here.host._workspace.jobs.all():
            await asyncio.sleep(0)
        killed = await here.host.call("job", {"action": "kill", "id": 1}, CALL)
        with contextlib.suppress(ToolError):
            await starting
        return killed

    ok_text(here.bash("true"))
    before = len(os.listdir("/dev/fd"))
    assert "killed" in ok_text(here.run(guess()))
    assert here.host.name == "local"
    all_gone(here.directory / "pids")
    until(lambda: len(os.listdir("/dev/fd")) <= before, "all descriptors are closed")


def test_without_descriptors_it_says_so(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the pipes it is that cannot be made."""
    pipe = os.pipe
    ok_text(here.bash("true"))
    for allowed in range(2):
        left = iter(range(allowed))

        def scarce(left: Iterator[int] = left) -> tuple[int, int]:
            if next(left, None) is None:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return pipe()

        monkeypatch.setattr(os, "pipe", scarce)
        with pytest.raises(ToolError, match="Too many open files"):
            here.bash("true", background=True)
        if allowed == 0:
            with pytest.raises(ToolError, match="Too many open files"):
                here.bash("true")
            with pytest.raises(ToolError, match="Too many open files"):
                here.run(here.host.call("glob", {"pattern": "*"}, CALL))
        monkeypatch.undo()
    assert here.host.name == "local"


def test_a_job_that_fails_by_the_systems_fault_says_so(here: Machine) -> None:
    async def fault() -> jobs.Job:
        place = here.host._workspace
        job, reading = place.jobs.add("command", Output(place.output_files))
        os.close(reading)

        async def work() -> int | None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        job.start(work(), None)
        await job.wait()
        return job

    job = here.run(fault())
    assert "Input/output error, after" in result_text(ask(here, "poll", job.number))


def test_its_input_is_no_other_jobs(here: Machine) -> None:
    """A job that held another's writing end would keep it from ever finding its end."""

    async def both() -> Result:
        for command in ("cat", "sleep 600"):
            await here.host.call("bash", {"command": command, "background": True}, CALL)
        await here.host.call("job", {"action": "input", "id": 1}, CALL)
        return await here.host.call("job", {"action": "wait", "id": 1}, CALL)

    assert "exit code 0" in ok_text(here.run(both()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `action`"),
        ({"action": "stop"}, "Invalid enum value 'stop'"),
        ({"action": "poll"}, "id is missing; the action poll needs it"),
        ({"action": "poll", "id": 9}, "there is no job 9; there are: none"),
        ({"action": "poll", "id": "1"}, "Expected `int | null`, got `str` - at `$.id`"),
        ({"action": "poll", "id": 1, "wait_seconds": 5}, "wait_seconds belongs to the action wait, not to poll"),
        ({"action": "wait", "id": 1, "text": "x"}, "text belongs to the action input, not to wait"),
        ({"action": "wait", "id": 1, "wait_seconds": -1}, "at `$.wait_seconds`"),
    ],
)
def test_wrong_arguments_are_named(here: Machine, arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(here.host.call("job", arguments, CALL))
    assert words in str(caught.value)
