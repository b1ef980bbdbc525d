"""`a2a-bridge omp install | uninstall | status`: omp's directories are found as omp finds them, others' files stay."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.cli import omp as commands
from a2a_bridge.cli.main import main
from a2a_bridge.errors import InstallError
from a2a_bridge.hosts.omp import installation
from a2a_bridge.hosts.omp.directories import Directories, directories
from a2a_bridge.hosts.omp.installation import MARK, State
from tests.conftest import missing
from tests.hosts import as_nobody
from tests.support.omp import BINARIES, MODELS, QUIET, Home, omp
from tests.support.processes import ROOT, a2a, environment, served

HERE = [sys.executable, "-P", "-m", "a2a_bridge"]
EXTENSION = ROOT / "src" / "a2a_bridge" / "hosts" / "omp" / "extension.ts"
DIRS = ROOT / ".peers" / "node_modules" / "@oh-my-pi" / "pi-utils" / "src" / "dirs.ts"
# In its sources: what the original bridge is known by.
ORIGINAL = 'const CONFIG = path.join(home, ".omp", "agent", "a2a-bridge.json");\n'

# Where omp's directories are.

# What an omp with a profile leaves in the environment of the shells that it starts.
WITHIN = {"OMP_PROFILE": "w", "PI_PROFILE": "w", "PI_CODING_AGENT_DIR": "{home}/.omp/profiles/w/agent"}
# Environment, --profile, and the directory below the home directory or from the root; None: omp refuses the profile.
DIRECTORIES: list[tuple[dict[str, str], str | None, str | None]] = [
    ({}, None, ".omp/agent"),
    ({"PI_CONFIG_DIR": ".cfg"}, None, ".cfg/agent"),
    ({"PI_CONFIG_DIR": ""}, None, ".omp/agent"),
    ({"PI_CONFIG_DIR": "a/b"}, None, "a/b/agent"),
    ({"PI_CONFIG_DIR": "/abs"}, None, "abs/agent"),
    ({"PI_CODING_AGENT_DIR": "/x/y"}, None, "/x/y"),
    ({"PI_CODING_AGENT_DIR": "/x/../y/"}, None, "/y"),
    ({"PI_CODING_AGENT_DIR": ""}, None, ".omp/agent"),
    ({"PI_CODING_AGENT_DIR": "/x/y", "PI_CONFIG_DIR": ".cfg"}, None, "/x/y"),
    ({"OMP_PROFILE": "work"}, None, ".omp/profiles/work/agent"),
    ({"PI_PROFILE": "work"}, None, ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": "work", "PI_PROFILE": "other"}, None, ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": "", "PI_PROFILE": "other"}, None, ".omp/agent"),
    ({"OMP_PROFILE": " work "}, None, ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": " "}, None, ".omp/agent"),
    ({"OMP_PROFILE": "default"}, None, ".omp/agent"),
    ({"OMP_PROFILE": "default", "PI_CODING_AGENT_DIR": "/x"}, None, "/x"),
    ({"OMP_PROFILE": "work", "PI_CODING_AGENT_DIR": "/x"}, None, ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": "work", "PI_CONFIG_DIR": ".cfg"}, None, ".cfg/profiles/work/agent"),
    ({}, "work", ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": "other"}, "work", ".omp/profiles/work/agent"),
    ({"OMP_PROFILE": "other"}, "default", ".omp/agent"),
    ({"OMP_PROFILE": "other"}, "", ".omp/agent"),
    ({"OMP_PROFILE": "NO"}, "work", ".omp/profiles/work/agent"),
    ({"PI_CODING_AGENT_DIR": "/x"}, "work", ".omp/profiles/work/agent"),
    ({"PI_CODING_AGENT_DIR": "/x"}, "default", "/x"),
    (WITHIN, None, ".omp/profiles/w/agent"),
    (WITHIN, "x", ".omp/profiles/x/agent"),
    (WITHIN, "default", ".omp/agent"),
    ({**WITHIN, "OMP_PROFILE": ""}, None, ".omp/agent"),
    ({}, "0.a_b-c", ".omp/profiles/0.a_b-c/agent"),
    ({}, "a" * 64, f".omp/profiles/{'a' * 64}/agent"),
    ({}, "a" * 65, None),
    ({}, "Work", None),
    ({}, "a/b", None),
    ({}, "..", None),
    ({}, ".hidden", None),
    ({}, "end.", None),
    ({}, "a b", None),
    ({}, "a\nb", None),
    ({}, "ü", None),
    ({}, "nul", None),
    ({}, "com1.x", None),
    ({"OMP_PROFILE": "NO"}, None, None),
    ({"OMP_PROFILE": "NO", "PI_PROFILE": "work"}, None, None),
]

ASK = """
const { getAgentDir, setProfile, resolveProfileEnv } = await import(process.argv[2]);
const profile = process.argv[3];
try {
    setProfile(profile !== undefined ? profile : resolveProfileEnv(process.env.OMP_PROFILE, process.env.PI_PROFILE));
    console.log(getAgentDir());
} catch (error) {
    if (!error.message.includes("Invalid OMP profile")) throw error;
}
"""


def named(row: tuple[dict[str, str], str | None, str | None]) -> str:
    environ, profile, _ = row
    return ",".join([*(f"{key}={value}" for key, value in environ.items()), f"--profile={profile}"])


@pytest.mark.parametrize("row", DIRECTORIES, ids=named)
def test_the_agent_directory_is_omps_own(tmp_path: Path, row: tuple[dict[str, str], str | None, str | None]) -> None:
    given, profile, expected = row
    environ = {"HOME": str(tmp_path), **{key: value.format(home=tmp_path) for key, value in given.items()}}
    if expected is None:
        with pytest.raises(InstallError, match="no name that omp takes"):
            directories(environ, profile)
    else:
        assert directories(environ, profile).agent == tmp_path / expected


@pytest.mark.parametrize("row", DIRECTORIES, ids=named)
def test_the_table_is_what_omp_says(tmp_path: Path, row: tuple[dict[str, str], str | None, str | None]) -> None:
    if not DIRS.exists() or not (BINARIES / "bun").exists():
        missing("omp and bun under .peers (make test installs them, with npm)")
    given, profile, expected = row
    environ = {"HOME": str(tmp_path), **{key: value.format(home=tmp_path) for key, value in given.items()}}
    (tmp_path / "ask.mjs").write_text(ASK)
    command = [str(BINARIES / "bun"), str(tmp_path / "ask.mjs"), str(DIRS), *([] if profile is None else [profile])]
    said = subprocess.check_output(command, env=environ, cwd=tmp_path, text=True)
    assert said == ("" if expected is None else f"{tmp_path / expected}\n")


def test_a_relative_directory_counts_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert directories({"PI_CODING_AGENT_DIR": "sub"}).agent == tmp_path / "sub"


# What is found in the extension's place.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = installation.extension_file(Directories(tmp_path / "agent", tmp_path))
    assert file == tmp_path / "agent" / "extensions" / "a2a-bridge.ts"
    file.parent.mkdir(parents=True)
    return file


def absent(file: Path) -> None:
    pass


def no_directory(file: Path) -> None:
    file.parent.rmdir()


def current(file: Path) -> None:
    installation.install(file, HERE)


def older(file: Path) -> None:
    file.write_text(installation.rendered(HERE) + "// what an older version had more\n")


def elsewhere(file: Path) -> None:
    installation.install(file, [shutil.which("sh") or "", "-m", "a2a_bridge"])


def interpreter_gone(file: Path) -> None:
    installation.install(file, [str(file.parent / "venv" / "python"), "-m", "a2a_bridge"])


def interpreter_closed(file: Path) -> None:
    program = file.with_name("python")
    program.touch(0o644)
    installation.install(file, [str(program), "-m", "a2a_bridge"])


def interpreter_a_directory(file: Path) -> None:
    installation.install(file, [str(file.parent), "-m", "a2a_bridge"])


def commanded(words: str) -> Callable[[Path], None]:
    """Ours, and then edited by hand."""

    def edited(file: Path) -> None:
        source = installation.rendered(HERE)
        file.write_text(
            re.sub(r"^const COMMAND.*$", lambda _: f"const COMMAND: string[] = {words};", source, flags=re.M)
        )

    edited.__name__ = f"command {words}"
    return edited


def no_command(file: Path) -> None:
    file.write_text(MARK + "export default () => {};\n")


def dangling(file: Path) -> None:
    file.symlink_to(file.with_name("gone.ts"))


def linked(file: Path) -> None:
    current(file)
    file.rename(file.parents[1] / "ours.ts")
    file.symlink_to(file.parents[1] / "ours.ts")


def foreign(file: Path) -> None:
    file.write_text("export default () => {};\n")


def empty(file: Path) -> None:
    file.touch()


def link_to_foreign(file: Path) -> None:
    (file.parents[1] / "mine.ts").write_text("export default () => {};\n")
    file.symlink_to(file.parents[1] / "mine.ts")


def bytes_of_somebody(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\0")


def a_directory(file: Path) -> None:
    file.mkdir()
    (file / "index.ts").write_text("export default () => {};\n")


STATES: list[tuple[Callable[[Path], None], State, str]] = [
    (absent, State.ABSENT, ""),
    (no_directory, State.ABSENT, ""),
    (current, State.CURRENT, f"starts {' '.join(HERE)}"),
    (linked, State.CURRENT, f"starts {' '.join(HERE)}"),
    (older, State.OUTDATED, ""),
    (elsewhere, State.OUTDATED, f"it starts another installation: {shutil.which('sh')} -m a2a_bridge"),
    (interpreter_gone, State.BROKEN, "it starts {dir}/venv/python, which does not exist"),
    (interpreter_closed, State.BROKEN, "it starts {dir}/python"),
    (interpreter_a_directory, State.BROKEN, "it starts {dir}"),
    (commanded("[]"), State.BROKEN, "it starts nothing"),
    (commanded('["python",]'), State.BROKEN, ""),
    (commanded("['python']"), State.BROKEN, ""),
    (commanded("[5]"), State.BROKEN, ""),
    (commanded('[""]'), State.BROKEN, ""),
    (no_command, State.BROKEN, "it starts nothing"),
    (dangling, State.FOREIGN, "a link to {dir}/gone.ts, which does not exist"),
    (foreign, State.FOREIGN, ""),
    (empty, State.FOREIGN, ""),
    (link_to_foreign, State.FOREIGN, ""),
    (bytes_of_somebody, State.FOREIGN, ""),
    (a_directory, State.FOREIGN, ""),
]
OURS = [(make, state) for make, state, _ in STATES if state is not State.FOREIGN]
FOREIGNERS = [make for make, state, _ in STATES if state is State.FOREIGN]


def test_the_table_has_every_state() -> None:
    assert {state for _, state, _ in STATES} == set(State)


@pytest.mark.parametrize(("make", "state", "detail"), STATES)
def test_what_is_found(file: Path, make: Callable[[Path], None], state: State, detail: str) -> None:
    make(file)
    found = installation.inspect(file, HERE)
    assert found.state is state
    assert found.detail.startswith(detail.format(dir=file.parent))
    assert "\n" not in found.detail


@pytest.mark.parametrize(("make", "state"), OURS)
def test_whatever_is_ours_is_installed_anew(file: Path, make: Callable[[Path], None], state: State) -> None:
    make(file)
    there = listing(file)
    installation.install(file, HERE)
    assert installation.inspect(file, HERE).state is State.CURRENT
    assert listing(file) == there | {file.name}, "no draft is left"


def listing(file: Path) -> set[str]:
    return {entry.name for entry in file.parent.iterdir()} if file.parent.exists() else set()


@pytest.mark.parametrize("make", FOREIGNERS)
def test_what_is_not_ours_is_left_byte_for_byte(file: Path, make: Callable[[Path], None]) -> None:
    make(file)
    before = snapshot(file.parents[1])
    for command in (installation.install, installation.uninstall):
        with pytest.raises(InstallError, match="is not a file of this bridge, and is left as it is") as raised:
            command(file, HERE)
        assert str(file) in str(raised.value)
    assert snapshot(file.parents[1]) == before


def snapshot(directory: Path) -> dict[str, tuple[int, object]]:
    """Every entry with its kind, and what it holds."""
    return {str(entry.relative_to(directory)): kept(entry) for entry in directory.rglob("*")}


def kept(entry: Path) -> tuple[int, object]:
    if entry.is_symlink():
        return entry.lstat().st_ino, os.readlink(entry)
    return entry.stat().st_ino, entry.read_bytes() if entry.is_file() else entry.stat().st_mode


@pytest.mark.parametrize(("make", "state"), OURS)
def test_uninstalling_removes_ours_alone(file: Path, make: Callable[[Path], None], state: State) -> None:
    make(file)
    there = listing(file) - {file.name}
    assert installation.uninstall(file, HERE) is (state is not State.ABSENT)
    assert not os.path.lexists(file)
    assert listing(file) == there
    assert (file.parents[1] / "ours.ts").exists() is (make is linked), "the link goes, not what it points to"


# What is written.


def test_the_file_is_the_extension_with_the_running_interpreter(tmp_path: Path) -> None:
    ended = a2a(tmp_path, "omp", "install")
    assert ended.returncode == 0, ended
    written = (tmp_path / ".omp" / "agent" / "extensions" / "a2a-bridge.ts").read_text()
    (line,) = re.findall(r"^const COMMAND: string\[\] = (.*);$", written, re.M)
    command = json.loads(line)
    assert command == HERE
    source = EXTENSION.read_text()
    assert written == MARK + source.replace(
        'const COMMAND: string[] = ["a2a-bridge"];', f"const COMMAND: string[] = {line};"
    )
    assert len(source.splitlines()) == len(written.splitlines()) - 1
    assert subprocess.check_output([*command, "--version"], text=True) == "0.1.0\n"


@pytest.mark.parametrize(
    "program", ["/a b/python", '/"quoted"/\\python', "/g<1>\\1$&/python", "/ü/😀/python", "/];//x\n/python"]
)
def test_any_path_is_a_string_of_the_extension(file: Path, program: str) -> None:
    (line,) = re.findall(r"^const COMMAND: string\[\] = (.*);$", installation.rendered([program, "-P"]), re.M)
    assert json.loads(line) == [program, "-P"]
    installation.install(file, [program, "-P"])
    assert installation.inspect(file, [program, "-P"]).detail.startswith(f"it starts {program}")


def test_installing_is_one_step(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(file)
    before, replace, steps = file.read_bytes(), os.replace, []

    def watched(draft: Path, target: Path) -> None:
        steps.append((draft.read_text(), file.read_bytes(), draft.name[0], draft.parent))
        replace(draft, target)

    monkeypatch.setattr(os, "replace", watched)
    installation.install(file, HERE)
    assert steps == [(installation.rendered(HERE), before, ".", file.parent)], "omp never sees half a file"
    assert listing(file) == {file.name}


def test_a_write_that_fails_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(file)
    before = snapshot(file.parent)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for owner, name in ((os, "replace"), (Path, "write_text")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, full)
            with pytest.raises(InstallError) as raised:
                installation.install(file, HERE)
        assert str(raised.value) == f"{file} cannot be written: No space left on device"
        assert snapshot(file.parent) == before


# The commands. `nowhere` is a PATH on which there is no omp.


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    return str(tmp_path / "bin")


def placed(home: Path) -> Path:
    return home / ".omp" / "agent" / "extensions" / "a2a-bridge.ts"


def test_install_and_uninstall_say_what_they_did(tmp_path: Path, nowhere: str) -> None:
    file = placed(tmp_path)
    first = a2a(tmp_path, "omp", "install", PATH=nowhere)
    assert first.returncode == 0
    lines = first.stdout.splitlines()
    assert lines[0] == f"installed: {file}"
    assert lines[1].startswith("omp:       not found on the PATH")
    assert lines[2].startswith("next:      restart omp; then, in omp: /a2a")
    assert "a2a-bridge mcp-json" in lines[3]
    assert lines[4].startswith("note:      each start of omp takes a new port")
    assert first.stderr == ""
    again = a2a(tmp_path, "omp", "install", PATH=nowhere)
    assert again.stdout.splitlines()[0] == f"installed anew: {file}"
    removed = a2a(tmp_path, "omp", "uninstall", PATH=nowhere)
    assert (removed.returncode, removed.stdout, removed.stderr) == (0, f"removed: {file}\n", "")
    assert not file.exists()
    nothing = a2a(tmp_path, "omp", "uninstall", PATH=nowhere)
    assert (nothing.returncode, nothing.stdout) == (0, f"nothing to remove: {file} does not exist\n")


@pytest.mark.parametrize("variables", [{"OMP_PROFILE": "work"}, {}])
def test_a_profile_has_an_extension_of_its_own(tmp_path: Path, nowhere: str, variables: dict[str, str]) -> None:
    options = [] if variables else ["--profile", "work"]
    file = tmp_path / ".omp" / "profiles" / "work" / "agent" / "extensions" / "a2a-bridge.ts"
    assert a2a(tmp_path, "omp", "install", *options, PATH=nowhere, **variables).returncode == 0
    assert file.exists()
    assert a2a(tmp_path, "omp", "status", *options, PATH=nowhere, **variables).returncode == 0
    assert a2a(tmp_path, "omp", "status", PATH=nowhere).returncode == 1, "the default profile has none"
    assert a2a(tmp_path, "omp", "uninstall", *options, PATH=nowhere, **variables).stdout == f"removed: {file}\n"


def test_what_is_advised_for_a_profile_is_for_that_profile(tmp_path: Path, nowhere: str) -> None:
    shown = a2a(tmp_path, "omp", "status", "--profile", "work", PATH=nowhere).stdout
    assert "run a2a-bridge omp install --profile work" in shown


def test_an_installation_that_will_not_stay_is_told_of(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    surrounded(monkeypatch, tmp_path, nowhere)
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    code, out, _ = typed(monkeypatch, capsys, "install")
    assert code == 0
    assert "temporary one of uvx" in out
    assert "uv tool install" in out


def surrounded(monkeypatch: pytest.MonkeyPatch, home: Path, path: str) -> None:
    """For a command in this process."""
    for name in ("PI_CONFIG_DIR", "PI_CODING_AGENT_DIR", "OMP_PROFILE", "PI_PROFILE", "A2A_BRIDGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("PATH", path)


def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str, str]:
    """The exit code and the output of `a2a-bridge omp …`, in this process."""
    monkeypatch.setattr(sys, "argv", ["a2a-bridge", "omp", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.mark.parametrize("profile", ["Work", "..", "a\nb", "a/b"])
@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_a_profile_that_omp_refuses_is_refused(tmp_path: Path, nowhere: str, command: str, profile: str) -> None:
    ended = a2a(tmp_path, "omp", command, "--profile", profile, PATH=nowhere)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"a2a-bridge: profile {profile!r} is no name that omp takes; expected lower-case letters, digits, . _ and -\n"
    )
    assert not (tmp_path / ".omp").exists()


# Another bridge among omp's extensions.


def a_file(home: Path) -> Path:
    return wrote(home / ".omp" / "agent" / "extensions" / "bridge.ts", ORIGINAL)


def a_javascript_file(home: Path) -> Path:
    return wrote(home / ".omp" / "agent" / "extensions" / "bridge.js", ORIGINAL)


def a_package(home: Path) -> Path:
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "package.json", '{"name": "omp-a2a-bridge"}')
    return home / ".omp" / "agent" / "extensions" / "a2a"


def a_directory_with_an_index(home: Path) -> Path:
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "index.ts", ORIGINAL)
    return home / ".omp" / "agent" / "extensions" / "a2a"


def a_directory_with_sources(home: Path) -> Path:
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "package.json", '{"omp": {"extensions": ["./src/x.ts"]}}')
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "src" / "x.ts", ORIGINAL)
    return home / ".omp" / "agent" / "extensions" / "a2a"


def a_directory_with_a_file_named_like_ours(home: Path) -> Path:
    package = '{"name": "mine", "omp": {"extensions": ["./a2a-bridge.ts"]}}'
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "package.json", package)
    wrote(home / ".omp" / "agent" / "extensions" / "a2a" / "a2a-bridge.ts", ORIGINAL)
    return home / ".omp" / "agent" / "extensions" / "a2a"


def a_link_to_a_file(home: Path) -> Path:
    return link(home / ".omp" / "agent" / "extensions" / "b.ts", wrote(home / "src" / "bridge.ts", ORIGINAL))


def a_link_to_a_directory(home: Path) -> Path:
    wrote(home / "src" / "package.json", '{"name": "omp-a2a-bridge"}')
    return link(home / ".omp" / "agent" / "extensions" / "bridge", home / "src")


def a_linked_plugin(home: Path) -> Path:
    wrote(home / "src" / "package.json", '{"name": "omp-a2a-bridge"}')
    return link(home / ".omp" / "plugins" / "node_modules" / "omp-a2a-bridge", home / "src")


def a_linked_plugin_with_a_scope(home: Path) -> Path:
    wrote(home / "src" / "package.json", '{"name": "@me/omp-a2a-bridge"}')
    return link(home / ".omp" / "plugins" / "node_modules" / "@me" / "omp-a2a-bridge", home / "src")


def wrote(file: Path, words: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(words)
    return file


def link(at: Path, target: Path) -> Path:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(target)
    return at


@pytest.mark.parametrize(
    "make",
    [
        a_file,
        a_javascript_file,
        a_package,
        a_directory_with_an_index,
        a_directory_with_sources,
        a_directory_with_a_file_named_like_ours,
        a_link_to_a_file,
        a_link_to_a_directory,
        a_linked_plugin,
        a_linked_plugin_with_a_scope,
    ],
)
def test_the_original_bridge_is_named_and_nothing_is_installed(
    tmp_path: Path, nowhere: str, make: Callable[[Path], Path]
) -> None:
    original = make(tmp_path)
    refused(tmp_path, original, PATH=nowhere)


def refused(home: Path, original: Path, **variables: str) -> None:
    """Installing ends with one line that names the original and what to do with it."""
    before = snapshot(home)
    ended = a2a(home, "omp", "install", **variables)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert f"another A2A bridge is among omp's extensions: {original};" in ended.stderr
    assert "Remove it (omp plugin uninstall NAME, or delete the file), then install again" in ended.stderr
    assert snapshot(home) == before
    shown = a2a(home, "omp", "status", **variables)
    assert shown.returncode == 1
    assert f"           another A2A bridge is there too, remove it: {original}\n" in shown.stdout


def test_a_plugin_is_found_where_omp_has_it_when_the_agent_directory_is_elsewhere(tmp_path: Path, nowhere: str) -> None:
    """PI_CODING_AGENT_DIR moves the extensions and not the plugins (omp's getPluginsDir)."""
    moved = {"PI_CODING_AGENT_DIR": str(tmp_path / "moved" / "agent")}
    refused(tmp_path, a_linked_plugin(tmp_path), PATH=nowhere, **moved)


def test_a_plugin_is_found_where_xdg_has_it(tmp_path: Path, nowhere: str) -> None:
    """XDG_DATA_HOME moves the plugins and not the extensions, when its directory of omp exists."""
    wrote(tmp_path / "src" / "package.json", '{"name": "omp-a2a-bridge"}')
    original = link(tmp_path / "data" / "omp" / "plugins" / "node_modules" / "omp-a2a-bridge", tmp_path / "src")
    refused(tmp_path, original, PATH=nowhere, XDG_DATA_HOME=str(tmp_path / "data"))


def test_a_profiles_plugin_is_that_profiles(tmp_path: Path, nowhere: str) -> None:
    wrote(tmp_path / "src" / "package.json", '{"name": "omp-a2a-bridge"}')
    profile = tmp_path / ".omp" / "profiles" / "work"
    original = link(profile / "plugins" / "node_modules" / "omp-a2a-bridge", tmp_path / "src")
    refused(tmp_path, original, PATH=nowhere, OMP_PROFILE="work")
    assert a2a(tmp_path, "omp", "install", PATH=nowhere).returncode == 0


def test_other_extensions_are_no_bridge(tmp_path: Path, nowhere: str) -> None:
    extensions = tmp_path / ".omp" / "agent" / "extensions"
    wrote(extensions / "theme.ts", "export default () => {};\n")
    wrote(extensions / "notes.md", "about the omp-a2a-bridge\n")
    wrote(extensions / "second.ts", installation.rendered(HERE))
    wrote(extensions / "package" / "package.json", '{"name": "omp-theme"}')
    wrote(extensions / "large.ts", ORIGINAL + "//" + "x" * 2_000_000)
    (extensions / "bytes.ts").write_bytes(b"\xff\xfe\0")
    link(extensions / "dangling.ts", tmp_path / "gone")
    link(extensions / "round.ts", extensions / "round.ts")
    wrote(tmp_path / ".omp" / "plugins" / "node_modules" / "theme" / "index.js", "export default () => {};\n")
    ended = a2a(tmp_path, "omp", "install", PATH=nowhere)
    assert ended.returncode == 0, ended
    assert "another" not in a2a(tmp_path, "omp", "status", PATH=nowhere).stdout


# Directories that cannot be used: one line, which names the file.


@pytest.mark.parametrize("name", ["a2a-bridge.ts", "other.ts"])
@pytest.mark.parametrize("command", ["install", "status"])
def test_a_pipe_in_the_way_does_not_hang(tmp_path: Path, nowhere: str, command: str, name: str) -> None:
    placed(tmp_path).parent.mkdir(parents=True)
    os.mkfifo(placed(tmp_path).with_name(name))
    arguments = [sys.executable, "-m", "a2a_bridge", "omp", command]
    env = {**environment(tmp_path), "PATH": nowhere}
    ended = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=5)
    assert ended.returncode == (0 if (command, name) == ("install", "other.ts") else 1)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
@pytest.mark.parametrize("part", ["extensions", "agent", ""])
def test_a_file_where_a_directory_should_be(tmp_path: Path, nowhere: str, command: str, part: str) -> None:
    at = {"extensions": placed(tmp_path).parent, "agent": placed(tmp_path).parents[1], "": tmp_path / ".omp"}[part]
    wrote(at, "")
    ended = a2a(tmp_path, "omp", command, PATH=nowhere)
    assert ended.returncode == 1
    assert ended.stderr == f"a2a-bridge: {placed(tmp_path)} cannot be read: Not a directory\n"


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A home that everybody may enter, which pytest's are not."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        home.chmod(0o755)
        placed(home).parent.mkdir(parents=True)
        try:
            yield home
        finally:
            for directory in (home / ".omp", home / ".omp" / "agent", placed(home).parent, home / "private"):
                if directory.exists():
                    directory.chmod(0o755)


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
@pytest.mark.parametrize("closed", ["file", "extensions", "agent"])
def test_what_cannot_be_read(
    open_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, closed: str
) -> None:
    file = placed(open_home)
    installation.install(file, HERE)
    surrounded(monkeypatch, open_home, "/no/such/directory")
    {"file": file, "extensions": file.parent, "agent": file.parents[1]}[closed].chmod(0)
    with as_nobody():
        code, out, err = typed(monkeypatch, capsys, command)
    assert (code, out) == (1, "")
    assert err == f"a2a-bridge: {file} cannot be read: Permission denied\n"


def test_what_cannot_be_written(
    open_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = placed(open_home)
    surrounded(monkeypatch, open_home, "/no/such/directory")
    file.parent.chmod(0o555)
    with as_nobody():
        assert typed(monkeypatch, capsys, "install") == (
            1,
            "",
            f"a2a-bridge: {file} cannot be written: Permission denied\n",
        )
    assert listing(file) == set()
    file.parent.chmod(0o755)
    installation.install(file, HERE)
    before = snapshot(file.parent)
    file.parent.chmod(0o555)
    with as_nobody():
        code, _, err = typed(monkeypatch, capsys, "install")
        assert (code, err) == (1, f"a2a-bridge: {file} cannot be written: Permission denied\n")
        code, _, err = typed(monkeypatch, capsys, "uninstall")
        assert (code, err) == (1, f"a2a-bridge: {file} cannot be removed: Permission denied\n")
        typed(monkeypatch, capsys, "status")
        assert snapshot(file.parent) == before


def test_another_extension_that_cannot_be_read_is_no_hindrance(
    open_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = placed(open_home)
    wrote(file.with_name("closed.ts"), ORIGINAL).chmod(0)
    wrote(open_home / "private" / "x.ts", ORIGINAL)
    (open_home / "private").chmod(0)
    link(file.with_name("private.ts"), open_home / "private" / "x.ts")
    link(file.with_name("private"), open_home / "private")
    file.parent.chmod(0o777)
    surrounded(monkeypatch, open_home, "/no/such/directory")
    with as_nobody():
        code, out, err = typed(monkeypatch, capsys, "install")
    assert (code, err) == (0, "")
    assert out.startswith(f"installed: {file}\n")


# What `status` shows.


def fake_omp(directory: str, script: str) -> str:
    file = Path(directory) / "omp"
    file.write_text(script)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho omp/18.2.3\n", "18.2.3 ({omp})"),
        ("#!/bin/sh\necho omp/18.2.99-beta\n", "18.2.99 ({omp})"),
        ("#!/bin/sh\necho omp/18.1.9\n", "18.1.9 ({omp}; the bridge was proven with 18.2)"),
        ("#!/bin/sh\necho omp/18.20.0\n", "18.20.0 ({omp}; the bridge was proven with 18.2)"),
        ("#!/bin/sh\necho omp/99.0.0\n", "99.0.0 ({omp}; the bridge was proven with 18.2)"),
        ("#!/bin/sh\necho hello\n", "{omp} says no version"),
        ("#!/bin/sh\necho it fails >&2; exit 3\n", "{omp} says no version"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "{omp} says no version"),
        ("#!/bin/sh\nprintf '\\377 omp/18.2.3'\n", "18.2.3 ({omp})"),
        ("#!/no/such/interpreter\n", "{omp} does not run ("),
        ("\0", "{omp} does not run ("),
    ],
)
def test_which_omp(tmp_path: Path, nowhere: str, script: str, words: str) -> None:
    installation.install(placed(tmp_path), HERE)
    program = fake_omp(nowhere, script)
    shown = a2a(tmp_path, "omp", "status", PATH=nowhere)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[0].startswith(f"omp        {words.format(omp=program)}")
    assert len(shown.stdout.splitlines()) == 4


def test_an_omp_that_hangs_is_not_waited_for(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    surrounded(monkeypatch, tmp_path, nowhere)
    program = fake_omp(nowhere, f"#!{sys.executable} -IS\nimport signal\nsignal.pause()\n")
    monkeypatch.setattr(commands, "VERSION_SECONDS", 0.3)
    _, out, err = typed(monkeypatch, capsys, "status")
    assert out.splitlines()[0].startswith(f"omp        {program} does not run (")
    assert "timed out" in out.splitlines()[0]
    assert err == ""


FIX = "; run a2a-bridge omp install"


@pytest.mark.parametrize(
    ("make", "code", "line"),
    [
        (absent, 1, f"not installed: {{file}}{FIX}"),
        (current, 0, f"installed: {{file}} (starts {' '.join(HERE)})"),
        (older, 1, f"of another version of the bridge: {{file}}{FIX}"),
        (
            elsewhere,
            1,
            "of another version of the bridge: {file} (it starts another installation: "
            f"{shutil.which('sh')} -m a2a_bridge){FIX}",
        ),
        (interpreter_gone, 1, f"broken: {{file}} (it starts {{dir}}/venv/python, which does not exist){FIX}"),
        (
            dangling,
            1,
            "a file that is not ours: {file} (a link to {dir}/gone.ts, which does not exist); "
            "move it away, then run a2a-bridge omp install",
        ),
        (foreign, 1, "a file that is not ours: {file}; move it away, then run a2a-bridge omp install"),
        (a_directory, 1, "a file that is not ours: {file}; move it away, then run a2a-bridge omp install"),
    ],
)
def test_the_extension_in_the_status(
    tmp_path: Path, nowhere: str, make: Callable[[Path], None], code: int, line: str
) -> None:
    file = placed(tmp_path)
    file.parent.mkdir(parents=True)
    make(file)
    shown = a2a(tmp_path, "omp", "status", PATH=nowhere)
    assert (shown.returncode, shown.stderr) == (code, "")
    first, second, third, fourth = shown.stdout.splitlines()
    assert first.startswith("omp        not found on the PATH")
    assert second == f"extension  {line.format(file=file, dir=file.parent)}"
    assert third == f"config     {tmp_path / 'bridge.json'} (made on the first start)"
    assert fourth == "bridge     none is running for omp"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('{"token": "t", "port": 7001}', "{file}"),
        ('{"token": "t", "port": "many"}', 'UNUSABLE: {file}: field port is "many"; expected a whole number'),
        ("{", "UNUSABLE: {file} is not JSON"),
        ("[]", "UNUSABLE: {file} holds []; expected a JSON object"),
    ],
)
def test_the_configuration_in_the_status(tmp_path: Path, nowhere: str, config: str, words: str) -> None:
    installation.install(placed(tmp_path), HERE)
    file = wrote(tmp_path / "bridge.json", config)
    file.chmod(0o600)
    shown = a2a(tmp_path, "omp", "status", PATH=nowhere)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[2].startswith(f"config     {words.format(file=file)}")
    assert file.read_text() == config


@pytest.mark.parametrize(("config", "mode"), [('{"port": 7001}', 0o600), ('{"token": "secret"}', 0o644)])
def test_looking_changes_no_configuration(tmp_path: Path, nowhere: str, config: str, mode: int) -> None:
    """What a start would mend, and tell of, is left for it: here nobody would hear that the token could be read."""
    file = wrote(tmp_path / "bridge.json", config)
    file.chmod(mode)
    a2a(tmp_path, "omp", "status", PATH=nowhere)
    assert file.read_text() == config
    assert file.stat().st_mode & 0o777 == mode


def test_only_the_bridges_of_omp_are_shown(tmp_path: Path, nowhere: str) -> None:
    with served(tmp_path):
        assert "bridge     none is running for omp\n" in a2a(tmp_path, "omp", "status", PATH=nowhere).stdout


def test_a_control_directory_that_cannot_be_used_is_told(tmp_path: Path, nowhere: str) -> None:
    installation.install(placed(tmp_path), HERE)
    (tmp_path / "a2a-bridge").mkdir(0o755)
    shown = a2a(tmp_path, "omp", "status", PATH=nowhere)
    assert shown.returncode == 1
    assert "extension  installed" in shown.stdout
    assert shown.stderr.count("\n") == 1
    assert "mode 0700" in shown.stderr


# With a real omp.


def test_installed_by_the_command_it_serves(tmp_path: Path) -> None:
    home = Home(tmp_path)
    installed = home.a2a("omp", "install")
    assert installed.returncode == 0, installed
    assert re.search(r"^omp:       18\.2\.\d+ \(", installed.stdout, re.M)
    with omp(home) as one:
        url = one.served().url
        shown = home.a2a("omp", "status")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert re.search(
            rf"^bridge     {url}  pid {one.bridge_pid()}  omp 18\.2\.\d+ in {home.work}$", shown.stdout, re.M
        )
        assert f"config     {home.config}\n" in shown.stdout


def test_installed_for_a_profile_it_serves_there_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    agent = tmp_path / ".omp" / "profiles" / "work" / "agent"
    wrote(agent / "models.yml", MODELS)
    wrote(agent / "config.yml", QUIET)
    assert home.a2a("omp", "install", "--profile", "work").returncode == 0
    with omp(home, "--profile", "work") as one:
        assert one.served().url in home.a2a("omp", "status", "--profile", "work").stdout
    assert not (home.agent / "extensions").exists()
