"""The tool `bash`, on each loop: what comes back, and that nothing stays behind."""

import asyncio
import contextlib
import errno
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.errors import ToolError
from a2a_bridge.tool import Result
from tests.hosts import CALL, LOOPS, Machine, alive, all_gone, as_nobody, ok_text, pids, result_text, soon, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="left out: /proc is Linux's own")
# A shell, its child, a child of its child, one in the background, and two that leave its process group (`timeout`
# and job control do so); each writes its id. Then it goes on for long.
FAMILY = """
echo $$ >> pids
sleep 600 & echo $! >> pids
timeout 7000 sleep 600 & echo $! >> pids
set -m; sleep 600 & echo $! >> pids; set +m
bash -c 'trap "" TERM HUP INT; echo $$ >> pids; sleep 600 & echo $! >> pids; echo ready >> ready; wait; wait'
"""


@pytest.fixture(params=LOOPS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, request.param)
    yield machine
    machine.close()


def failed(result: Result) -> str:
    assert result.is_error, result
    return result_text(result)


def refused(here: Machine, command: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        here.bash(command, **arguments)
    return str(caught.value)


def gap(shown: str) -> tuple[str, int, Path, str]:
    """The head, how many bytes are missing, the file with all of them, and the tail."""
    head, missing, path, tail = re.split(r"\n\[… (\d+) bytes left out; all of it is in (\S+) …]\n", shown)
    return head, int(missing), Path(path), tail


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


# What comes back


def test_both_streams_in_order(here: Machine) -> None:
    assert ok_text(here.bash("echo 1; echo 2 >&2; echo 3; echo 4 >&2; printf 5")) == "1\n2\n3\n4\n5"


def test_no_output(here: Machine) -> None:
    assert ok_text(here.bash("true")) == ""
    assert ok_text(here.bash("")) == ""


def test_the_shell_is_bash(here: Machine) -> None:
    assert ok_text(here.bash('a=(x y); [[ -n $BASH_VERSION ]] && echo "${a[1]}"')) == "y\n"


@pytest.mark.parametrize("code", [1, 2, 77, 126, 127, 255])
def test_an_exit_code_is_told(here: Machine, code: int) -> None:
    assert failed(here.bash(f"echo out; exit {code}")) == f"out\n[exit code {code}]"


def test_the_end_is_on_a_line_of_its_own(here: Machine) -> None:
    assert failed(here.bash("printf out; exit 3")) == "out\n[exit code 3]"
    assert failed(here.bash("exit 3")) == "[exit code 3]"


def test_what_the_shell_cannot_run(here: Machine) -> None:
    (here.directory / "plain").write_text("x")
    assert re.fullmatch(r".*no-such-command.*\n\[exit code 127]", failed(here.bash("no-such-command")))
    assert re.fullmatch(r".*denied\n\[exit code 126]", failed(here.bash("./plain")))
    assert re.search(r"syntax error(?s:.*)\[exit code 2]$", failed(here.bash("if then")))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
def test_a_signal_is_told(here: Machine, number: signal.Signals) -> None:
    assert failed(here.bash(f"ulimit -c 0; echo out; kill -{int(number)} $$")) == f"out\n[killed by {number.name}]"


def test_the_death_of_a_child_is_an_exit_code(here: Machine) -> None:
    assert "[exit code 137]" in failed(here.bash("bash -c 'kill -9 $$'; exit $?"))


def test_several_lines(here: Machine) -> None:
    script = """
    add() {
        echo $(($1 + $2))
    }
    for n in 1 2 3; do
        add $n 10   # a comment
    done
    cat <<'END'
here "quoted" $text
END
    """
    assert ok_text(here.bash(script)) == '11\n12\n13\nhere "quoted" $text\n'


@pytest.mark.parametrize("command", ["-c", "--help", "-x; echo no"])
def test_a_command_is_never_an_option(here: Machine, command: str) -> None:
    """It is looked up as a command, which there is none of, whatever it looks like."""
    assert "command not found" in result_text(here.bash(command))


def test_colours_and_progress_are_reduced(here: Machine) -> None:
    """To what a person would have before their eyes at the end."""
    assert ok_text(
        here.bash(r"printf '\033[1;31mred\033[0m\n'; printf '10%%\r50%%\r'; sleep 0.1; printf '100%%\n'")
    ) == ("red\n100%\n")
    assert ok_text(here.bash(r"printf 'unfinished 1\r\033[Kdone'")) == "done"


def test_any_bytes_in_the_output(here: Machine) -> None:
    assert ok_text(here.bash(r"printf '\xff\xfe ok \xc3\xa9 \xe2\x82'")) == "\ufffd\ufffd ok é \ufffd"
    assert ok_text(here.bash(r"printf 'a\0b\r\n'")) == "a\0b\n"


def test_a_character_in_two_writes(here: Machine) -> None:
    assert ok_text(here.bash(r"printf '\xe2'; sleep 0.05; printf '\x82\xac'")) == "€"


def test_non_ascii_commands(here: Machine) -> None:
    assert ok_text(here.bash("echo 'käse 🙂'", env={"K": "Ω"})) == "käse 🙂\n"
    assert ok_text(here.bash("echo $K", env={"K": "Ω"})) == "Ω\n"


def test_a_command_that_closes_its_output(here: Machine) -> None:
    assert failed(here.bash("echo out; exec >&- 2>&-; sleep 0.1; exit 3")) == "out\n[exit code 3]"


def test_an_exec_in_place_of_the_shell(here: Machine) -> None:
    assert ok_text(here.bash("exec echo replaced")) == "replaced\n"
    assert failed(here.bash("exec bash -c 'exit 9'")) == "[exit code 9]"


def test_a_killed_exec(here: Machine) -> None:
    result = here.bash("echo $$ >> pids; exec sleep 600", timeout=0.5)
    assert failed(result).startswith("[timed out after 0.5 s;")
    all_gone(here.directory / "pids")


# Its bounds


@pytest.mark.parametrize("size", [65_535, 65_536])
def test_up_to_64_kib_is_whole(here: Machine, size: int) -> None:
    assert ok_text(here.bash(f"head -c {size} /dev/zero | tr '\\0' x")) == "x" * size


@pytest.mark.parametrize("size", [65_537, 50_000_000])
def test_above_the_middle_is_left_out(here: Machine, size: int) -> None:
    """And all of it lies in a file, as long as the bridge lives."""
    shown = ok_text(here.bash(f"head -c {size} /dev/zero | tr '\\0' x"))
    head, missing, kept, tail = gap(shown)
    assert (head, missing, tail) == ("x" * 32_768, size - 65_536, "x" * 32_768)
    assert kept.read_bytes() == b"x" * size
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    here.run(here.host.close())
    assert not kept.parent.exists()


def test_the_output_of_a_cancelled_call_is_not_kept(here: Machine) -> None:
    """No answer names it, and it would take the room of those that an answer has named."""
    kept = gap(ok_text(here.bash("seq 100000")))[2]

    async def cancel() -> None:
        command = "seq 1000000; touch on; sleep 600"
        running = asyncio.create_task(here.host.call("bash", {"command": command}, CALL))
        await soon((here.directory / "on").exists, "it has written")
        assert len(list(kept.parent.iterdir())) == 2
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    here.run(cancel())
    assert list(kept.parent.iterdir()) == [kept]


def test_a_flood_is_still_told_how_it_ended(here: Machine) -> None:
    shown = failed(here.bash("printf first; head -c 3000000 /dev/zero | tr '\\0' x; printf last; exit 4"))
    assert shown.startswith("firstxxx")
    assert shown.endswith("xxxlast\n[exit code 4]")
    assert gap(shown)[1] == 3_000_009 - 65_536


def test_the_timeout_of_an_endless_flood(here: Machine) -> None:
    shown = failed(here.bash("echo $$ >> pids; yes", timeout=0.5))
    assert shown.startswith("y\ny\n")
    assert "[timed out after 0.5 s" in shown
    assert len(shown) < 70_000
    all_gone(here.directory / "pids")


def test_a_flood_from_the_background_does_not_hold_the_call(here: Machine) -> None:
    shown = ok_text(here.bash("yes & echo $! >> pids; sleep 0.2; echo", timeout=60))
    assert "bytes left out" in shown
    here.run(here.host.close())
    all_gone(here.directory / "pids")


@pytest.mark.parametrize("where", ["command", "env"])
def test_a_command_line_that_no_system_takes(here: Machine, where: str) -> None:
    long = "x" * 3_000_000
    arguments = {"env": {"LONG": long}} if where == "env" else {}
    words = refused(here, f": {long if where == 'command' else ''}", **arguments)
    assert words == f"the shell could not be started in {here.directory}: Argument list too long"
    assert ok_text(here.bash("echo still works")) == "still works\n"


@linux
def test_a_command_line_of_200_kb(here: Machine) -> None:
    assert refused(here, f"echo {'x' * 200_000}").endswith(": Argument list too long")


def test_a_command_line_of_100_kb(here: Machine) -> None:
    assert ok_text(here.bash(f"printf %s '{'x' * 60_000}' | wc -c; : {'y' * 40_000}")).strip() == "60000"


@linux
def test_all_that_lies_in_the_pipe_at_the_end_is_taken(here: Machine) -> None:
    """A pipe may be made to hold a mebibyte; the loop sees its data and the command's end in one glance."""
    (here.directory / "fill.py").write_text("""
import fcntl, os, time
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
open("on", "w")
while not os.path.exists("go"):
    time.sleep(0.01)
assert os.write(1, b"x" * 1_000_000) == 1_000_000
""")

    async def work() -> Result:
        command = f"echo $$ >> pids; exec {sys.executable} fill.py"
        running = asyncio.create_task(here.host.call("bash", {"command": command}, CALL))
        await soon((here.directory / "on").exists, "the command runs")
        (here.directory / "go").touch()
        all_gone(here.directory / "pids")  # while the loop stands still
        return await running

    assert gap(ok_text(here.run(work())))[1] == 1_000_000 - 65_536


# Where it runs, and with what


def test_the_directory(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here.directory / "home"))
    (here.directory / "home").mkdir()
    top = here.directory.resolve()
    assert ok_text(here.bash("pwd -P")) == f"{top}\n"
    assert ok_text(here.bash("pwd -P", cwd=None)) == f"{top}\n"
    assert ok_text(here.bash("pwd -P", cwd="home")) == f"{top}/home\n"
    assert ok_text(here.bash("pwd -P", cwd="~")) == f"{top}/home\n"
    assert ok_text(here.bash("pwd", cwd="/")) == "/\n"


def test_no_such_directory(here: Machine) -> None:
    (here.directory / "file").touch()
    for name in ("missing", "file", "file/below"):
        assert refused(here, "touch ran", cwd=name) == f"cwd {str(here.directory / name)!r} is not a directory"
    assert "NUL" in refused(here, "touch ran", cwd="a\0b")
    assert not (here.directory / "ran").exists()


def test_a_directory_whose_name_is_too_long(here: Machine) -> None:
    refused(here, "true", cwd="x" * 5000)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_directory_that_must_not_be_entered(loop: str) -> None:
    """Where the look at it does not tell, the start does. (pytest's own directories are closed to others.)"""
    top = Path(tempfile.mkdtemp())
    machine = Machine(top, loop)
    try:
        top.chmod(0o755)
        (top / "closed").mkdir(0)
        with as_nobody():
            words = refused(machine, "true", cwd="closed")
            assert words == f"the shell could not be started in {top / 'closed'}: Permission denied"
            assert refused(machine, "true", cwd="closed/below").endswith("is not a directory")
            assert ok_text(machine.bash("echo works")) == "works\n"
    finally:
        machine.close()
        (top / "closed").chmod(0o700)
        shutil.rmtree(top)


def test_nothing_carries_over(here: Machine) -> None:
    (here.directory / "sub").mkdir()
    ok_text(here.bash("cd sub; export CARRIED=1; alias ll=ls; umask 077"))
    assert ok_text(here.bash("pwd -P; echo ${CARRIED-none}")) == f"{here.directory.resolve()}\nnone\n"


def test_variables_are_added(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "from here")
    monkeypatch.setenv("REPLACED", "old")
    shown = here.bash(
        'echo "$INHERITED|$REPLACED|$ADDED|$EMPTY|"', env={"REPLACED": "new", "ADDED": "a b\n$c", "EMPTY": ""}
    )
    assert ok_text(shown) == "from here|new|a b\n$c||\n"
    assert ok_text(here.bash("echo ${ADDED-none}")) == "none\n"
    assert os.environ["REPLACED"] == "old"


def test_the_settings_of_the_bridge_are_its_own(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_BRIDGE_TOKEN", "secret-of-the-bridge")
    monkeypatch.setenv("A2A_BRIDGE_", "secret-too")
    monkeypatch.setenv("A2A_OTHER", "kept")
    shown = ok_text(here.bash("env; echo; tr '\\0' '\\n' < /proc/$$/environ 2>/dev/null || true"))
    assert "A2A_BRIDGE_" not in shown
    assert "secret" not in shown
    assert "A2A_OTHER=kept" in shown
    assert ok_text(here.bash("echo $A2A_BRIDGE_X", env={"A2A_BRIDGE_X": "asked for"})) == "asked for\n"


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"=": "x"}, {"A\0B": "x"}, {"A": "x\0y"}])
def test_variables_that_cannot_be_set(here: Machine, env: dict[str, str]) -> None:
    (name,) = env
    assert refused(here, "touch ran", env=env).startswith(f"env {name!r} cannot be set")
    assert not (here.directory / "ran").exists()


@pytest.mark.parametrize("name", ["a.b", "with-hyphen", "BASH_FUNC_f%%"])
def test_a_variable_that_no_shell_can_name(here: Machine, name: str) -> None:
    shown = ok_text(here.bash("env", env={name: "() { echo set; }"}))
    assert name in shown


def test_nul_in_the_command(here: Machine) -> None:
    assert "NUL" in refused(here, "touch ran; echo a\0b")
    assert not (here.directory / "ran").exists()


def test_a_command_that_is_no_utf8(here: Machine) -> None:
    assert "could not be started" in refused(here, "echo \ud800")
    assert ok_text(here.bash("echo still works")) == "still works\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `command`"),
        ({"command": ["ls"]}, "at `$.command`"),
        ({"command": "true", "timeout": 0}, "at `$.timeout`"),
        ({"command": "true", "timeout": -1}, "at `$.timeout`"),
        ({"command": "true", "timeout": "5"}, "at `$.timeout`"),
        ({"command": "true", "timeout": 1e300}, "at `$.timeout`"),
        ({"command": "true", "env": {"A": 1}}, "at `$.env[...]`"),
        ({"command": "true", "env": ["A=1"]}, "at `$.env`"),
        ({"command": "true", "cwd": 1}, "at `$.cwd`"),
        ({"command": "true", "stdin": "x"}, "unknown field `stdin`"),
    ],
)
def test_wrong_arguments_are_named(here: Machine, arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(here.host.call("bash", arguments, CALL))
    assert str(caught.value).startswith("invalid arguments for bash: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat; echo end", "end\n"),
        ("read -r x; echo $?", "1\n"),
        (f"{sys.executable} -c 'input()' 2>&1 | tail -1", "EOFError: EOF when reading a line\n"),
        # The way of sudo and ssh: they ask the terminal, of which there is none.
        (f"{sys.executable} -W ignore -c 'import getpass; getpass.getpass()' 2>&1 | tail -1", "EOFError\n"),
        ("(exec </dev/tty) 2>/dev/null || echo none", "none\n"),
        ("git log --help 2>/dev/null | head -c 0; seq 5 | ${PAGER:-more} | tail -1", "5\n"),
        ("wc -c | tr -d ' '", "0\n"),
        ("bash -c cat & wait", ""),
    ],
)
def test_stdin_is_empty(here: Machine, command: str, shown: str) -> None:
    assert ok_text(here.bash(command, timeout=60)) == shown


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="left out: there is no ssh-keygen")
def test_nothing_asks_at_the_owners_screen(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh and git would start the desktop's program for it, and wait."""
    asking = here.directory / "askpass"
    asking.write_text(f"#!/bin/sh\ntouch {here.directory}/asked\necho secret\n")
    asking.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_ASKPASS", str(asking))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    ok_text(here.bash("ssh-keygen -q -t ed25519 -N secret -f key"))
    assert "incorrect passphrase" in failed(here.bash("ssh-keygen -y -f key"))
    failed(here.bash("git credential fill <<< $'protocol=https\\nhost=example\\n'", timeout=60))
    assert not (here.directory / "asked").exists()
    shown = ok_text(here.bash("ssh-keygen -y -f key", env={"SSH_ASKPASS": str(asking), "SSH_ASKPASS_REQUIRE": "force"}))
    assert shown.startswith("ssh-ed25519 "), "who calls may decide otherwise"


@linux
def test_a_command_has_no_descriptor_of_the_bridge(here: Machine) -> None:
    """Above all not the guardian's pipe, and not the output of another command."""

    async def look() -> Result:
        other = asyncio.create_task(here.host.call("bash", {"command": "touch on; sleep 600"}, CALL))
        await soon((here.directory / "on").exists, "another command runs")
        found = await here.host.call(
            "bash", {"command": "cd /proc/$$/fd; readlink 0 1 2; for n in *; do [ -h $n ] && echo $n; done; true"}, CALL
        )
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        return found

    stdin, stdout, stderr, *numbers = ok_text(here.run(look())).splitlines()
    assert stdin == "/dev/null"
    assert stdout == stderr
    assert stdout.startswith("pipe:")
    assert set(numbers) <= {"0", "1", "2", "255"}


def test_signals_are_as_usual(here: Machine) -> None:
    """Python ignores SIGPIPE; a command does not."""
    assert ok_text(here.bash("bash -c 'while echo y; do :; done' | head -1; echo ${PIPESTATUS[0]}")) == "y\n141\n"


# Its end


def test_the_timeout_ends_the_whole_group(here: Machine) -> None:
    start = time.monotonic()
    shown = failed(here.bash(f"echo before\n{FAMILY}", timeout=1.5))
    assert 1.5 <= time.monotonic() - start < 5
    assert shown == "before\n[timed out after 1.5 s; the command and its processes were killed]"
    assert len(pids(here.directory / "pids")) == 6
    all_gone(here.directory / "pids")


def test_a_timeout_that_is_not_needed(here: Machine) -> None:
    assert ok_text(here.bash("echo done", timeout=31_536_000)) == "done\n"


def test_a_cancel_ends_the_whole_group_within_half_a_second(here: Machine) -> None:
    async def cancel() -> float:
        running = asyncio.create_task(here.host.call("bash", {"command": FAMILY}, CALL))
        await soon((here.directory / "ready").exists, "all of the family run")
        family = pids(here.directory / "pids")
        assert len(family) == 6
        assert all(map(alive, family))
        start = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await soon(lambda: not any(map(alive, family)), "the family has ended")
        return time.monotonic() - start

    assert here.run(cancel()) < 0.5


def cancelled_at(here: Machine, command: str, when: Callable[[int], bool]) -> None:
    """Cancel a command after each number of turns of its loop, from none on, until `when` says enough."""

    async def cancel(turns: int) -> None:
        running = asyncio.create_task(here.host.call("bash", {"command": command}, CALL))
        for _ in range(turns):
            await asyncio.sleep(0)
            time.sleep(0.005)  # for the threads that the next turn hears from
        # The loop stands still while the command goes on as far as it can.
        time.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    turns = 0
    while not when(turns):
        here.run(cancel(turns))
        turns += 1


def test_a_cancel_at_any_moment_ends_the_whole_group(here: Machine) -> None:
    """Also while the loop has not yet told that the process has begun."""
    ok_text(here.bash("true"))
    cancelled_at(here, "sleep 600 & echo $! >> pids; wait", lambda turns: turns == 12)
    assert pids(here.directory / "pids"), "no command came far enough to be worth the test"
    all_gone(here.directory / "pids")


def test_a_cancel_at_any_moment_leaks_no_descriptor(here: Machine) -> None:
    ok_text(here.bash("true"))
    before = descriptors()
    cancelled_at(here, "sleep 600", lambda turns: turns == 12)
    until(lambda: descriptors() <= before, "all descriptors are closed")


def test_two_cancels_leak_no_descriptor(here: Machine) -> None:
    async def cancel() -> None:
        running = asyncio.create_task(here.host.call("bash", {"command": "echo $$ >> pids; sleep 600"}, CALL))
        await soon(lambda: bool(pids(here.directory / "pids")), "the command runs")
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    ok_text(here.bash("true"))
    before = descriptors()
    here.run(cancel())
    all_gone(here.directory / "pids")
    until(lambda: descriptors() <= before, "all descriptors are closed")


def test_calls_leak_no_descriptor(here: Machine) -> None:
    ok_text(here.bash("true"))
    before = descriptors()
    for _ in range(5):
        here.bash("echo out; exit 1")
        here.bash("sleep 600", timeout=0.01)
        refused(here, "true", cwd="missing")
        refused(here, "x" * 3_000_000)
    assert descriptors() <= before


def test_what_goes_on_in_the_background_does_not_hold_the_call(here: Machine) -> None:
    start = time.monotonic()
    assert ok_text(here.bash("sleep 600 & echo $! >> pids; echo hi")) == "hi\n"
    assert time.monotonic() - start < 5
    (sleeper,) = pids(here.directory / "pids")
    ok_text(here.bash("true"))
    assert alive(sleeper), "a command may start something that stays"
    here.run(here.host.close())
    until(lambda: not alive(sleeper), "the sleeper is gone with the host")


def test_what_was_put_into_the_background_dies_with_a_cancelled_call(here: Machine) -> None:
    shown = failed(here.bash("sleep 600 & echo $! >> pids; sleep 600", timeout=0.5))
    assert shown.startswith("[timed out")
    all_gone(here.directory / "pids")


# What leaves its session


AWAY = f"""{sys.executable} -c '
import os
if os.fork() == 0:
    os.setsid()
    open("pids", "a").write(str(os.getpid()) + chr(10))
    os.execvp("sleep", ["sleep", "600"])
'"""


@linux
def test_a_timeout_finds_what_has_left_the_session(here: Machine) -> None:
    assert "[timed out" in failed(here.bash(f"{AWAY}; sleep 600", timeout=2))
    assert len(pids(here.directory / "pids")) == 1
    all_gone(here.directory / "pids")


@linux
def test_a_timeout_ends_its_own_command_only(here: Machine) -> None:
    ok_text(here.bash(AWAY))
    failed(here.bash("sleep 600", timeout=0.1))
    (other,) = pids(here.directory / "pids")
    assert alive(other), "who has left a command that ended well stays, to the bridge's end"
    here.run(here.host.close())
    all_gone(here.directory / "pids")


@linux
def test_a_variable_cannot_take_the_mark_away(here: Machine) -> None:
    failed(here.bash(f"{AWAY}; sleep 600", timeout=2, env={"A2A_COMMAND": "mine"}))
    all_gone(here.directory / "pids")


@linux
def test_who_gives_up_the_mark_too_is_let_go(here: Machine) -> None:
    """The documented way to leave something running."""
    ok_text(
        here.bash("env -u A2A_COMMAND setsid sh -c 'echo $$ >> pids; exec sleep 600' & while ! [ -s pids ]; do :; done")
    )
    (free,) = pids(here.directory / "pids")
    here.run(here.host.close())
    try:
        assert alive(free)
    finally:
        os.kill(free, signal.SIGKILL)


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="left out: only root may become somebody whose processes are counted")
def test_a_fork_bomb_is_ended(here: Machine) -> None:
    """Of another user's processes, so that the limit of their number holds; each goes on forking where it can."""
    bomb = f"""{sys.executable} -c '
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
os.setuid(54321)
while True:
    try:
        if os.fork() == 0 and os.getpid() % 3 == 0:
            os.setsid()
    except OSError:
        pass
'"""

    def bombs() -> list[str]:
        owned = []
        for one in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if one.stat().st_uid == 54321 and alive(int(one.name)):
                    owned.append(one.name)
        return owned

    async def work() -> Result:
        running = asyncio.create_task(here.host.call("bash", {"command": bomb, "timeout": 60}, CALL))
        await soon(lambda: len(bombs()) > 40, "it has grown")
        running.cancel()
        return (await asyncio.gather(running, return_exceptions=True))[0]  # type: ignore[return-value]

    assert isinstance(here.run(work()), asyncio.CancelledError)
    until(lambda: not bombs(), "nothing is left of it")


# The longest that a command may run


def test_a_maximum_holds_where_nothing_is_asked_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path, max_command_seconds=0.5)
    try:
        assert failed(machine.bash("sleep 600")).startswith("[timed out after 0.5 s")
        assert failed(machine.bash("sleep 600", timeout=0.2)).startswith("[timed out after 0.2 s")
        assert refused(machine, "touch ran", timeout=0.6) == "timeout 0.6 is over this host's maximum of 0.5 s"
        assert not (tmp_path / "ran").exists()
    finally:
        machine.close()


def test_fifty_at_once(here: Machine) -> None:
    """Each waits for all the others, so none ends unless all run."""
    command = """
    touch "at.$N"; set -- at.*
    while [ $# -lt 50 ]; do sleep 0.2; set -- at.*; done
    echo "this is $N"; echo "and this" >&2; exit $N
    """

    async def all_of_them() -> list[Result]:
        calls = ({"command": command, "env": {"N": str(n)}, "timeout": 120} for n in range(50))
        return await asyncio.gather(*(here.host.call("bash", call, CALL) for call in calls))

    first, *others = here.run(all_of_them())
    assert ok_text(first) == "this is 0\nand this\n"
    assert [failed(one) for one in others] == [f"this is {n}\nand this\n[exit code {n}]" for n in range(1, 50)]


def test_the_loop_goes_on_meanwhile(here: Machine) -> None:
    async def ticks() -> int:
        running = asyncio.create_task(here.host.call("bash", {"command": "sleep 0.5"}, CALL))
        count = 0
        while not running.done():
            await asyncio.sleep(0.01)
            count += 1
        return count

    assert here.run(ticks()) > 5


# Where the system is less than it should be


@pytest.fixture
def without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, everywhere."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("without_pidfd")
def test_ends_are_told_without_pidfd(here: Machine) -> None:
    assert ok_text(here.bash("echo out")) == "out\n"
    assert failed(here.bash("exit 3")) == "[exit code 3]"
    assert failed(here.bash("kill -9 $$")) == "[killed by SIGKILL]"
    assert failed(here.bash(FAMILY, timeout=1.0)).startswith("[timed out after 1 s")
    all_gone(here.directory / "pids")


@pytest.mark.usefixtures("without_pidfd")
def test_a_cancel_without_pidfd(here: Machine) -> None:
    test_a_cancel_ends_the_whole_group_within_half_a_second(here)


@pytest.mark.usefixtures("without_pidfd")
def test_long_commands_do_not_hold_up_short_ones_without_pidfd(here: Machine) -> None:
    count = min(32, (os.cpu_count() or 1) + 4)

    async def work() -> None:
        command = "echo $$ >> pids; exec sleep 600"
        long = [asyncio.create_task(here.host.call("bash", {"command": command}, CALL)) for _ in range(count)]
        await soon(lambda: len(pids(here.directory / "pids")) == count, "all run")
        try:
            async with asyncio.timeout(5):
                ok_text(await here.host.call("bash", {"command": "true"}, CALL))
        finally:
            for one in long:
                one.cancel()
            await asyncio.gather(*long, return_exceptions=True)

    here.run(work())


@linux
def test_a_kernel_without_pidfd(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old one, or one behind a seccomp filter."""

    def refuse(*_: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert ok_text(here.bash("echo out")) == "out\n"


def test_no_descriptor_left_for_a_guardian(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    ok_text(here.bash("true"))
    before = descriptors()
    monkeypatch.setattr(here.host._workspace.guardian, "pipe", refuse)
    assert "Too many open files" in refused(here, "true")
    assert descriptors() == before


def test_a_cancel_right_after_the_end_of_the_host(here: Machine) -> None:
    async def end() -> type[BaseException]:
        running = asyncio.create_task(here.host.call("bash", {"command": "touch on; sleep 600"}, CALL))
        await soon((here.directory / "on").exists, "the command runs")
        await here.host.close()
        running.cancel()
        with pytest.raises(BaseException) as caught:
            await running
        return caught.type

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a process that nobody has waited for: told here, not in a later test
        how = here.run(end())
        gc.collect()
    assert how is asyncio.CancelledError


def test_after_the_end_the_host_is_gone(here: Machine) -> None:
    here.run(here.host.close())
    refused(here, "true")
