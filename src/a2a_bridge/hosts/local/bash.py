"""The tool `bash`: one command in a fresh shell."""

import signal
from typing import Annotated

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.command import Ended, run
from a2a_bridge.hosts.local.place import Place
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Result, Text


class Bash(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `bash`."""

    command: Annotated[str, msgspec.Meta(description="Shell command line; may be a script of several lines.")]
    cwd: Annotated[str | None, msgspec.Meta(description="Working directory; default the host's.")] = None
    timeout: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] | None,
        msgspec.Meta(description="Seconds until it is killed; default none."),
    ] = None
    env: Annotated[dict[str, str] | None, msgspec.Meta(description="Variables to add to the environment.")] = None


async def _bash(arguments: Bash, place: Place) -> Result:
    directory = place.path(arguments.cwd or ".")
    if not await place.is_directory(directory):
        raise ToolError(f"cwd {str(directory)!r} is not a directory")
    if "\0" in arguments.command:
        raise ToolError("command holds a NUL character; no shell can take it")
    for name, value in (arguments.env or {}).items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ToolError(f"env {name!r} cannot be set: a name is not empty and has no '=', and neither has NUL")
    environment = {**place.environment(), **(arguments.env or {})}
    return _told(await run(place, arguments.command, directory, environment, arguments.timeout), arguments)


def _told(ended: Ended, arguments: Bash) -> Result:
    """The output, and how it ended where that is not well."""
    if ended.status == 0:
        return Result((Text(ended.output),))
    if ended.status is None:
        end = f"timed out after {arguments.timeout:g} s; the command and its processes were killed"
    elif ended.status < 0:
        end = f"killed by {_signal_name(-ended.status)}"
    else:
        end = f"exit code {ended.status}"
    gap = "" if not ended.output or ended.output.endswith("\n") else "\n"
    return Result((Text(f"{ended.output}{gap}[{end}]"),), is_error=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


BASH = TypedTool(
    "bash",
    "Run a command with bash in a fresh shell: directory and variables do not carry over to the next call, "
    "stdin is empty. Gives stdout and stderr as they come; isError when the exit code is not 0. "
    "Of over 64 KiB the middle is left out.",
    Bash,
    _bash,
)
