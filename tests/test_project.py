"""The project holds together: public names, docs that name what exists, and a wheel with everything in it."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pytest
from typer.models import CommandInfo

import a2a_bridge
from a2a_bridge.approval.policy import MODES
from a2a_bridge.cli import omp
from a2a_bridge.cli.main import app
from a2a_bridge.config import SETTINGS
from a2a_bridge.hosts.local.host import TOOLS
from tests.conftest import missing
from tests.support.processes import ROOT


def name_of(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


READMES = ("README.md", "README.zh-CN.md")
OMP_COMMANDS = {name_of(command) for command in omp.app.registered_commands if not command.hidden}
# Commands that have commands of their own: `sessions end`, `grants revoke`. `omp` does nothing by itself.
GROUPS = {str(group.name): group.typer_instance for group in app.registered_groups if group.name}
COMMANDS = {name_of(command) for command in app.registered_commands} | set(GROUPS)


def test_public_names() -> None:
    assert sorted(a2a_bridge.__all__) == [
        "Call",
        "Content",
        "Host",
        "HostUnavailable",
        "Image",
        "Result",
        "Text",
        "Tool",
        "ToolError",
        "UnknownTool",
    ]
    assert all(hasattr(a2a_bridge, name) for name in a2a_bridge.__all__)


def test_importing_does_nothing_heavy() -> None:
    code = (
        "import sys, a2a_bridge; print([m for m in ('asyncio.base_events', 'httptools', 'typer') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    for setting in SETTINGS:
        assert f"`{setting.name}`" in text


def test_the_table_of_modes_in_the_docs_is_the_table_that_decides() -> None:
    rows = [
        f"| `{mode}` | " + " | ".join(row[tier] for tier in ("read", "write", "exec")) + " |"
        for mode, row in MODES.items()
    ]
    text = (ROOT / "docs" / "approvals.md").read_text()
    assert re.findall(r"^ +(\| `(?:always-ask|write|yolo)` .*)$", text, re.MULTILINE) == rows


@pytest.mark.parametrize("name", READMES)
def test_every_command_and_tool_is_documented_and_the_reverse(name: str) -> None:
    text = (ROOT / name).read_text()
    mentioned = set(re.findall(r"a2a-bridge ([a-z][a-z-]+)", text))
    assert mentioned <= COMMANDS | {"omp"}
    assert set(re.findall(r"`([a-z][a-z-]+)(?: [A-Z\[][^`]*)?`", text)) >= COMMANDS
    for group, commands in GROUPS.items():
        for command in commands.registered_commands if commands else ():
            assert f"`{group} {name_of(command)}" in text
    assert set(re.findall(r"`(?:a2a-bridge )?omp ([a-z]+)`", text)) >= OMP_COMMANDS
    for tool in TOOLS:
        assert f"`{tool.definition.name}`" in text


@pytest.mark.parametrize(
    "name",
    [*READMES, *(f"docs/{name}.md" for name in ("protocol", "configuration", "security", "omp", "tools", "approvals"))],
)
def test_every_option_in_the_docs_exists(name: str) -> None:
    help_texts = _help_texts()
    for line in (ROOT / name).read_text().splitlines():
        if "a2a-bridge " in line:
            for option in re.findall(r"(?<=[\s`])--[a-z][a-z-]+", line.partition("a2a-bridge ")[2]):
                assert option in help_texts, (name, line)


@cache
def _help_texts() -> str:
    return "".join(
        subprocess.check_output([sys.executable, "-m", "a2a_bridge", *words, "--help"], text=True)
        for words in [[command] for command in sorted(COMMANDS)]
        + [["omp", command] for command in sorted(OMP_COMMANDS)]
        + [["sessions", "end"], ["grants", "revoke"]]
    )


def test_no_binary_is_tracked() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        missing("git, and a clone of the repository")
    names = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-z"], text=True).split("\0")[:-1]
    assert "pyproject.toml" in names
    assert [name for name in names if (ROOT / name).exists() and b"\0" in (ROOT / name).read_bytes()] == []


def test_wheel_and_sdist_hold_what_they_should(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules | {"a2a_bridge/py.typed", "a2a_bridge/hosts/omp/extension.ts"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests")]
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md", "Makefile"} <= inside
    assert {"src/a2a_bridge/py.typed", "tests/test_project.py", "docs/protocol.md", "peers/package.json"} <= inside
    assert not [name for name in inside if "node_modules" in name or name.endswith(".lock")]
