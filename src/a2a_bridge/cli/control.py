"""`status`, `token` and `rotate`: asking a running bridge, or the file where none runs."""

import os
from datetime import timedelta
from pathlib import Path

import msgspec
import typer

from a2a_bridge import config
from a2a_bridge.auth import token_prefix
from a2a_bridge.cli import options
from a2a_bridge.cli.serve import ConfigFile, file
from a2a_bridge.control import client, messages
from a2a_bridge.control.socket_path import directory
from a2a_bridge.errors import ConfigError


def status(
    port: options.Port = None,
    pid: options.Pid = None,
    json: bool = typer.Option(False, "--json", help="One JSON object."),
) -> None:
    """Show a running bridge's address, sessions, calls and audit log."""
    found = options.bridge(port, pid).status
    if json:
        print(msgspec.json.encode(found).decode())
        return
    for line in status_lines(found):
        print(line)


def status_lines(found: messages.Status) -> list[str]:
    """How a bridge is, for a person."""
    uptime = timedelta(seconds=int(found.uptime))
    failed = f"{found.audit_failed} writes FAILED" if found.audit_failed else "ok"
    rows = (
        ("url", found.url),
        ("host", found.host),
        ("token", found.token_prefix),
        ("pid", found.pid),
        ("uptime", uptime),
        ("sessions", found.sessions),
        ("calls", f"{found.calls} in flight, {found.waiting} waiting for you{'; PAUSED' if found.paused else ''}"),
        ("audit", f"{found.audit}  ({failed})"),
        ("config", found.config),
    )
    return [f"{name:<9} {value}" for name, value in rows]


def token(port: options.Port = None, pid: options.Pid = None, config_file: ConfigFile = None) -> None:
    """Print the full token, and nothing else."""
    found = _running(port, pid, config_file)
    if found is not None:
        print(client.ask(found.socket, messages.TOKEN))
        return
    path = file(config_file)
    if not path.exists():
        raise ConfigError(f"{path} does not exist yet; the first start makes it: a2a-bridge serve --config {path}")
    print(config.load(path).token)


def rotate(port: options.Port = None, pid: options.Pid = None, config_file: ConfigFile = None) -> None:
    """Replace the token: the old one fails at once, and the new one is written to the configuration file."""
    found = _running(port, pid, config_file)
    if found is not None:
        prefix = client.ask(found.socket, messages.ROTATE)
        print(f"rotated: token {prefix} counts at once on {found.status.url}")
        _tell_of_others(Path(found.status.config), found.status.pid)
        return
    path = file(config_file)
    config.load(path)  # a malformed file is refused, not overwritten
    print(f"rotated: token {token_prefix(config.rotate(path))} is in {path}; no running bridge was told")
    _tell_of_others(path)


def _running(port: int | None, pid: int | None, config_file: Path | None) -> client.Found | None:
    """The bridge that is meant, or None when the file is: it was named, or no bridge runs."""
    if config_file is not None:
        if port is not None or pid is not None:
            raise typer.BadParameter("--config means the file, --port and --pid a running bridge: give one of them")
        return None
    there = client.survey(directory(os.environ))
    if not there.found and not there.silent and port is None and pid is None:
        return None
    return client.choose(there, port, pid)


def _tell_of_others(path: Path, rotated: int | None = None) -> None:
    for other in client.survey(directory(os.environ)).found:
        if other.status.pid != rotated and other.status.config == str(path):
            print(
                f"note: the bridge with pid {other.status.pid} shares this file and keeps its old token "
                "until it is restarted or rotated itself"
            )
