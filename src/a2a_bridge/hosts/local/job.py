"""The tool `job`: commands that `bash` has put into the background."""

from typing import Annotated, Literal

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.hosts.local.processes.exit_status import ending
from a2a_bridge.hosts.local.processes.jobs import Job
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Access, Result, Text, text

DEFAULT_WAIT_SECONDS = 30.0
_LINE_CHARACTERS = 100


class JobArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `job`."""

    action: Annotated[
        Literal["list", "poll", "wait", "kill", "input"],
        msgspec.Meta(
            description="poll gives the output since the last time; wait does so at the job's end.",
            extra_json_schema={"type": "string"},  # msgspec leaves it out beside an enum, and some clients need it
        ),
    ]
    id: Annotated[int | None, msgspec.Meta(description="The job's id; for all actions but list.")] = None
    wait_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None,
        msgspec.Meta(description="For wait: the most seconds; default 30."),
    ] = None
    text: Annotated[
        str | None,
        msgspec.Meta(description="For input: written to stdin as it is (end a line with \\n). Left out: closes stdin."),
    ] = None


def _expect_sound(arguments: JobArguments) -> None:
    for field, action in (("wait_seconds", "wait"), ("text", "input")):
        if getattr(arguments, field) is not None and arguments.action != action:
            raise ToolError(f"{field} belongs to the action {action}, not to {arguments.action}")
    if arguments.id is None and arguments.action != "list":
        raise ToolError(f"id is missing; the action {arguments.action} needs it")


async def _job(arguments: JobArguments, place: Workspace) -> Result:
    _expect_sound(arguments)
    if arguments.action == "list" or arguments.id is None:
        return text("\n".join(map(_row, place.jobs.all())) or "[no jobs]")
    job = place.jobs.find(arguments.id)
    match arguments.action:
        case "wait":
            seconds = arguments.wait_seconds
            await job.wait(DEFAULT_WAIT_SECONDS if seconds is None else seconds)
        case "kill":
            had_ended = not job.running
            await job.kill()
            return text(f"{_output(job)}[job {job.number}{' had ended' if had_ended else ''}: {_state(job)}]")
        case "input":
            return await _input(job, arguments.text)
    return _told(job)


async def _input(job: Job, given: str | None) -> Result:
    if not job.running:
        raise ToolError(f"job {job.number} takes no input: {_state(job)}")
    if given is None:
        job.close_input()
        return text(f"[job {job.number}: its standard input is closed]")
    try:
        content = given.encode()
    except UnicodeEncodeError:
        raise ToolError("text holds half a character (a lone surrogate); nothing was written") from None
    taken = await job.input(content, DEFAULT_WAIT_SECONDS)
    if taken < len(content):
        raise ToolError(
            f"job {job.number} took {taken} of {len(content)} bytes in {DEFAULT_WAIT_SECONDS:g} s; it does not read"
        )
    return text(f"[job {job.number}: {taken} bytes written]")


def _told(job: Job) -> Result:
    """Its new output, and how it stands; an error for one that did not end well."""
    failed = not job.running and job.status != 0
    return Result((Text(f"{_output(job)}[job {job.number}: {_state(job)}]"),), is_error=failed)


def _output(job: Job) -> str:
    """What is new, in whole lines."""
    output = job.output.take()
    return output if not output or output.endswith("\n") else f"{output}\n"


def _state(job: Job) -> str:
    seconds = f"{job.seconds:.1f} s"
    if job.running:
        return f"running for {seconds}"
    return f"{job.trouble or ending(job.status, job.timeout)}, after {seconds}"


def _row(job: Job) -> str:
    line = " ".join(job.line.split())
    shown = line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}…"
    return f"{job.number}  {_state(job)}  {shown}"


def _access(arguments: JobArguments, place: Workspace) -> Access:
    _expect_sound(arguments)
    return place.access("exec" if arguments.action in ("kill", "input") else "read")


async def _preview(arguments: JobArguments, place: Workspace) -> str:
    """Which command it is about."""
    return "" if arguments.id is None else f"job {arguments.id}: {place.jobs.find(arguments.id).line}"


JOB = TypedTool(
    "job",
    "Background commands of bash: list them; poll or wait for one's new output and exit code; kill it; give it input. "
    "Jobs are shared by all callers and end with the bridge.",
    JobArguments,
    _job,
    _access,
    _preview,
)
