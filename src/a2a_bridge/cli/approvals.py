"""`approvals`, `approve` and `deny`: the questions that wait for the owner, and the answers, from any terminal."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from a2a_bridge.cli import options
from a2a_bridge.cli.durations import span
from a2a_bridge.cli.tables import as_json, boxed, cut
from a2a_bridge.control import client, messages
from a2a_bridge.errors import ControlError
from a2a_bridge.terminal_text import escape, exact, fields

POLL_SECONDS = 0.5
MOST_SHOWN = 20
MOST_LINES = 12
MOST_CHARACTERS = 1500

Number = Annotated[int, typer.Argument(metavar="ID", help="The request's number, as approvals shows it.")]


def approvals(
    number: Annotated[int | None, typer.Argument(metavar="[ID]", help="Show this one, whole.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and show each request when it comes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """Show the calls that wait for your answer, and those that were asked earlier."""
    if watch and (json or number is not None):
        raise typer.BadParameter("--watch shows requests as they come: give it neither --json nor ID")
    socket = options.bridge(port, pid).socket
    if number is not None:
        whole = _whole(socket, number)
        print(as_json(whole) if json else "\n".join(_lines(whole, short=False)))
    elif watch:
        _watch(socket)
    else:
        asked = _all(socket)
        print(as_json(asked) if json else "\n".join(_listed(socket, asked)))


def approve(
    number: Number,
    session: Annotated[
        bool, typer.Option("--session", help="This very call, as often as its session makes it.")
    ] = False,
    tool: Annotated[bool, typer.Option("--tool", help="Every call of this tool, for its session.")] = False,
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """Let a call run that waits; or the next identical one, if its caller has given up."""
    if session and tool:
        raise typer.BadParameter("--session means this very call, --tool all of its tool: give one of them")
    scope = "tool" if tool else "call" if session else "once"
    print(client.ask(options.bridge(port, pid).socket, messages.APPROVE, {"id": number, "scope": scope}))


def deny(
    number: Number,
    reason: Annotated[str, typer.Option(help="Tell its caller why.")] = "",
    port: options.Port = None,
    pid: options.Pid = None,
) -> None:
    """Refuse a call that waits."""
    print(client.ask(options.bridge(port, pid).socket, messages.DENY, {"id": number, "reason": reason}))


def _all(socket: Path) -> list[messages.Asked]:
    return msgspec.convert(client.ask(socket, messages.APPROVALS), list[messages.Asked])


def _whole(socket: Path, number: int) -> messages.AskedWhole:
    return msgspec.convert(client.ask(socket, messages.APPROVAL, {"id": number}), messages.AskedWhole)


def _listed(socket: Path, asked: list[messages.Asked]) -> Iterator[str]:
    if not asked:
        yield "no call waits"
    for one in asked[:MOST_SHOWN]:
        try:
            yield from _lines(_whole(socket, one.id), short=True)
        except ControlError as error:  # answered meanwhile, or too large to be sent in time
            yield from _row(one, str(error))
        yield ""
    for one in asked[MOST_SHOWN:]:
        yield from _row(one)


def _row(one: messages.Asked, trouble: str = "") -> Iterator[str]:
    yield cut(f"request {one.id}  {_state(one)}  {_who(one)}  {escape(one.tool)}  {escape(one.summary)}")
    if trouble:
        yield cut(f"  {escape(trouble)}")


def _watch(socket: Path) -> None:
    """Each request once when it comes, and a line when it waits no more. Raises ControlError when the bridge ends."""
    try:
        _follow(socket)
    except (ConnectionError, FileNotFoundError):
        raise ControlError(f"the bridge with pid {socket.stem} has ended") from None


def _follow(socket: Path) -> NoReturn:
    shown: dict[int, messages.Asked] = {}
    while True:
        there = msgspec.convert(client.ask(socket, messages.OVERVIEW, {"attached": True}), messages.Overview)
        waiting = {one.id: one for one in there.approvals if not one.withdrawn}
        withdrawn = {one.id: one for one in there.approvals if one.withdrawn}
        for number, one in waiting.items():
            if number not in shown:
                _tell(socket, one)
        for number in shown.keys() - waiting.keys():
            how = withdrawn[number].withdrawn if number in withdrawn else "answered"
            print(f"request {number}: {how}\n", flush=True)
        shown = waiting
        time.sleep(POLL_SECONDS)


def _tell(socket: Path, one: messages.Asked) -> None:
    try:
        lines = list(_lines(_whole(socket, one.id), short=True))
    except ControlError as error:
        lines = list(_row(one, str(error)))
    bell = "\a" if sys.stdout.isatty() else ""
    print(bell + "\n".join(lines), flush=True)


def _lines(whole: messages.AskedWhole, short: bool) -> Iterator[str]:
    one = whole.asked
    again = f", asked {one.times} times" if one.times > 1 else ""
    more = f", {one.callers} callers wait" if one.callers > 1 else ""
    yield cut(f"request {one.id}  {escape(one.tool)}  {one.tier}  {_state(one)}{again}{more}")
    yield cut(f"  asked by {_who(one)}")
    if one.directory:
        yield cut(f"  in {escape(one.directory)}")
    for field in fields(whole.arguments):
        name = field.name.replace("\n", "\\u{a}") or "arguments"
        yield cut(f"  {name} ({field.size}{', JSON' if field.is_json else ''}):")
        yield from _boxed(field.text, one.id, short)
    if whole.preview:
        yield "  it would change:"
        yield from _boxed(exact(whole.preview), one.id, short)
    yield cut(f"  why asked: {escape(one.reason)}")
    if not one.granted:
        yield f"  a2a-bridge approve {one.id}   a2a-bridge deny {one.id}"


def _boxed(text: str, number: int, short: bool) -> Iterator[str]:
    shown = "\n".join(text[:MOST_CHARACTERS].split("\n")[:MOST_LINES]) if short else text
    yield from boxed(shown)
    if len(shown) < len(text):
        yield f"  … and {len(text) - len(shown)} characters more: a2a-bridge approvals {number} shows all"


def _who(one: messages.Asked) -> str:
    client_name = escape(one.client) or "an unnamed client"
    from_where = f", {one.address}" if one.address else ""
    return f"{client_name} (session {messages.session_start(one.session)}{from_where})"


def _state(one: messages.Asked) -> str:
    if one.granted:
        return f"asked earlier ({one.withdrawn}); approved, the next identical call runs"
    if one.withdrawn:
        return f"asked earlier, {span(one.seconds)} ago; {one.withdrawn}"
    return f"waiting for {span(one.seconds)}"
