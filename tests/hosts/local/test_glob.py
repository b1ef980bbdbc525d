"""The tool `glob`: which files a pattern means, in which order they come, and what is left out."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.glob import GLOB
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.search.glob_pattern import MOST_ALTERNATIVES, GlobPattern
from tests.hosts import Machine, ok_text
from tests.hosts.local.search.test_ripgrep import nobody

NONE = "no files match (directories are not listed)"
LEFT_OUT = "; hidden and ignored files were left out (set hidden or no_ignore)"
FILES = [
    "a.py",
    "b.txt",
    "src/a.py",
    "src/x/b.py",
    "src/x/y/c.ts",
    "lib/src/d.py",
    "a-c",
    "a,b",
    "[x]",
    "src.py/e",
    "ab/f",
]


def glob(here: Machine, pattern: str, **arguments: Any) -> list[str]:
    return ok_text(here.run(GLOB({"pattern": pattern, **arguments}, here.host._workspace))).split("\n")


def refused(here: Machine, pattern: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        glob(here, pattern, **arguments)
    return str(caught.value)


def make(here: Machine, *paths: str) -> None:
    """The files, each newer than the one before."""
    for age, path in enumerate(paths):
        file = here.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (age, age))


# What a pattern means


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("*.py", ["a.py", ".py", "x/y/a.py", "é\n.py"], ["a.pyc", "a.py/b"]),
        ("a.py", ["a.py", "x/a.py"], ["ba.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("./a.py", ["a.py"], ["x/a.py"]),
        ("/top/src/*.py", ["src/a.py"], ["top/src/a.py", "src/x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py", "src/a.pyc"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "x/src/a.py", "src/a.ts"]),
        ("src/**", ["src/a", "src/x/a"], ["src", "x/src/a"]),
        ("src/", ["src/a", "src/x/a"], ["src"]),
        ("**/test/*", ["test/a", "x/y/test/a"], ["test/x/a", "test"]),
        ("**/a", ["a", "x/y/a"], ["x/ba"]),
        ("**", ["a", "x/y/a"], []),
        ("x/**/y/**/z", ["x/y/z", "x/1/y/2/3/z", "x/y/y/z"], ["x/z", "y/z"]),
        ("**/*/**/a", ["x/a", "x/y/a"], ["a"]),
        ("?.py", ["a.py", "é.py", "\udcff.py"], [".py", "ab.py"]),
        ("[ab]*", ["a", "bx"], ["c"]),
        ("[!ab]*", ["c"], ["a", "b"]),
        ("[^ab]*", ["c"], ["a", "^a"][:1]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{src,lib}/{a,b}*", ["src/a", "lib/bc"], ["src/c", "a"]),
        ("{a,b/{c,d}}", ["a", "x/a", "b/c", "b/d"], ["c", "x/b/c"]),
        ("a{,.bak}", ["a", "a.bak"], ["a."]),
        (r"\[id\].tsx", ["[id].tsx"], ["i.tsx"]),
        (r"\{a,b\}\*\?\\", ["{a,b}*?\\"], ["a*?\\"]),
        ("a}b,c", ["a}b,c"], []),
        ("-n", ["-n"], []),
        (" ", [" "], []),
    ],
)
def test_patterns(pattern: str, fits: list[str], not_: list[str]) -> None:
    wanted = GlobPattern(pattern, Path("/top"))
    assert [path for path in fits if not wanted.fits(path)] == []
    assert [path for path in not_ if wanted.fits(path)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "*.py",
        "?.*",
        "src/*",
        "src/**",
        "**/src/**",
        "**/*.py",
        "*/*/*.py",
        "{a,b}.*",
        "*{c,ts}",
        "[ab].*",
        "[!ab]*",
        "/*",
    ],
)
def test_ripgrep_means_the_same(here: Machine, pattern: str) -> None:
    make(here, *FILES)
    binary = ripgrep.find()
    assert binary is not None
    listed = subprocess.check_output(
        [binary, "--no-config", "--files", f"--glob={pattern}", "./"], cwd=here.directory, text=True
    )
    assert sorted(glob(here, pattern)) == sorted(line.removeprefix("./") for line in listed.splitlines())


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["*.py"]),
        ("src/**/a?[b-d].{ts,tsx}", ["a**.ts", "a**.tsx"]),
        ("é:x y", ["**x*y"]),
        ("x/[]a]b", ["*b"]),
        ("src/**", []),
        ("{*.py,x/*}", []),
        ("!*.py", []),
    ],
)
def test_the_names_that_ripgrep_chooses_by_are_no_fewer(pattern: str, names: list[str]) -> None:
    assert GlobPattern(pattern, Path("/top"))._names() == names


@pytest.mark.parametrize("pattern", ["{a,b}" * 7 + "x" * 500, "{a,b}" * 7 + "[a-z]*" * 600])
def test_braces_that_stand_for_too_much(pattern: str) -> None:
    with pytest.raises(ToolError, match="its braces stand for too much"):
        GlobPattern(pattern, Path("/top"))


def test_ripgrep_is_not_given_more_than_it_takes() -> None:
    """It refuses very many names with words that nobody could act on."""
    assert GlobPattern("{a,b,c}" * 3, Path("/top")).options(hidden=True)
    assert GlobPattern("{a,b,c}" * 4 + "x" * 50, Path("/top")).options(hidden=True) == []


def test_an_empty_class_is_an_error() -> None:
    for pattern in ("[^]", "[]", "[!]x"):
        with pytest.raises(ToolError, match=r"an unclosed \["):
            GlobPattern(pattern, Path("/top"))


def test_no_pattern_takes_for_ever() -> None:
    """A step too many for each star, and these would not end."""
    deep = "/".join(["a"] * 2000)
    assert not GlobPattern("/".join(["**/a"] * 30) + "/b", Path("/top")).fits(f"{deep}/ab")
    assert not GlobPattern("/".join(["**/a"] * 30) + "/*c*/**/?b", Path("/top")).fits(f"{deep}/ab")
    assert not GlobPattern("*a" * 30 + "b", Path("/top")).fits("a" * 255)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[a", "an unclosed ["),
        ("x/[/]", "an unclosed ["),
        ("{a", "an unclosed {"),
        ("{a,{b}", "an unclosed {"),
        ("a\\", "nothing follows its last backslash"),
        ("{a,b}" * 10, "too many patterns"),
        ("{" * 50, "too many patterns"),
        ("{" + "," * MOST_ALTERNATIVES + "}", "too many patterns"),
        ("a\0b", "NUL"),
        ("a\ud800b", "half a character"),
    ],
)
def test_a_pattern_that_means_nothing(here: Machine, pattern: str, words: str) -> None:
    message = refused(here, pattern)
    assert message.startswith(f"pattern {pattern!r}")
    assert words in message


def test_what_ripgrep_says_to_a_pattern(here: Machine) -> None:
    assert refused(here, "!{a").startswith("error parsing glob '!{a': unclosed alternate group")


# What comes back


def test_the_newest_first(here: Machine) -> None:
    make(here, "b", "d/c", "a")
    assert glob(here, "*") == ["a", "d/c", "b"]
    os.utime(here.directory / "b", (9, 9))
    assert glob(here, "*") == ["b", "a", "d/c"]


def test_the_same_age_goes_by_name(here: Machine) -> None:
    make(here, "b", "d/c", "a", "ä")
    for name in ("b", "d/c", "a", "ä"):
        os.utime(here.directory / name, (5, 5))
    assert glob(here, "*") == ["a", "b", "d/c", "ä"]


def test_more_is_said(here: Machine) -> None:
    make(here, *(f"f{number:04}" for number in range(1203)))
    assert glob(here, "*", limit=2) == [
        "f1202",
        "f1201",
        "[2 of 1,203 files, newest first; narrow pattern or path, or raise limit]",
    ]
    assert glob(here, "*")[-1].startswith("[200 of 1,203 files")
    assert len(glob(here, "*", limit=1203)) == 1203


def test_a_long_answer_is_cut(here: Machine) -> None:
    make(here, *(f"{number:03}{'x' * 200}" for number in range(400)))
    *paths, note = glob(here, "*", limit=400)
    assert len(paths) == ripgrep.MOST_ANSWER_BYTES // 204
    assert note == f"[{len(paths)} of 400 files, newest first; narrow pattern or path]"


def test_nothing_found(here: Machine) -> None:
    assert glob(here, "*.py") == [f"{NONE}{LEFT_OUT}"]
    assert glob(here, "*.py", hidden=True) == [f"{NONE}; ignored files were left out (set no_ignore)"]
    assert glob(here, "*.py", no_ignore=True) == [f"{NONE}; hidden files were left out (set hidden)"]
    assert glob(here, "*.py", hidden=True, no_ignore=True) == [NONE]


def test_what_is_hidden_or_ignored(here: Machine) -> None:
    make(here, "a.log", "build/a.py", "a.py", ".b.py", ".d/c.py", ".git/x.py", "sub/e.py", "sub/e.log")
    (here.directory / ".gitignore").write_text("*.log\nbuild/\n")
    assert glob(here, "*.py") == ["sub/e.py", "a.py"]
    assert glob(here, "*.log") == [f"{NONE}{LEFT_OUT}"], "a pattern does not bring back what is ignored"
    assert glob(here, ".b.py") == [f"{NONE}{LEFT_OUT}"], "nor what is hidden"
    assert glob(here, "*.log", path="sub") == [f"{NONE}{LEFT_OUT}"], "whatever is above counts"
    assert glob(here, "*.py", hidden=True) == ["sub/e.py", ".d/c.py", ".b.py", "a.py"]
    assert set(glob(here, "*.log", no_ignore=True)) == {"sub/e.log", "a.log"}
    assert ".git/x.py" in glob(here, "*.py", hidden=True, no_ignore=True)


def test_what_is_excluded(here: Machine) -> None:
    make(here, "a.py", "b.txt", "node_modules/c/d.txt", "x.log")
    (here.directory / ".gitignore").write_text("*.log\n")
    assert glob(here, "!*.py") == ["node_modules/c/d.txt", "b.txt"]
    assert glob(here, "!node_modules") == ["b.txt", "a.py"]


def test_paths_are_for_the_other_tools(here: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    make(here, "sub/~a")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "b").touch()
    assert glob(here, "*") == ["sub/~a"]
    assert glob(here, "*", path="sub") == ["sub/~a"]
    assert glob(here, f"{here.directory}/sub/*") == ["sub/~a"]
    assert glob(here, "*", path=str(outside)) == [f"{outside}/b"]
    assert glob(here, "~a", path="sub") == ["sub/~a"]
    make(here, "~a")
    assert glob(here, "/~a") == [f"{here.directory}/~a"]
    for shown in glob(here, "*"):
        assert here.read(shown).startswith("[empty file")


ODD = ["-n", "--files", "new\nline", "'quote\"", "😀", "a b", "x" * 255, "*", "a:1:b", "tab\t"]


def test_odd_names(here: Machine) -> None:
    make(here, *ODD)
    shown = {"new\nline": "$'new\\x0aline'", "tab\t": "$'tab\\x09'"}
    assert glob(here, "*") == [shown.get(name, name) for name in reversed(ODD)]
    for name in ODD:
        assert glob(here, name if name != "*" else r"\*") == [shown.get(name, name)]


def test_a_name_that_is_no_utf8(here: Machine) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(here.directory) + b"/bad\xff.py"))).touch()
    except OSError:
        pytest.skip("left out: this file system has no such names")
    assert glob(here, "bad?.py") == ["$'bad\\xff.py'"]


def test_what_is_no_regular_file(here: Machine) -> None:
    make(here, "d/f")
    os.mkfifo(here.directory / "d" / "fifo")
    (here.directory / "d" / "round").symlink_to("..")
    (here.directory / "d" / "link").symlink_to("f")
    assert glob(here, "*") == ["d/f"]
    (here.directory / "there").symlink_to("d")
    assert glob(here, "*", path="there") == ["there/f"], "a link that is asked for is followed"
    assert "but a FIFO; it was not opened" in refused(here, "*", path="d/fifo")


def test_no_such_directory(here: Machine) -> None:
    assert refused(here, "*", path="missing") == f"{here.directory}/missing: no such file or directory"
    assert "name too long" in refused(here, "*", path="x" * 5000)
    assert "NUL" in refused(here, "*", path="a\0b")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `pattern`"),
        ({"pattern": ""}, "at `$.pattern`"),
        ({"pattern": "x" * 5000}, "at `$.pattern`"),
        ({"pattern": "*", "limit": 0}, "at `$.limit`"),
        ({"pattern": "*", "limit": 1_000_000}, "at `$.limit`"),
        ({"pattern": "*", "hidden": "yes"}, "at `$.hidden`"),
        ({"pattern": "*", "depth": 1}, "unknown field `depth`"),
    ],
)
def test_wrong_arguments_are_named(here: Machine, arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        here.run(GLOB(arguments, here.host._workspace))
    assert str(caught.value).startswith("invalid arguments for glob: ")
    assert words in str(caught.value)


@pytest.fixture
def open_to_all() -> Iterator[Machine]:
    """pytest's own directories are closed to others."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    machine = Machine(top)
    yield machine
    machine.close()
    shutil.rmtree(top)


def test_a_directory_that_must_not_be_read(open_to_all: Machine) -> None:
    here = open_to_all
    make(here, "open/a", *(f"closed{number}/b" for number in range(5)))
    for number in range(5):
        (here.directory / f"closed{number}").chmod(0)
    (here.directory / "unlisted").mkdir(0o311)
    with nobody():
        path, note = glob(here, "*")
        assert glob(here, "*", path="open") == ["open/a"]
        assert glob(here, "*", path="unlisted")[1].startswith("[1 could not be read: unlisted/.: Permission denied")
        assert refused(here, "*", path="closed1").endswith("Permission denied")
    assert path == "open/a"
    assert note.startswith("[6 could not be read: ")
    assert note.count(": Permission denied") == 3
    assert note.endswith("; …]")


def test_paths_longer_than_the_system_takes(here: Machine) -> None:
    """The directory's own is nearly as long, and what lies in it is listed all the same."""
    was = os.getcwd()
    name = "d" * 250
    try:
        os.chdir(here.directory)
        while len(os.getcwd()) < 3800:
            os.mkdir(name)
            os.chdir(name)
        deep = os.getcwd()
        while len(os.getcwd()) < 4000 - 50:
            os.mkdir("e" * 40)
            os.chdir("e" * 40)
        deepest = os.getcwd()
        for _ in range(3):
            os.mkdir(name)
            os.chdir(name)
        Path("file").touch()
    finally:
        os.chdir(was)
    for start in (deep, deepest):
        (found,) = glob(here, "file", path=start)
        assert found.endswith(f"{name}/file")
        assert len(str(here.directory / found)) > 4096
    assert "too long" in glob(here, "file")[-1], "from here it is out of reach, and that is said"


# A large tree


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """100,000 files. Those of a directory are one, by links: to make as many takes a disk up to a minute."""
    machine = Machine(tmp_path_factory.mktemp("large"))
    for number in range(100):
        directory = machine.directory / f"d{number:02}"
        directory.mkdir()
        first = directory / "f000"
        first.touch()
        for other in range(1, 1000):
            os.link(first, f"{directory}/f{other:03}")
    yield machine
    machine.close()
    shutil.rmtree(machine.directory)  # pytest keeps what is left for three runs


def test_a_large_tree(large: Machine) -> None:
    (large.directory / "d55" / "f555").unlink()
    (large.directory / "d55" / "f555").touch()
    os.utime(large.directory / "d55" / "f555", (2**32, 2**32))
    first, *_, note = glob(large, "*")
    assert first == "d55/f555"
    assert note == "[200 of 100,000 files, newest first; narrow pattern or path, or raise limit]"
    assert glob(large, "d[0-4]?/**/f55*")[-1].startswith("[200 of 500 files")
    assert sorted(glob(large, "f123")) == [f"d{number:02}/f123" for number in range(100)]
    assert glob(large, "none") == [f"{NONE}{LEFT_OUT}"]


@pytest.mark.parametrize("pattern", ["../*", "~/x", "a/../b", "{..,a}/*"])
def test_a_pattern_that_leads_out(here: Machine, pattern: str) -> None:
    """Nothing fits it, and nothing would say why."""
    if pattern.startswith("{"):
        assert glob(here, pattern) == [f"{NONE}{LEFT_OUT}"]
        return
    with pytest.raises(ToolError, match=r"leads out of .*; give the directory as path"):
        glob(here, pattern)


def test_a_slash_at_the_beginning_is_the_path(here: Machine) -> None:
    make(here, "etc/hosts")
    assert glob(here, "/etc/*") == ["etc/hosts"]
    (answer,) = glob(here, "/usr/*")
    assert answer.startswith("no files match (directories are not listed; the first / of the pattern stands for path)")
