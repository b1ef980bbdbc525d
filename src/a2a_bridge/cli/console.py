"""`console`: the terminal screen of a running bridge."""

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from a2a_bridge.cli import options
from a2a_bridge.errors import ControlError


def console(
    port: options.Port = None,
    pid: options.Pid = None,
    owns: Annotated[bool, typer.Option("--owns", hidden=True)] = False,
) -> None:
    """Watch a running bridge: its calls, its questions to you, and your answers."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ControlError("the console needs a terminal; approvals, calls and status say the same without one")
    found = options.bridge(port, pid)
    from a2a_bridge.console.app import run  # heavy, and no other command needs it

    if not sys.stderr.isatty():
        os.dup2(sys.stdout.fileno(), sys.stderr.fileno())  # the screen is drawn through stderr
    if run(found.socket, owns):
        with suppress(ProcessLookupError):
            os.kill(found.status.pid, signal.SIGTERM)
