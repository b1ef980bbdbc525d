"""`audit`: the audit log as calls, oldest first."""

import os
import sys
import time
from typing import Annotated

import typer

from a2a_bridge import config
from a2a_bridge.audit import reader
from a2a_bridge.terminal_text import escape

POLL_SECONDS = 0.2


def audit(
    follow: Annotated[bool, typer.Option("--follow", help="Go on, one line for each call that settles.")] = False,
    hung: Annotated[bool, typer.Option("--hung", help="Only calls that never settled.")] = False,
) -> None:
    """Show the audit log: each call's start and end paired, across the rotated file too."""
    if follow and hung:
        raise typer.BadParameter("--follow shows calls that settle, --hung those that did not: give one of them")
    path = config.audit_path(os.environ)
    if not path.exists():
        sys.stderr.write(f"a2a-bridge: {path} does not exist yet; the first call makes it\n")
    calls: dict[str, reader.Entry] = {}

    def warn_of_gap() -> None:
        sys.stderr.write(f"a2a-bridge: {path} was truncated; records that were not shown yet may be missing\n")

    log = reader.tail(path, warn_of_gap)
    while (line := next(log)) is not None:
        reader.take(calls, line)
    for entry in calls.values():
        if entry.done is None or not hung:
            print(_shown(entry), flush=follow)
    while follow:
        while (line := next(log)) is not None:
            settled = reader.take(calls, line)
            if settled is not None and settled.done is not None:
                print(_shown(settled), flush=True)
                del calls[settled.id]
        time.sleep(POLL_SECONDS)


def _shown(entry: reader.Entry) -> str:
    when = entry.start or f"(start rotated away) {entry.done}"
    end = "not settled" if entry.done is None else "error" if entry.is_error else "ok"
    return escape(f"{when}  {end:<11}  {entry.tool}  {entry.args}  call {entry.id}  session {entry.sid[:8]}")
