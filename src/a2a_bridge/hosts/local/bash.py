"""The tool `bash`: one command in a fresh shell."""

import re
from typing import Annotated

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.files.path_text import quote_name
from a2a_bridge.hosts.local.processes.command import Command
from a2a_bridge.hosts.local.processes.exit_status import ending
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Access, Result, Text, text

# Variables that tell a shell or the system what to run, or how to read a line.
_TELLING = re.compile(r"(?:BASH_ENV|ENV|PS4|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|IFS|PATH|LD_.*|DYLD_.*|BASH_FUNC_.*)\Z")


class Bash(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `bash`."""

    command: Annotated[str, msgspec.Meta(description="Shell command line; may be a script of several lines.")]
    cwd: Annotated[str | None, msgspec.Meta(description="Working directory; default the host's.")] = None
    timeout: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] | None,
        msgspec.Meta(description="Seconds until it is killed; default none."),
    ] = None
    env: Annotated[dict[str, str] | None, msgspec.Meta(description="Variables to add to the environment.")] = None
    background: Annotated[
        bool, msgspec.Meta(description="Answer at once with a job id for the tool `job`; stdin is then a pipe.")
    ] = False


async def _bash(arguments: Bash, place: Workspace) -> Result:
    directory = place.path(arguments.cwd or ".")
    if not await place.is_directory(directory):
        raise ToolError(f"cwd {str(directory)!r} is not a directory")
    timeout = _timeout(arguments, place)
    command = Command(place, arguments.command, directory, {**place.environment(), **(arguments.env or {})})
    if arguments.background:
        return await _job(command, timeout, place)
    try:
        status = await command.run(timeout)
    except BaseException:
        command.output.discard()  # no answer will name the file
        raise
    return _told(status, timeout, command)


def _timeout(arguments: Bash, place: Workspace) -> float | None:
    """The most seconds that it may run. Raises ToolError for what cannot be run at all."""
    if "\0" in arguments.command:
        raise ToolError("command holds a NUL character; no shell can take it")
    for name, value in (arguments.env or {}).items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ToolError(f"env {name!r} cannot be set: a name is not empty and has no '=', and neither has NUL")
    return _within(arguments.timeout, place.max_command_seconds)


def _within(timeout: float | None, longest: float | None) -> float | None:
    if longest is not None and timeout is not None and timeout > longest:
        raise ToolError(f"timeout {timeout:g} is over this host's maximum of {longest:g} s")
    return longest if timeout is None else timeout


async def _job(command: Command, timeout: float | None, place: Workspace) -> Result:
    job, stdin = place.jobs.add(command.line, command.output)
    job.start(command.run(timeout, stdin), timeout)
    await job.begun(command.started)
    if job.trouble:
        raise ToolError(job.trouble)
    return text(f"job {job.number} runs; ask the tool job for it with id {job.number}")


def _told(status: int | None, timeout: float | None, command: Command) -> Result:
    """The output, and how it ended where that is not well."""
    output = command.output.take()
    if not command.output.told:
        command.output.discard()
    if status == 0:
        return Result((Text(output),))
    gap = "" if not output or output.endswith("\n") else "\n"
    return Result((Text(f"{output}{gap}[{ending(status, timeout)}]"),), is_error=True)


def _access(arguments: Bash, place: Workspace) -> Access:
    _timeout(arguments, place)
    directory = place.path(arguments.cwd or ".")
    usual = directory == place.directory and not arguments.env
    opaque = any(map(_TELLING.match, arguments.env or {}))
    return Access("exec", quote_name(str(directory)), arguments.command, usual, opaque)


BASH = TypedTool(
    "bash",
    "Run a command with bash in a fresh shell: directory and variables do not carry over to the next call, "
    "stdin is empty. Gives stdout and stderr as they come, colours and overwritten progress removed; isError when "
    "the exit code is not 0. Of over 64 KiB the middle is left out, and a file with all of it named. "
    "What may outlast your client's patience belongs in the background.",
    Bash,
    _bash,
    _access,
)
