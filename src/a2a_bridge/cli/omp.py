"""`a2a-bridge omp …`: putting the bridge into omp, taking it out again, and checking that it is there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge import config
from a2a_bridge.control import client
from a2a_bridge.control.socket_path import directory
from a2a_bridge.errors import ConfigError, InstallError
from a2a_bridge.hosts.omp import installation
from a2a_bridge.hosts.omp.directories import directories
from a2a_bridge.hosts.omp.installation import State

VERSION_SECONDS = 20
# The newest release line whose parts the bridge was proven with.
PROVEN = (18, 2)

app = typer.Typer(name="omp", no_args_is_help=True, help="Lend a running omp's session: put the bridge into omp.")

Profile = Annotated[
    str | None, typer.Option(help="omp's profile, as in omp --profile.", show_default="OMP_PROFILE, or none")
]


@app.command()
def install(profile: Profile = None) -> None:
    """Put the bridge's extension into omp. It starts with omp's next start."""
    where = directories(os.environ, profile)
    file = installation.extension_file(where)
    installation.inspect(file, _command())  # what cannot be read is told before what is found elsewhere
    others = installation.originals(where)
    if others:
        raise InstallError(
            f"another A2A bridge is among omp's extensions: {', '.join(map(str, others))}; two would lend the "
            "same session twice. Remove it (omp plugin uninstall NAME, or delete the file), then install again"
        )
    before = installation.install(file, _command())
    print(f"{'installed' if before is State.ABSENT else 'installed anew'}: {file}")
    if _is_passing():
        print("note: this installation is a temporary one of uvx; when its cache is cleared, install the bridge again")
        print("      (a lasting one: uv tool install, or pipx install)")
    print(f"omp:       {_omp_version()}")
    print(f"next:      restart omp{f' --profile {profile}' if profile else ''}; then, in omp: /a2a")
    print("           and for the client that shall borrow it: a2a-bridge mcp-json")
    if not config.look(path := config.config_path(os.environ))["port"]:
        print(f'note:      each start of omp takes a new port; "port": 7001 in {path} keeps it')


@app.command()
def uninstall(profile: Profile = None) -> None:
    """Take the bridge's extension out of omp. A running omp keeps its bridge until it ends, or /a2a stop."""
    file = installation.extension_file(directories(os.environ, profile))
    if installation.uninstall(file, _command()):
        print(f"removed: {file}")
        for one in client.survey(directory(os.environ)).found:
            if one.status.host.startswith("omp"):
                print(f"note: the bridge with pid {one.status.pid} lends on until its omp ends, or /a2a stop there")
    else:
        print(f"nothing to remove: {file} does not exist")


@app.command()
def status(profile: Profile = None) -> None:
    """Show whether omp, the extension and a running bridge are there. Exit code 1 when it is not installed."""
    where = directories(os.environ, profile)
    file = installation.extension_file(where)
    found = installation.inspect(file, _command())
    others = installation.originals(where)
    detail = f" ({found.detail})" if found.detail else ""
    print(f"omp        {_omp_version()}")
    print(f"extension  {found.state.value}: {file}{detail}{_fix(found.state, profile)}")
    for other in others:
        print(f"           another A2A bridge is there too, remove it: {other}")
    print(f"config     {_config()}")
    print("\n".join(_bridges()))
    if found.state is not State.CURRENT or others:
        raise typer.Exit(1)


def _fix(state: State, profile: str | None) -> str:
    again = f"run a2a-bridge omp install{f' --profile {profile}' if profile else ''}"
    if state is State.FOREIGN:
        return f"; move it away, then {again}"
    return "" if state is State.CURRENT else f"; {again}"


@app.command(hidden=True)
def link(port: Annotated[int, typer.Option(min=0, max=65535)] = 0) -> None:
    """Serve the omp whose extension started this process, over its stdio."""
    from a2a_bridge.cli.omp_link import serve_link  # the server's imports, which no other command should pay for

    serve_link(port)


def _command() -> list[str]:
    """What starts the very installation that this process runs from, whatever is on the PATH when omp starts.
    (-P: nothing in the directory where omp works may pass for a module of ours.)"""
    return [sys.executable, "-P", "-m", "a2a_bridge"]


def _is_passing() -> bool:
    """Whether this is an environment that uvx made for one run, in uv's cache."""
    return "archive-v0" in Path(sys.prefix).parts or "environments-v2" in Path(sys.prefix).parts


def _omp_version() -> str:
    program = shutil.which("omp")
    if program is None:
        return "not found on the PATH; what is installed counts for any omp of this user all the same"
    try:
        command = [program, "--version"]
        said = subprocess.run(command, capture_output=True, errors="replace", timeout=VERSION_SECONDS).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run ({error})"
    version = re.search(r"(\d+)\.(\d+)\.\d+", said)
    if version is None:
        return f"{program} says no version"
    known = (int(version[1]), int(version[2])) == PROVEN
    proven = "" if known else f"; the bridge was proven with {PROVEN[0]}.{PROVEN[1]}"
    return f"{version[0]} ({program}{proven})"


def _config() -> str:
    path = config.config_path(os.environ)
    if not path.exists():
        return f"{path} (made on the first start)"
    try:
        config.look(path)
    except ConfigError as error:
        return f"UNUSABLE: {error}"
    return str(path)


def _bridges() -> list[str]:
    there = client.survey(directory(os.environ))
    running = [one.status for one in there.found if one.status.host.startswith("omp")]
    lines = [f"bridge     {one.url}  pid {one.pid}  {one.host}" for one in running]
    lines += [f"bridge     {why}" for why in there.silent.values()]
    return lines or ["bridge     none is running for omp"]
