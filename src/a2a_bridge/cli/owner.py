"""`calls`, `cancel`, `sessions`, `grants`, `pause`, `resume`: what a running bridge does, and the owner's say in it."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from a2a_bridge.cli import options
from a2a_bridge.cli.durations import span
from a2a_bridge.cli.tables import as_json, cut
from a2a_bridge.control import client, messages
from a2a_bridge.terminal_text import escape

Row = TypeVar("Row")
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]

sessions_app = typer.Typer(invoke_without_command=True, help="Show the sessions that clients have open; end one.")
grants_app = typer.Typer(invoke_without_command=True, help="Show what runs without asking you; revoke it.")


def calls(json: AsJson = False, port: options.Port = None, pid: options.Pid = None) -> None:
    """Show the calls in flight, the oldest first."""
    there = _asked(messages.CALLS, messages.LiveCall, port, pid)
    if json:
        _print_json(there)
        return
    for one in there or ():
        state = f"waits for request {one.request}" if one.request else "runs"
        number = messages.call_number(one.id)
        row = f"{number}  {state}  {span(one.seconds)}  {_whose(one)}  {escape(one.tool)}  {escape(one.summary)}"
        print(cut(row))
    if not there:
        print("no call is in flight")


def cancel(
    call_id: Annotated[str, typer.Argument(metavar="CALL_ID", help="The call's number, as calls shows it, or its id.")],
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """End a call; its caller is told that the owner did so."""
    print(client.ask(options.bridge(port, pid).socket, messages.CANCEL, {"id": call_id}))


def pause(port: options.Port = None, pid: options.Pid = None) -> None:
    """Stop everything now: running calls and background jobs end, new calls are refused until `resume`."""
    print(client.ask(options.bridge(port, pid).socket, messages.PAUSE))


def resume(port: options.Port = None, pid: options.Pid = None) -> None:
    """Let calls run again after `pause`."""
    print(client.ask(options.bridge(port, pid).socket, messages.RESUME))


@sessions_app.callback()
def sessions(context: typer.Context, json: AsJson = False, port: options.Port = None, pid: options.Pid = None) -> None:
    """Show the sessions that clients have open; end one."""
    if context.invoked_subcommand is not None:
        return
    there = _asked(messages.SESSIONS, messages.SessionRow, port, pid)
    if json:
        _print_json(there)
        return
    for one in there:
        where = f" from {one.address}" if one.address else ""
        ages = f"opened {span(one.opened)} ago, seen {span(one.seen)} ago"
        name = escape(one.client) or "an unnamed client"
        print(cut(f"{messages.session_start(one.id)}  {name}{where}  {ages}  {one.calls} calls"))
    if not there:
        print("no session is open")


@sessions_app.command(name="end")
def end_session(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="As sessions shows it, or whole.")],
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """End a session and its calls; what was granted for it ends too."""
    print(client.ask(options.bridge(port, pid).socket, messages.END_SESSION, {"id": session_id}))


@grants_app.callback()
def grants(context: typer.Context, json: AsJson = False, port: options.Port = None, pid: options.Pid = None) -> None:
    """Show what runs without asking you; revoke it."""
    if context.invoked_subcommand is not None:
        return
    there = _asked(messages.GRANTS, messages.GrantRow, port, pid)
    if json:
        _print_json(there)
        return
    for one in there:
        left = "while its session lives" if one.seconds is None else f"for {span(one.seconds)} more"
        what = "every call" if one.kind.startswith("this tool") else escape(one.summary)
        print(cut(f"{one.id}  {one.kind}  {left}  {_whose(one)}  {escape(one.tool)}  {what}"))
    if not there:
        print("nothing is granted")


@grants_app.command(name="revoke")
def revoke(
    number: Annotated[int, typer.Argument(metavar="ID", help="The grant's number, as grants shows it.")],
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """Take a grant back: such calls are asked about again."""
    print(client.ask(options.bridge(port, pid).socket, messages.REVOKE, {"id": number}))


def _asked(method: str, row: type[Row], port: int | None, pid: int | None) -> list[Row]:
    return msgspec.convert(client.ask(options.bridge(port, pid).socket, method), list[row])  # type: ignore[valid-type]


def _print_json(rows: Sequence[Any]) -> None:
    print(as_json(rows))


def _whose(one: messages.LiveCall | messages.GrantRow) -> str:
    return f"{escape(one.client) or 'an unnamed client'} ({messages.session_start(one.session)})"
