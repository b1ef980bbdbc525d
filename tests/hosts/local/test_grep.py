"""The tool `grep`: which lines it shows and how, what it leaves out and says so, and what cannot stop it."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local import grep as module
from a2a_bridge.hosts.local.grep import GREP, LONGEST_LINE, MOST_COLUMNS, MOST_MATCHES
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.search.glob_pattern import GlobPattern
from tests.hosts import LOOPS, Machine, ok_text, soon
from tests.hosts.local.search.test_ripgrep import nobody

LEFT_OUT = "; hidden and ignored files were left out (set hidden or no_ignore)"


def grep(here: Machine, pattern: str, **arguments: Any) -> str:
    return ok_text(here.run(GREP({"pattern": pattern, **arguments}, here.host._workspace)))


def refused(here: Machine, pattern: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        grep(here, pattern, **arguments)
    return str(caught.value)


def make(here: Machine, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = here.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


# What is shown


def test_lines_by_path_and_number(here: Machine) -> None:
    make(here, {"b": "x1\n\nx2\n", "a/c": "no\nx3", "a.c": "x4", "B": "x5\n", "ä": "x6"})
    assert grep(here, "x") == "B:1:x5\na.c:1:x4\na/c:2:x3\nb:1:x1\nb:3:x2\nä:1:x6"


def test_one_file(here: Machine) -> None:
    make(here, {"d/a": "x1\n", "d/b": "x2\n"})
    assert grep(here, "x", path="d/b") == "d/b:1:x2"
    assert grep(here, "x", path="d") == "d/a:1:x1\nd/b:1:x2"


def test_context(here: Machine) -> None:
    make(here, {"a": "1\n2\nx\n4\n5\n6\nx\nx\n9\n", "b": "x\nafter\n", "c": "none\n"})
    shown = "a-2-2\na:3:x\na-4-4\n--\na-6-6\na:7:x\na:8:x\na-9-9\n--\nb:1:x\nb-2-after"
    assert grep(here, "x", context=1) == shown
    assert grep(here, "x", context=2).startswith("a-1-1\na-2-2\na:3:x\na-4-4\na-5-5\na-6-6\na:7:x")


def test_context_of_a_limit(here: Machine) -> None:
    make(here, {"a": "1\nx\n3\n4\n5\nx\n7\nx\n9\n"})
    note = "3 matching lines; narrow pattern, path or glob, or raise limit]"
    assert grep(here, "x", context=1, limit=1) == f"a-1-1\na:2:x\na-3-3\n[1 of {note}"
    assert grep(here, "x", context=1, limit=2) == f"a-1-1\na:2:x\na-3-3\n--\na-5-5\na:6:x\na-7-7\n[2 of {note}"


@pytest.mark.parametrize(
    ("pattern", "arguments", "shown"),
    [
        ("ab", {}, "f:1:ab"),
        ("ab", {"ignore_case": True}, "f:1:ab\nf:2:AB"),
        (r"^\w+$", {}, "f:1:ab\nf:2:AB\nf:4:é"),
        ("--files", {}, "f:3:--files -e x"),
        ("-e x", {}, "f:3:--files -e x"),
        ("é", {}, "f:4:é"),
        (r"a\.b", {}, f"no matches in 1 file{LEFT_OUT}"),
        ("", {"limit": 1}, "f:1:ab\n[1 of 4 matching lines; narrow pattern, path or glob, or raise limit]"),
    ],
)
def test_patterns(here: Machine, pattern: str, arguments: dict[str, Any], shown: str) -> None:
    make(here, {"f": "ab\nAB\n--files -e x\né\n"})
    assert grep(here, pattern, **arguments) == shown


@pytest.mark.parametrize("pattern", ["two\nthree", r"two\nthree", r"(?m)two$\n^three"])
def test_a_pattern_of_several_lines(here: Machine, pattern: str) -> None:
    make(here, {"f": "one\ntwo\nthree\nfour\n"})
    assert grep(here, pattern) == "f:2:two\nf:3:three"


def test_lines_that_end_with_crlf(here: Machine) -> None:
    make(here, {"f": "one\r\ntwo\r\n"})
    assert grep(here, "one$", context=1) == "f:1:one\nf-2-two"


def test_encodings(here: Machine) -> None:
    make(here, {"16": "\ufeffgrün x\n".encode("utf-16-le"), "8": "\ufeffx grün\n", "bad": b"x \xff\xe9 y\n"})
    assert grep(here, "x") == "16:1:grün x\n8:1:x grün\nbad:1:x \ufffd\ufffd y"


def test_binary_files(here: Machine) -> None:
    late = b"x\n" + b"y\n" * 100_000 + b"\0x\n"
    make(here, {"b": b"\0x\n", "late": late, "text": "x\n"})
    first, second, third = grep(here, "x").split("\n")
    assert (first, third) == ("late:1:x", "text:1:x")
    assert second.startswith("late: WARNING: stopped searching binary file after match")
    assert grep(here, "x", path="b") == 'b: binary file matches (found "\\0" byte around offset 0)'
    assert grep(here, "x", files_only=True) == "late\ntext"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (0, 0, "N"),
        (LONGEST_LINE // 2, 0, "a" * (LONGEST_LINE // 2) + "N"),
        (0, 500, "N" + "b" * 399 + "… [line of 501 bytes cut; column 1]"),
        (500, 200, "…" + "a" * 100 + "N" + "b" * 200 + " [line of 701 bytes cut; column 501]"),
        (500, 500, "…" + "a" * 100 + "N" + "b" * 299 + "… [line of 1,001 bytes cut; column 501]"),
        (500, 10_000, "…" + "a" * 100 + "N" + "b" * 299 + "… [line of over 1,024 bytes cut; column 501]"),
        (10_000, 9, "a" * 400 + "… [line of over 1,024 bytes cut; column 10,001]"),
    ],
)
def test_a_long_line_is_cut_around_its_match(here: Machine, before: int, after: int, shown: str) -> None:
    make(here, {"f": "a" * before + "N" + "b" * after + "\nN\n"})
    assert grep(here, "N") == f"f:1:{shown}\nf:2:N"


def test_no_character_is_cut_in_two(here: Machine) -> None:
    for shift in range(4):
        make(here, {"f": "a" * shift + "€😀" * 100 + "N" + "€😀" * 100})
        assert grep(here, "N").startswith("f:1:…"), "it is cut at both ends"
        assert "\ufffd" not in grep(here, "N")
        assert "\ufffd" not in grep(here, "€")


def test_a_line_of_one_endless_character(here: Machine) -> None:
    make(here, {"a": "N" + "\u0301" * 1_000_000 + "\nN\n", "b": "N\n"})
    first, *others = grep(here, "N").split("\n")
    assert len(first) < 2 * LONGEST_LINE
    assert others == ["a:2:N", "b:1:N"]


def test_nothing_found(here: Machine) -> None:
    make(here, {"a": "x", "b": "x", ".c": "x"})
    assert grep(here, "y") == f"no matches in 2 files{LEFT_OUT}"
    assert grep(here, "y", files_only=True) == f"no matches{LEFT_OUT}"
    assert grep(here, "y", hidden=True, no_ignore=True) == "no matches in 3 files"
    assert grep(here, "y", glob="*.py") == f"no matches in 0 files{LEFT_OUT}"
    assert grep(here, "y", path="a") == "no matches in 1 file", "nothing of a file is left out"


def test_files_only(here: Machine) -> None:
    make(here, {f"d{number % 3}/f{number:02}": "x\nx\n" for number in range(20)} | {"none": "y"})
    paths = sorted(f"d{number % 3}/f{number:02}" for number in range(20))
    assert grep(here, "x", files_only=True, context=5).split("\n") == paths
    assert grep(here, "x", files_only=True, limit=3).split("\n") == [
        *paths[:3],
        "[3 of 20 files; narrow pattern, path or glob, or raise limit]",
    ]


# Its bounds


def test_more_is_said_exactly(here: Machine) -> None:
    make(here, {f"f{number:03}": "x\n" * 7 for number in range(300)})
    lines = grep(here, "x").split("\n")
    assert lines[:8] == [*(f"f000:{number}:x" for number in range(1, 8)), "f001:1:x"]
    assert lines[200:] == ["[200 of 2,100 matching lines; narrow pattern, path or glob, or raise limit]"]
    assert lines[199] == "f028:4:x"
    assert grep(here, "x", limit=2100).count("\n") == 2099


def test_a_long_answer_is_cut(here: Machine) -> None:
    make(here, {f"f{number:03}": "x" * 300 + "\n" for number in range(400)})
    *lines, note = grep(here, "x", limit=400).split("\n")
    assert lines == [f"f{number:03}:1:{'x' * 300}" for number in range(len(lines))]
    assert len(lines) == ripgrep.MOST_ANSWER_BYTES // 308
    assert note == f"[{len(lines)} of 400 matching lines; narrow pattern, path or glob]"


def collected(pieces: Iterator[bytes], **arguments: Any) -> module._Lines:
    """What is made of ripgrep's output."""
    lines = module._Lines(module.Grep("x", **arguments), GlobPattern("**", Path("/top")))
    lines.take(pieces)
    return lines


def test_what_is_held_meanwhile_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files come in the worst order, and those shown are the first all the same."""
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 1000)
    pieces = (b"./f%04d\0%d:1:some words x\n" % (file, line) for file in range(999, -1, -1) for line in range(1, 31))
    found = collected(pieces, limit=31)
    assert found.total == 30_000
    assert len(found._files) < 100
    shown = [line for line, _ in found.shown(str)]
    assert shown == [*(f"f0000:{number}:some words x" for number in range(1, 31)), "f0001:1:some words x"]


@pytest.mark.parametrize(("limit", "held"), [(3, 4), (10_000, ripgrep.MOST_ANSWER_BYTES // 12 + 2)])
def test_what_is_held_of_one_file_is_bounded(limit: int, held: int) -> None:
    found = collected((b"./f\0%d:1:some words x\n" % line for line in range(1, 9001)), limit=limit)
    assert found.total == 9000
    assert len(found._files["f"].lines) <= held


def test_ripgrep_itself_holds_little_of_a_file(here: Machine) -> None:
    """What it prints of one, it holds first."""
    make(here, {"long": ("x" * 1_000_000 + "\n") * 20, "many": "x\n" * (MOST_MATCHES + 9)})
    options = module._options(module.Grep("x"), GlobPattern("**", here.directory))

    def printed(name: str) -> bytes:
        return here.run(ripgrep.run(here.host._workspace, here.directory / name, options, b"".join)).value

    assert len(printed("long")) < 20 * 2 * MOST_COLUMNS
    assert printed("many").count(b"./many\0") == MOST_MATCHES


def test_a_remark_about_a_file_is_not_taken_for_a_name() -> None:
    remark = b'WARNING: stopped searching binary file after match (found "\\0" byte around offset 9)'
    found = collected(iter([b"./a\0001:1:x\n./a: " + remark + b"\n./b\0002:1:x\n\n3 matches\n4 files searched\n"]))
    assert [line for line, _ in found.shown(str)] == ["a:1:x", f"a: {remark.decode()}", "b:2:x"]
    assert (found.total, found.searched) == (2, 4)


@pytest.mark.parametrize("files", [1, 10])
def test_a_search_that_finds_too_much_ends(here: Machine, files: int) -> None:
    make(here, {f"f{number}": "x\n" * 100_000 for number in range(files)})
    *lines, note = grep(here, "x", limit=3).split("\n")
    name = lines[0].partition(":")[0]
    assert lines == [f"{name}:{number}:x" for number in (1, 2, 3)]
    assert note == (
        f"[3 of {MOST_MATCHES:,} or more matching lines, of those found first; "
        "narrow pattern, path or glob, or raise limit]"
    )


def test_a_file_that_grows_while_it_is_read(here: Machine) -> None:
    """It grows as long as it is read, so only the bound ends it."""
    ended = threading.Event()

    def grow() -> None:
        with (here.directory / "f").open("ab", buffering=0) as file:
            while not ended.is_set():
                file.write(b"x\n" * 5000)

    make(here, {"f": "x\n"})
    growing = threading.Thread(target=grow)
    growing.start()
    try:
        shown = grep(here, "x", limit=1)
    finally:
        ended.set()
        growing.join()
    assert shown.startswith("f:1:x\n[1 of ")


def test_a_file_that_shrinks_while_it_is_read(here: Machine) -> None:
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            os.truncate(here.directory / "f", 0)
            os.truncate(here.directory / "f", 50_000_000)

    make(here, {"f": b""})
    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(10):
            assert grep(here, "x", path="f") == "no matches in 1 file"
    finally:
        ended.set()
        changing.join()


# What is searched


def test_what_is_hidden_or_ignored(here: Machine) -> None:
    files = ["a.py", "b.log", ".c.py", ".d/e.py", ".git/f.py", "build/g.py", "s/h.py", "s/i.log", "s/.j.py"]
    make(here, dict.fromkeys(files, "x\n") | {".gitignore": "*.log\nbuild/\n"})

    def found(**arguments: Any) -> list[str]:
        return grep(here, "x", files_only=True, **arguments).split("\n")

    assert found() == ["a.py", "s/h.py"]
    assert found(glob="*.py") == ["a.py", "s/h.py"]
    assert found(glob="s/*") == ["s/h.py"]
    assert found(glob="*.log") == [f"no matches{LEFT_OUT}"], "a glob does not bring back what is ignored"
    assert found(path="s") == ["s/h.py"]
    assert found(path="b.log") == ["b.log"], "what is named is searched"
    assert found(path="build") == ["build/g.py"]
    assert found(hidden=True) == [".c.py", ".d/e.py", "a.py", "s/.j.py", "s/h.py"]
    assert found(hidden=True, glob="*.py") == found(hidden=True)
    assert found(no_ignore=True) == ["a.py", "b.log", "build/g.py", "s/h.py", "s/i.log"]
    assert found(no_ignore=True, glob="*.log") == ["b.log", "s/i.log"]
    assert found(hidden=True, no_ignore=True) == sorted([*files])


def test_globs(here: Machine) -> None:
    make(here, dict.fromkeys(["a.py", "s/b.py", "s/t/c.ts", "s/é.ts", "n/m/d.py", "s/x:y"], "x\n"))

    def found(glob: str) -> list[str]:
        by_line = [line.removesuffix(":1:x") for line in grep(here, "x", glob=glob).split("\n")]
        assert grep(here, "x", glob=glob, files_only=True).split("\n") == by_line
        return by_line

    assert found("*.py") == ["a.py", "n/m/d.py", "s/b.py"]
    assert found("s/**/*.{py,ts}") == ["s/b.py", "s/t/c.ts", "s/é.ts"]
    assert found("?.ts") == ["s/t/c.ts", "s/é.ts"]
    assert found("x:y") == ["s/x:y"]
    assert found("!*.py") == ["s/t/c.ts", "s/x:y", "s/é.ts"]
    assert found("!n") == ["a.py", "s/b.py", "s/t/c.ts", "s/x:y", "s/é.ts"]
    assert "an unclosed [" in refused(here, "x", glob="[")


ODD = ["-n", "--files", "new\nline", "'quote\"", "😀", "a b", "y" * 255, "*", "a:1:b", "--"]


def test_odd_names(here: Machine) -> None:
    make(here, dict.fromkeys(ODD, "x\n"))
    shown = [f"{name}:1:x" for name in sorted(ODD)]
    assert grep(here, "x").split("\n") == [line.replace("new\nline", "$'new\\x0aline'") for line in shown]
    for name in ODD:
        assert grep(here, "x", path=name).endswith(":1:x")


def test_a_name_that_is_no_utf8(here: Machine) -> None:
    try:
        Path(os.fsdecode(os.fsencode(here.directory) + b"/bad\xff")).write_text("x\n")
    except OSError:
        pytest.skip("left out: this file system has no such names")
    assert grep(here, "x") == "$'bad\\xff':1:x"
    assert grep(here, "x", files_only=True) == "$'bad\\xff'"


def test_names_that_look_like_output(here: Machine) -> None:
    make(here, {"a\n./b": "x\n", "12 files searched\n": "x\n", "d/--\n": "x\n", "z": "./a\n./b: x 5 files searched\n"})
    lines = grep(here, "x").split("\n")
    assert lines == [
        "$'12 files searched\\x0a':1:x",
        "$'a\\x0a./b':1:x",
        "$'d/--\\x0a':1:x",
        "z:2:./b: x 5 files searched",
    ]


def test_what_is_no_regular_file(here: Machine) -> None:
    make(here, {"d/f": "x\n"})
    os.mkfifo(here.directory / "d" / "fifo")
    (here.directory / "d" / "round").symlink_to("..")
    (here.directory / "d" / "self").symlink_to("self")
    (here.directory / "d" / "null").symlink_to("/dev/zero")
    assert grep(here, "x", hidden=True, no_ignore=True) == "d/f:1:x"
    (here.directory / "there").symlink_to("d/f")
    assert grep(here, "x", path="there") == "there:1:x", "a link that is asked for is followed"
    assert "but a FIFO; it was not opened" in refused(here, "x", path="d/fifo")
    assert "but a character device; it was not opened" in refused(here, "x", path="d/null")
    assert "symbolic links" in refused(here, "x", path="d/self")


def test_no_such_path(here: Machine) -> None:
    assert refused(here, "x", path="missing") == f"{here.directory}/missing: no such file or directory"
    assert "name too long" in refused(here, "x", path="x" * 5000)


@pytest.fixture
def open_to_all() -> Iterator[Machine]:
    """pytest's own directories are closed to others."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    machine = Machine(top)
    yield machine
    machine.close()
    shutil.rmtree(top)


def test_what_must_not_be_read_is_said(open_to_all: Machine) -> None:
    here = open_to_all
    make(here, {"a/f": "x\n", "b/closed": "x\n", "c/f": "x\n"})
    (here.directory / "b" / "closed").chmod(0)
    (here.directory / "c").chmod(0)
    with nobody():
        found, note = grep(here, "x").split("\n")
        nothing, _ = grep(here, "y").split("\n")
        only = grep(here, "x", path="b/closed").split("\n")
        assert refused(here, "(").startswith("regex parse error"), "the pattern's fault comes first"
    assert found == "a/f:1:x"
    assert nothing == f"no matches in 1 file{LEFT_OUT}"
    assert note.startswith("[2 could not be read: ")
    assert "b/closed: Permission denied" in note
    assert "c: Permission denied" in note
    assert only[1].startswith("[1 could not be read: b/closed: Permission denied")


def test_a_path_of_4000_characters(here: Machine) -> None:
    was = os.getcwd()
    try:
        os.chdir(here.directory)
        while len(os.getcwd()) < 3800:
            os.mkdir("d" * 99)
            os.chdir("d" * 99)
        os.mkdir("d" * (4000 - len(os.getcwd()) - 1))
        os.chdir("d" * (4000 - len(os.getcwd()) - 1))
        Path("f").write_text("x\n")
        deep = os.getcwd()
        assert len(deep) == 4000
    finally:
        os.chdir(was)
    for path in (".", deep, f"{deep}/f"):
        assert grep(here, "x", path=path) == f"{os.path.relpath(deep, here.directory.resolve())}/f:1:x"


# What is refused


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "regex parse error:\n    (?:(a)\n    ^\nerror: unclosed group"),
        ("a(?=b)", "look-around"),
        ("[z-a]", "invalid character class range"),
        ("a\0b", "pattern holds a NUL character"),
        ("a\ud800", "pattern holds half a character"),
        (r"(\w{900}){900}", "compiled regex exceeds size limit"),
    ],
)
def test_a_bad_pattern_is_told(here: Machine, pattern: str, words: str) -> None:
    make(here, {"f": "a\n"})
    for files_only in (False, True):
        message = refused(here, pattern, files_only=files_only)
        assert words in message
        assert not message.startswith("rg: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `pattern`"),
        ({"pattern": 1}, "at `$.pattern`"),
        ({"pattern": "x", "context": -1}, "at `$.context`"),
        ({"pattern": "x", "context": 51}, "at `$.context`"),
        ({"pattern": "x", "limit": 0}, "at `$.limit`"),
        ({"pattern": "x", "glob": ""}, "at `$.glob`"),
        ({"pattern": "x", "recursive": True}, "unknown field `recursive`"),
    ],
)
def test_wrong_arguments_are_named(here: Machine, arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(GREP(arguments, here.host._workspace))
    assert str(caught.value).startswith("invalid arguments for grep: ")
    assert words in str(caught.value)


# Its end


def searching(directory: Path) -> set[str]:
    """The ripgrep processes that search this directory. They are told apart by where they are."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "rg\n" and os.readlink(process / "cwd") == str(directory.resolve()):
                found.add(process.name)
        except OSError:  # gone by now
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="left out: needs /proc")
@pytest.mark.parametrize("loop", LOOPS)
def test_a_cancel_ends_the_search(tmp_path: Path, loop: str) -> None:
    """Of a file that takes minutes to search."""
    here = Machine(tmp_path, loop)
    make(here, {"f": "x\n"})
    os.truncate(tmp_path / "f", 2**40)

    async def cancel() -> None:
        running = asyncio.create_task(GREP({"pattern": "y", "path": "f"}, here.host._workspace))
        await soon(lambda: bool(searching(tmp_path)), "ripgrep searches")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await soon(lambda: not searching(tmp_path), "ripgrep has ended", seconds=0.5)

    try:
        here.run(cancel())
    finally:
        here.close()
        (tmp_path / "f").unlink()


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", r"\x00"])
def test_no_option_is_advised_that_the_tool_does_not_have(here: Machine, pattern: str) -> None:
    with pytest.raises(ToolError) as caught:
        grep(here, pattern)
    assert "--pcre2 flag" not in str(caught.value)
    assert "--text flag" not in str(caught.value)
    assert str(caught.value).endswith("For that, use bash with rg --pcre2 or rg --text.")
