"""Which running bridge a command means: the options that say so, and finding it."""

import os
from typing import Annotated

import typer

from a2a_bridge.control import client
from a2a_bridge.control.socket_path import directory

Port = Annotated[int | None, typer.Option(help="The bridge that listens on this port.")]
Pid = Annotated[int | None, typer.Option(help="The bridge with this process id.")]


def bridge(port: int | None, pid: int | None) -> client.Found:
    """The running bridge that is meant. Raises ControlError when it is none or unclear which."""
    return client.choose(client.survey(directory(os.environ)), port, pid)
