"""The settings table, and the file that holds the settings (rules C1 to C6): a file or flags → a frozen Config.

A field that is present and malformed stops the start. Only `token` heals. Unknown fields are kept.
"""

import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from a2a_bridge.errors import ConfigError

CONFIG_VARIABLE = "A2A_BRIDGE_CONFIG"
AUDIT_VARIABLE = "A2A_BRIDGE_AUDIT"


class Setting(NamedTuple):
    """One row of the settings table. `expected` completes the sentence "expected …"."""

    name: str
    type: Any
    default: Any
    expected: str
    help: str


_Names = tuple[Annotated[str, msgspec.Meta(min_length=1)], ...]

_HOST = r"(\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+)"
_ORIGIN = rf"^(?:[hH][tT][tT][pP][sS]?://{_HOST}(:[0-9]{{1,5}})?/?|{_HOST}|[0-9a-fA-F:]+)\Z"

# A tool's name, a pattern of names, or the beginning of a `bash` command in parentheses.
_RULE = r"^(?:[^()\s]+|bash\((?s:.*\S.*)\))\Z"

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=31_536_000)]
_SECONDS = "a number of seconds from 0 to 31536000"
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_COUNT = "a whole number of at least 0"

SETTINGS = (
    Setting(
        "port",
        Annotated[int, msgspec.Meta(ge=0, le=65535)],
        0,
        "a whole number from 0 to 65535",
        "TCP port; 0 takes any free one",
    ),
    Setting(
        "token",
        Annotated[str, msgspec.Meta(pattern=r"^[!-~]+\Z")],
        "",
        "a string of visible ASCII characters",
        "the bearer token; made on the first start, and made anew when missing or empty",
    ),
    Setting(
        "host",
        Annotated[str, msgspec.Meta(pattern=r"^[^\s/]+\Z")],
        "127.0.0.1",
        "a host name or IP address",
        "address to listen on",
    ),
    Setting("deny", _Names, (), "a list of tool names", "tools that are neither listed nor callable"),
    Setting(
        "denyMCPTools",
        bool,
        False,
        "true or false",
        "whether to deny the tools that the host has from other MCP servers (`mcp__…`)",
    ),
    Setting(
        "allowedOrigins",
        tuple[Annotated[str, msgspec.Meta(pattern=_ORIGIN)], ...],
        (),
        "a list of origins (https://app.example) or host names",
        "web pages, besides loopback ones, that may ask",
    ),
    Setting(
        "onDisconnect",
        Literal["cancel", "continue"],
        "cancel",
        '"cancel" or "continue"',
        "what becomes of a call whose connection closes",
    ),
    Setting(
        "maxCommandSeconds",
        _Seconds,
        0,
        _SECONDS,
        "the longest that a command of the local host may run; 0 sets no limit",
    ),
    Setting(
        "tools.approvalMode",
        Literal["yolo", "write", "always-ask"],
        "yolo",
        '"yolo", "write" or "always-ask"',
        "which calls ask the owner where no rule says so: none, those that run something, or all but reading",
    ),
    Setting(
        "tools.approval",
        dict[Annotated[str, msgspec.Meta(pattern=_RULE)], Literal["allow", "deny", "prompt"]],
        {},
        'rules such as {"bash": "prompt", "mcp__github_*": "deny", "bash(git status*)": "allow"}, '
        'each "allow", "deny" or "prompt"',
        "rules for tools, for patterns of tool names, and for the beginnings of `bash` commands",
    ),
    Setting(
        "approvalTimeout",
        _Seconds,
        0,
        _SECONDS,
        "how long a call waits for the owner's answer; 0 sets no limit",
    ),
    Setting(
        "grantSeconds",
        _Seconds,
        600,
        _SECONDS,
        "how long an approval holds that came after its caller had given up",
    ),
    Setting(
        "maxConcurrentCalls",
        _Count,
        0,
        _COUNT,
        "the most calls in flight at once, waiting ones included; 0 sets no limit",
    ),
    Setting(
        "maxConcurrentCallsPerSession",
        _Count,
        0,
        _COUNT,
        "the same for the calls of one session",
    ),
    Setting(
        "callTimeout",
        _Seconds,
        0,
        _SECONDS,
        "how long a call may run, from when it is allowed to; 0 sets no limit",
    ),
    Setting(
        "maxResultBytes",
        _Count,
        0,
        _COUNT,
        "the most bytes of text and images in one result; 0 sets no limit",
    ),
    Setting(
        "notifyCommand",
        tuple[Annotated[str, msgspec.Meta(pattern=r"^[^\0]+\Z")], ...],
        (),
        'a list of a program and its arguments, such as ["notify-send", "a2a-bridge"]',
        "run without a shell when a call waits and no console is attached; a short text about the call is added",
    ),
)


class Config(msgspec.Struct, frozen=True, rename="camel"):
    """The settings that a bridge starts with, and the file that they came from."""

    path: Path
    port: int
    token: str
    host: str
    deny: tuple[str, ...]
    deny_mcp_tools: bool = msgspec.field(name="denyMCPTools")
    allowed_origins: tuple[str, ...]
    on_disconnect: Literal["cancel", "continue"]
    max_command_seconds: float
    approval_mode: Literal["yolo", "write", "always-ask"]
    approval: dict[str, Literal["allow", "deny", "prompt"]]
    approval_timeout: float
    grant_seconds: float
    max_concurrent_calls: int
    max_concurrent_calls_per_session: int
    call_timeout: float
    max_result_bytes: int
    notify_command: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def new_token() -> str:
    """32 random bytes as base64url: 43 characters (C3)."""
    return secrets.token_urlsafe(32)


def config_path(environ: Mapping[str, str]) -> Path:
    """Where the configuration is (C1). Raises ConfigError."""
    return _place(environ, CONFIG_VARIABLE, "a2a-bridge.json")


def audit_path(environ: Mapping[str, str]) -> Path:
    """Where the audit log is (C1). Raises ConfigError."""
    return _place(environ, AUDIT_VARIABLE, "a2a-bridge.log")


def _place(environ: Mapping[str, str], variable: str, name: str) -> Path:
    moved = environ.get(variable)
    if moved:
        return expanded(Path(moved), variable)
    return Path(environ.get("HOME") or Path.home()).absolute() / ".omp" / "agent" / name


def expanded(path: Path, whose: str) -> Path:
    """A path that a person gave, absolute and with its `~` expanded. Raises ConfigError that says whose it is."""
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ConfigError(f"{whose} is {str(path)!r}; there is no such user's home directory") from None


def load(path: Path) -> Config:
    """The settings in the file, which is made when it is missing and gets a token when it has none.

    Raises ConfigError, with nothing written, when the file cannot be read or a field is malformed.
    """
    found = _read(path)
    fields = found if found is not None else _defaults()
    values = {setting.name.rpartition(".")[2]: _checked(path, setting, fields) for setting in SETTINGS}
    warnings = _near_misses(path, fields)
    if not values["token"]:
        values["token"] = new_token()
        if not _write(path, {**fields, "token": values["token"]}, create=found is None):
            return load(path)
    else:
        warnings += _closed(path)
    return msgspec.convert({**values, "path": path, "warnings": warnings}, Config)


def look(path: Path) -> dict[str, Any]:
    """The settings as `load` would find them, by name; nothing is made or mended. Raises ConfigError."""
    fields = _read(path)
    found = fields if fields is not None else _defaults()
    return {setting.name: _checked(path, setting, found) for setting in SETTINGS}


def rotate(path: Path) -> str:
    """Put a new token into the file and return it. Raises ConfigError."""
    fields = _read(path)
    token = new_token()
    _write(path, {**(fields if fields is not None else _defaults()), "token": token})
    return token


def _defaults() -> dict[str, Any]:
    """What a new file holds: the fields that the original bridge writes; the others are there to be added."""
    return {"port": 0, "token": "", "host": "127.0.0.1", "deny": [], "denyMCPTools": False}


def _read(path: Path) -> dict[str, Any] | None:
    """The file's JSON object; None when there is no file."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory; expected a file that holds a JSON object") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; expected a JSON object") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            "mend it, or move it away to have a new one made"
        ) from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep; expected a JSON object") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{path} holds {_shown(fields)}; expected a JSON object")
    return fields


def _checked(path: Path, setting: Setting, fields: Mapping[str, Any]) -> Any:
    value = _found(path, setting, fields)
    if setting.name == "token" and (not isinstance(value, str) or not value.strip()):
        return ""
    try:
        return msgspec.convert(value, setting.type)
    except msgspec.ValidationError:
        shown = "not usable" if setting.name == "token" else _shown(value)
        raise ConfigError(f"{path}: field {setting.name} is {shown}; expected {setting.expected}") from None


def _found(path: Path, setting: Setting, fields: Mapping[str, Any]) -> Any:
    """The setting's value or its default; a dot in its name parts an object from its field. Raises ConfigError."""
    section, dot, name = setting.name.partition(".")
    if not dot:
        return fields.get(section, setting.default)
    inner = fields.get(section, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{path}: field {section} is {_shown(inner)}; expected an object")
    known = [one.name.partition(".")[2] for one in SETTINGS if one.name.startswith(f"{section}.")]
    for unknown in inner.keys() - set(known):
        # A misspelt rule would leave open what it was to close.
        raise ConfigError(f"{path}: field {section}.{unknown} is unknown; {section} takes {', '.join(known)}")
    return inner.get(name, setting.default)


def _near_misses(path: Path, fields: Mapping[str, Any]) -> tuple[str, ...]:
    known = {part.lower(): setting.name for setting in SETTINGS for part in setting.name.split(".")}
    known |= {setting.name.partition(".")[0].lower(): setting.name.partition(".")[0] for setting in SETTINGS}
    return tuple(
        f"{path}: field {name} is unknown and ignored; did you mean {known[name.lower()]}?"
        for name in fields
        if name.lower() in known and name != known[name.lower()]
    )


def _closed(path: Path) -> tuple[str, ...]:
    """Make sure that nobody else reads the token."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return ()
    with suppress(OSError):
        path.chmod(0o600)
        return (f"{path} could be read by others (mode {mode:04o}); it is 0600 now. Rotate the token if they may have",)
    return (f"{path} can be read by others (mode {mode:04o}), and so can the token; chmod it to 0600",)


def _write(path: Path, fields: Mapping[str, Any], create: bool = False) -> bool:
    """Replace the file, or the file that a symlink points to, in one step (C3). With `create`, False when
    somebody else has made the file meanwhile. Raises ConfigError."""
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(fields, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fchmod(file.fileno(), 0o600)
            os.fsync(file.fileno())
        if create:
            os.link(draft, target)
            draft.unlink()
        else:
            os.replace(draft, target)
    except FileExistsError:
        draft.unlink(missing_ok=True)
        return False
    except (OSError, UnicodeEncodeError) as error:
        with suppress(OSError):
            draft.unlink()
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path} cannot be written: {words}; the old file, if there was one, is untouched") from None
    return True


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
