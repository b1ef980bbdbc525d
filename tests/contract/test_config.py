"""C1 to C6: the file; the address (C4) and the commands' part are in test_serve and test_commands."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.config import SETTINGS, audit_path, config_path, load, rotate
from a2a_bridge.errors import ConfigError

GOOD: dict[str, Any] = {"port": 7001, "token": "t" * 43, "host": "::1", "deny": ["bash"], "denyMCPTools": True}


def put(path: Path, fields: Any) -> Path:
    path.write_text(json.dumps(fields))
    path.chmod(0o600)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_c1_where_the_files_are() -> None:
    assert config_path({"HOME": "/h"}) == Path("/h/.omp/agent/a2a-bridge.json")
    assert audit_path({"HOME": "/h"}) == Path("/h/.omp/agent/a2a-bridge.log")
    moved = {"HOME": "/h", "A2A_BRIDGE_CONFIG": "/c.json", "A2A_BRIDGE_AUDIT": "/a.log"}
    assert (config_path(moved), audit_path(moved)) == (Path("/c.json"), Path("/a.log"))
    assert config_path({"HOME": "/h", "A2A_BRIDGE_CONFIG": ""}) == Path("/h/.omp/agent/a2a-bridge.json")


def test_c1_a_file_of_the_original_works_unchanged(tmp_path: Path) -> None:
    path = put(tmp_path / "c.json", GOOD)
    before = path.read_bytes()
    found = load(path)
    assert (found.port, found.token, found.host) == (7001, "t" * 43, "::1")
    assert (found.deny, found.deny_mcp_tools) == (("bash",), True)
    assert path.read_bytes() == before
    assert found.warnings == ()


def test_c2_it_is_made_on_the_first_start(tmp_path: Path) -> None:
    path = tmp_path / "new" / "dir" / "c.json"
    before = os.umask(0)
    try:
        found = load(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    written = json.loads(path.read_text())
    assert written == {"port": 0, "token": found.token, "host": "127.0.0.1", "deny": [], "denyMCPTools": False}
    assert len(found.token) == 43
    assert load(path).token == found.token


def test_c2_unknown_fields_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path / "c.json", {"mine": {"a": ["é", 1.5]}, "port": 5})
    token = load(path).token
    assert json.loads(path.read_text()) == {"mine": {"a": ["é", 1.5]}, "port": 5, "token": token}


def test_c3_a_field_of_nearly_the_right_name_is_told(tmp_path: Path) -> None:
    (warning,) = load(put(tmp_path / "c.json", {"token": "t", "denyMcpTools": True})).warnings
    assert "denyMcpTools" in warning
    assert "denyMCPTools" in warning


MALFORMED: dict[str, list[Any]] = {
    "port": ["7001", -1, 65536, 1.5, True, None, [1]],
    "host": ["", " ", 5, None, "a b", "http://x/", ["x"]],
    "deny": ["bash", {"bash": True}, [1], [None], [""], None],
    "denyMCPTools": ["true", 1, 0, None, []],
    "allowedOrigins": ["https://x", [1], None, ["http://"], ["ftp://x"], ["a b"], ["http://x/path"], ["x:80"], [""]],
    "onDisconnect": ["stop", None, True, 1],
    "maxCommandSeconds": ["10", -1, None, True, 1e300],
    "token": ["has space", "line\n", "ключ"],
    "tools.approvalMode": ["Yolo", "", None, True, "ask", 0],
    "tools.approval": [
        {"bash": "yes"},
        {"bash": None},
        {"": "deny"},
        {"a b": "deny"},
        {"bash()": "allow"},
        {"bash( )": "allow"},
        {"read(x)": "deny"},
        {"*(x)": "deny"},
        {"bash(x": "deny"},
        ["bash"],
        "bash",
        None,
    ],
    "approvalTimeout": ["10", -1, None, True, 1e300],
    "grantSeconds": ["10", -1, None, True, 1e300],
    "maxConcurrentCalls": ["1", -1, 1.5, None, True],
    "maxConcurrentCallsPerSession": ["1", -1, 1.5, None, True],
    "callTimeout": ["10", -1, None, True, 1e300],
    "maxResultBytes": ["1", -1, 1.5, None, True],
    "notifyCommand": ["notify-send", [1], None, {"a": 1}, ["a\0b"], [""]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in MALFORMED.items() for value in values])
def test_c3_a_malformed_field_stops_the_start(tmp_path: Path, name: str, value: Any) -> None:
    section, dot, field = name.partition(".")
    path = put(tmp_path / "c.json", {"token": "", section: {field: value} if dot else value})
    before = path.read_bytes()
    with pytest.raises(ConfigError) as raised:
        load(path)
    (expected,) = [setting.expected for setting in SETTINGS if setting.name == name]
    assert str(raised.value).startswith(f"{path}: field {name} is ")
    assert f"expected {expected}" in str(raised.value)
    assert path.read_bytes() == before, "nothing is written"


@pytest.mark.parametrize("value", [None, [], "yolo", 1, True])
def test_c3_a_section_that_is_no_object_stops_the_start(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"field tools is .*; expected an object"):
        load(put(tmp_path / "c.json", {"token": "t", "tools": value}))


@pytest.mark.parametrize("name", ["approvalmode", "approvals", "deny"])
def test_c3_an_unknown_field_among_the_rules_stops_the_start(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"field tools.{name} is unknown; tools takes approvalMode, approval"):
        load(put(tmp_path / "c.json", {"token": "t", "tools": {name: {}}}))


@pytest.mark.parametrize(("name", "meant"), [("Tools", "tools"), ("approvalMode", "tools.approvalMode")])
def test_c3_a_rule_in_the_wrong_place_is_told(tmp_path: Path, name: str, meant: str) -> None:
    (warning,) = load(put(tmp_path / "c.json", {"token": "t", name: {}})).warnings
    assert f"field {name} is unknown and ignored; did you mean {meant}?" in warning


def test_c3_rules_are_taken(tmp_path: Path) -> None:
    rules = {"bash": "prompt", "mcp__github_*": "deny", "bash(git status*)": "allow", "bash(echo (a\nb))": "deny"}
    tools = {"approvalMode": "always-ask", "approval": rules}
    found = load(put(tmp_path / "c.json", {"token": "t", "tools": tools}))
    assert (found.approval_mode, found.approval) == ("always-ask", rules)


def test_a6_origins_and_hosts_are_taken(tmp_path: Path) -> None:
    origins = ["https://app.example", "HTTP://app.example:8443", "http://[fe80::1]:5/", "app.example", "fe80::1"]
    assert load(put(tmp_path / "c.json", {"token": "t", "allowedOrigins": origins})).allowed_origins == tuple(origins)


def test_c3_every_setting_is_tried() -> None:
    assert set(MALFORMED) == {setting.name for setting in SETTINGS}


def test_c3_a_secret_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(put(tmp_path / "c.json", {"token": "hush hush"}))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("token", [None, "", "  ", 5, [], {}, False])
def test_c3_only_the_token_heals(tmp_path: Path, token: Any) -> None:
    path = put(tmp_path / "c.json", {"port": 9, "token": token})
    found = load(path)
    assert len(found.token) == 43
    assert json.loads(path.read_text()) == {"port": 9, "token": found.token}


FILES = {
    "not JSON": (b'{"port": 1,}', "is not JSON"),
    "empty": (b"", "is not JSON"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8"),
    "no object": (b"[1]", "holds [1]; expected a JSON object"),
    "deep": (b"[" * 100_000, "nested too deep"),
}


@pytest.mark.parametrize("kind", FILES)
def test_c3_a_file_that_is_no_configuration(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.json"
    content, words = FILES[kind]
    path.write_bytes(content)
    for use in (load, rotate):
        with pytest.raises(ConfigError) as raised:
            use(path)
        assert str(path) in str(raised.value)
        assert words in str(raised.value)
    assert path.read_bytes() == content


def test_c3_a_directory_and_a_parent_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be"):
        load(tmp_path / "file" / "c.json")


def test_c3_a_bom_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert load(path).port == 7001


def test_c3_a_crash_between_write_and_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "c.json", GOOD)
    before = path.read_bytes()

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        assert any(part.read_bytes() != before for part in tmp_path.iterdir()), "the draft is whole by now"
        raise Crash

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(Crash):
        rotate(path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert rotate(path) == load(path).token


def test_c3_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "c.json", GOOD)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device; the old file"):
        rotate(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_c3_a_symlink_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = put(tmp_path / "real" / "target.json", {"port": 3})
    link = tmp_path / "c.json"
    link.symlink_to(target)
    token = load(link).token
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"port": 3, "token": token}
    assert rotate(link) == json.loads(target.read_text())["token"]
    dangling = tmp_path / "d.json"
    dangling.symlink_to(tmp_path / "real" / "later.json")
    assert load(dangling).token == json.loads((tmp_path / "real" / "later.json").read_text())["token"]


def test_c3_the_token_is_closed_to_others(tmp_path: Path) -> None:
    path = put(tmp_path / "c.json", GOOD)
    path.chmod(0o644)
    (warning,) = load(path).warnings
    assert "could be read by others" in warning
    assert mode(path) == 0o600
    path.chmod(0o644)
    rotate(path)
    assert mode(path) == 0o600


def test_c3_two_first_starts_agree_on_one_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one writes its file between our look and our write."""
    path = tmp_path / "c.json"
    real_link = os.link

    def link(draft: Any, target: Any) -> None:
        if not path.exists():
            put(path, GOOD)
        real_link(draft, target)

    monkeypatch.setattr(os, "link", link)
    assert load(path).token == GOOD["token"]
    assert list(tmp_path.iterdir()) == [path]


def test_c5_rotate_keeps_everything_else(tmp_path: Path) -> None:
    path = put(tmp_path / "c.json", {**GOOD, "mine": 1})
    token = rotate(path)
    assert json.loads(path.read_text()) == {**GOOD, "mine": 1, "token": token}
    assert token != GOOD["token"]
