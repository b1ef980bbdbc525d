"""The `a2a-bridge` command: its table of sub-commands, and how an error becomes one line and an exit code."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from a2a_bridge.cli import approvals, audit, call, console, control, mcp_json, omp, owner, serve
from a2a_bridge.errors import BridgeError
from a2a_bridge.wire.mcp import SERVER_VERSION

FAILURE = 1
USAGE = 2
INTERRUPTED = 130

app = typer.Typer(
    name="a2a-bridge",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(SERVER_VERSION)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Lend the tools of a live session on this machine to an agent on another one, over MCP."""


app.command()(serve.serve)
app.command()(control.status)
app.command()(control.token)
app.command()(control.rotate)
app.command(name="mcp-json")(mcp_json.mcp_json)
app.command()(call.tools)
app.command()(call.call)
app.command()(audit.audit)
app.command()(console.console)
app.command()(approvals.approvals)
app.command()(approvals.approve)
app.command()(approvals.deny)
app.command()(owner.calls)
app.command()(owner.cancel)
app.add_typer(owner.sessions_app, name="sessions")
app.add_typer(owner.grants_app, name="grants")
app.command()(owner.pause)
app.command()(owner.resume)
app.add_typer(omp.app)


def main() -> NoReturn:
    """Run the command in `sys.argv` and exit: 0, 1 for a failure, 2 for wrong usage."""
    _open_standard_streams()
    # What the terminal's encoding cannot say is shown as an escape; it must not end the command.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # here, where a reader that has gone is dealt with
    except typer.TyperException as error:
        code = _say(error.format_message() or "see a2a-bridge --help", USAGE)
    except BridgeError as error:
        code = _say(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader has gone; what is left in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILURE
    except UnicodeEncodeError:
        code = _say("an argument is not UTF-8 text", USAGE)
    except OSError as error:
        code = _say(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILURE)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else 0)


def _open_standard_streams() -> None:
    """Where a standard descriptor is closed (`>&-`), nothing else may take its number, and nobody writes to None."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"a2a-bridge: {message}\n")
    return code
