"""What the local host says of a call before it runs: what it would do, where, what it would change; and `halt`."""

import os
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.approval.policy import Policy
from a2a_bridge.errors import ToolError, UnknownTool
from a2a_bridge.hosts.local import write
from a2a_bridge.hosts.local.host import TOOLS
from a2a_bridge.tool import Access
from tests.hosts import CALL, LOOPS, Machine, alive, ok_text, pids, until


def access(here: Machine, name: str, **arguments: Any) -> Access:
    return here.host.access(name, arguments)


def preview(here: Machine, name: str, **arguments: Any) -> str:
    return here.run(here.host.preview(name, arguments))


def would_fail(here: Machine, name: str, **arguments: Any) -> str:
    """The reason, which the call itself gives too."""
    with pytest.raises(ToolError) as shown:
        preview(here, name, **arguments)
    with pytest.raises(ToolError):
        here.run(here.host.call(name, arguments, CALL))
    return str(shown.value)


@pytest.mark.parametrize(
    ("name", "arguments", "tier"),
    [
        ("read", {"path": "f"}, "read"),
        ("grep", {"pattern": "x"}, "read"),
        ("glob", {"pattern": "x"}, "read"),
        ("write", {"path": "f", "content": ""}, "write"),
        ("edit", {"path": "f", "edits": [{"old": "a", "new": "b"}]}, "write"),
        ("bash", {"command": "true"}, "exec"),
        ("job", {"action": "list"}, "read"),
        ("job", {"action": "poll", "id": 1}, "read"),
        ("job", {"action": "wait", "id": 1}, "read"),
        ("job", {"action": "kill", "id": 1}, "exec"),
        ("job", {"action": "input", "id": 1, "text": "x"}, "exec"),
    ],
)
def test_the_tier_of_each_call(here: Machine, name: str, arguments: dict[str, Any], tier: str) -> None:
    found = here.host.access(name, arguments)
    assert (found.tier, found.directory) == (tier, str(here.directory))
    assert (found.command is None) is (name != "bash")


def test_every_tool_has_a_tier_here() -> None:
    assert {tool.definition.name for tool in TOOLS} == {"read", "grep", "glob", "write", "edit", "bash", "job"}


def test_a_command_and_where_it_would_run(here: Machine) -> None:
    place = str(here.directory)
    assert access(here, "bash", command="git  status") == Access("exec", place, "git  status")
    assert access(here, "bash", command="x", cwd=".") == Access("exec", place, "x")
    assert access(here, "bash", command="x", cwd=place) == Access("exec", place, "x")
    assert access(here, "bash", command="x", env={}) == Access("exec", place, "x")
    assert access(here, "bash", command="x", cwd="sub") == Access("exec", f"{place}/sub", "x", usual=False)
    assert access(here, "bash", command="x", cwd="..") == Access("exec", f"{place}/..", "x", usual=False)
    assert access(here, "bash", command="x", cwd="/") == Access("exec", "/", "x", usual=False)
    assert access(here, "bash", command="x", cwd="~") == Access("exec", str(Path.home()), "x", usual=False)
    assert access(here, "bash", command="x", env={"CI": "1"}) == Access("exec", place, "x", usual=False)
    assert access(here, "bash", command="x", background=True, timeout=1).usual


def test_a_directory_whose_name_cannot_be_read_is_shown_as_bash_takes_it(here: Machine) -> None:
    """Bytes that are no text, on their way to the owner, would make all of the answer unreadable."""
    found = access(here, "bash", command="x", cwd="$'a\\xff'").directory
    assert found == f"$'{here.directory}/a\\xff'"
    assert access(here, "bash", command="x", cwd="a\u202e").directory == f"$'{here.directory}/a\\xe2\\x80\\xae'"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("bash", {}, "invalid arguments for bash: .*missing required field `command`"),
        ("bash", {"command": 1}, "invalid arguments for bash"),
        ("bash", {"command": "x", "cmd": "y"}, "unknown field `cmd`"),
        ("bash", {"command": "x", "cwd": "a\0"}, "holds a NUL character"),
        ("bash", {"command": "x", "cwd": "~no-such-user/x"}, "no such user's home directory"),
        ("bash", {"command": "a\0b"}, "command holds a NUL character"),
        ("bash", {"command": "x", "env": {"A=": "b"}}, "env 'A=' cannot be set"),
        ("bash", {"command": "x", "timeout": 61}, "timeout 61 is over this host's maximum of 60 s"),
        ("job", {"action": "stop"}, "invalid arguments for job"),
        ("job", {"action": "kill"}, "id is missing"),
        ("job", {"action": "kill", "id": 1, "text": "x"}, "text belongs to the action input, not to kill"),
        ("write", {"path": "new/", "content": ""}, "ends like a directory"),
        ("write", {"path": "f", "content": "\ud800"}, "half a character"),
        ("edit", {"path": "a\0", "edits": [{"old": "a", "new": "b"}]}, "holds a NUL character"),
        ("read", [], "invalid arguments for read"),
        ("write", None, "invalid arguments for write"),
    ],
)
def test_what_would_be_refused_is_refused_at_once(tmp_path: Path, name: str, arguments: object, words: str) -> None:
    here = Machine(tmp_path, max_command_seconds=60)
    with pytest.raises(ToolError, match=words):
        here.host.access(name, arguments)
    with pytest.raises(ToolError, match=words):
        here.run(here.host.call(name, arguments, CALL))
    here.close()


def test_an_unknown_tool_is_unknown_here_too(here: Machine) -> None:
    with pytest.raises(UnknownTool):
        access(here, "no-such-tool")
    with pytest.raises(UnknownTool):
        preview(here, "no-such-tool")


# What it would change.


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("read", {"path": "f"}), ("bash", {"command": "rm f"}), ("job", {"action": "list"}), ("glob", {"pattern": "x"})],
)
def test_a_call_that_changes_no_text_has_nothing_to_show(here: Machine, name: str, arguments: dict[str, Any]) -> None:
    assert preview(here, name, **arguments) == ""


def test_an_edit_shows_the_difference_that_it_would_answer_and_makes_none(here: Machine) -> None:
    file = here.directory / "f"
    file.write_text("one\ntwo\nthree\n")
    arguments = {"path": "f", "edits": [{"old": "two", "new": "2"}]}
    shown = preview(here, "edit", **arguments)
    assert file.read_text() == "one\ntwo\nthree\n"
    assert shown.splitlines()[-4:] == [" one", "-two", "+2", " three"]
    answer = ok_text(here.run(here.host.call("edit", arguments, CALL)))
    assert answer.partition("\n")[2] == shown


@pytest.mark.parametrize("path", ["missing", "directory", "fifo", "/dev/zero"])
def test_an_edit_that_would_fail_says_why(here: Machine, path: str) -> None:
    (here.directory / "directory").mkdir()
    os.mkfifo(here.directory / "fifo")
    assert path in would_fail(here, "edit", path=path, edits=[{"old": "a", "new": "b"}])


def test_an_edit_whose_text_is_not_there_would_fail(here: Machine) -> None:
    (here.directory / "f").write_text("one\n")
    assert "nothing was written" in would_fail(here, "edit", path="f", edits=[{"old": "two", "new": "2"}])


def test_a_write_shows_the_difference_to_the_file_as_it_is(here: Machine) -> None:
    file = here.directory / "f"
    assert preview(here, "write", path="f", content="x\n") == f"{file} does not exist yet"
    file.write_text("one\ntwo\n")
    assert preview(here, "write", path="f", content="one\n2\n").splitlines()[2:] == [
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]
    assert preview(here, "write", path="f", content="one\ntwo\n") == "[no change]"
    assert (
        preview(here, "write", path="f", content="x", append=True)
        == f"added to the end of {file}, which has 8 bytes now"
    )
    assert file.read_text() == "one\ntwo\n"
    file.write_text("")
    assert preview(here, "write", path="f", content="x\n").splitlines()[-1] == "+x"


def test_a_write_over_what_is_no_utf8_says_so(here: Machine) -> None:
    file = here.directory / "f"
    file.write_bytes(b"\xff\xfea\0\n\0")
    assert preview(here, "write", path="f", content="b\n").startswith(
        "[it is UTF-16-LE with BOM now, and will be UTF-8]\n"
    )
    file.write_bytes(b"\x7fELF\0\0\0\1")
    assert preview(here, "write", path="f", content="b\n").startswith(f"put in the place of {file}: it is not text (")
    file.write_bytes("é\n".encode() * 10 + b"\xff\n")
    shown = preview(here, "write", path="f", content="b\n")
    assert "-\ufffd" in shown
    assert shown.encode()


@pytest.mark.parametrize("path", ["directory", "fifo", "/dev/zero", "/dev/tty", "new/", "f/x"])
def test_a_write_that_would_fail_says_so_and_waits_for_nothing(here: Machine, path: str) -> None:
    """To show a question must not read a device to its end, nor wait until somebody writes into a FIFO."""
    (here.directory / "directory").mkdir()
    (here.directory / "f").touch()
    os.mkfifo(here.directory / "fifo")
    assert path.rstrip("/") in would_fail(here, "write", path=path, content="x")


def test_half_a_character_would_fail(here: Machine) -> None:
    assert "half a character" in would_fail(here, "write", path="f", content="\ud800")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no /proc")
def test_a_file_that_tells_no_size_is_read_no_further_than_is_compared(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_MAX_COMPARED_BYTES", 10)
    assert preview(here, "write", path="/proc/uptime", content="x") == (
        "put in the place of /proc/uptime, which has 0 bytes now"
    )
    assert len(write._beginning(Path("/proc/uptime"))) == 11


def test_a_large_change_is_told_and_not_compared(here: Machine) -> None:
    file = here.directory / "f"
    file.write_text("x" * (1024 * 1024 + 1))
    words = f"put in the place of {file}, which has 1048577 bytes now"
    assert preview(here, "write", path="f", content="y") == words
    file.write_text("x")
    assert preview(here, "write", path="f", content="y" * (1024 * 1024 + 1)).endswith("which has 1 byte now")


# The end of all work.


@pytest.mark.parametrize("loop", LOOPS)
def test_halt_ends_background_jobs_with_their_processes_and_more_may_come(tmp_path: Path, loop: str) -> None:
    here = Machine(tmp_path, loop)
    try:
        file = tmp_path / "running"
        for _ in range(3):
            ok_text(here.bash(f"sleep 600 & echo $$ $! >> {file}; wait", background=True))
        until(lambda: len(pids(file)) == 6, "they run")
        here.run(here.host.halt())
        assert not [pid for pid in pids(file) if alive(pid)]
        assert here.host.name == "local"
        here.run(here.host.halt())
        assert ok_text(here.bash("echo on", background=True)).startswith("job 4 runs")
    finally:
        here.close()


@pytest.mark.parametrize(
    ("name", "opaque"),
    [
        ("BASH_ENV", True),
        ("ENV", True),
        ("PATH", True),
        ("LD_PRELOAD", True),
        ("BASH_FUNC_ls%%", True),
        ("CI", False),
        ("MY_PATH", False),
        ("PATHS", False),
    ],
)
def test_variables_that_say_what_runs_make_a_line_unreadable(here: Machine, name: str, opaque: bool) -> None:
    found = access(here, "bash", command="ls", env={name: "x"})
    assert (found.opaque, found.usual) == (opaque, False)
    denying = Policy("yolo", {"bash(rm *)": "deny"})
    assert (denying.decide("bash", found).verdict == "deny") is opaque


@pytest.mark.parametrize("kind", ["directory", "file", "nothing"])
def test_where_a_symlink_leads_is_shown(here: Machine, kind: str) -> None:
    there = here.directory / "there"
    there.mkdir()
    if kind == "file":
        (there / "f").write_text("old\n")
    if kind == "directory":
        (here.directory / "docs").symlink_to(there)
    else:
        (here.directory / "docs").mkdir()
        (here.directory / "docs" / "f").symlink_to(there / "f")
    assert f", which is {there}/f" in preview(here, "write", path="docs/f", content="x\n")
    if kind == "file":
        edits = [{"old": "old", "new": "new"}]
        assert f", which is {there}/f" in preview(here, "edit", path="docs/f", edits=edits)


def test_a_job_is_shown_by_its_command(here: Machine) -> None:
    ok_text(here.run(here.host.call("bash", {"command": "sleep 1000", "background": True}, CALL)))
    assert preview(here, "job", action="kill", id=1) == "job 1: sleep 1000"
    assert "there is no job 7" in would_fail(here, "job", action="input", id=7, text="x")
