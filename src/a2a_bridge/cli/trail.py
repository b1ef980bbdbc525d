"""`audit`: the audit log as calls, oldest first."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from a2a_bridge import config
from a2a_bridge.audit import trail

POLL_SECONDS = 0.2


def audit(
    follow: Annotated[bool, typer.Option("--follow", help="Go on, one line for each call that settles.")] = False,
    hung: Annotated[bool, typer.Option("--hung", help="Only calls that never settled.")] = False,
) -> None:
    """Show the audit log: each call's start and end paired, across the rotated file too."""
    path = config.audit_path(os.environ)
    calls: dict[str, trail.Entry] = {}
    for line in trail.lines(path):
        trail.take(calls, line)
    for entry in calls.values():
        if entry.done is None or not hung:
            print(_shown(entry))
    if follow:
        _follow(path, calls, hung)


def _follow(path: Path, calls: dict[str, trail.Entry], hung: bool) -> None:
    """Lines as they come, through rotations: the old file is read to its end before the new one is opened."""
    file = None
    try:
        while True:
            if file is None and path.exists():
                file = path.open("rb")
            moved = file is not None and not _still_at(file.fileno(), path)
            for line in file or ():
                known = dict(calls)
                entry = trail.take(calls, line)
                fresh = entry is not None and known.get(entry.id, entry).done is None
                if entry is not None and fresh and (entry.done is None) == hung:
                    print(_shown(entry), flush=True)
            if file is not None and moved:
                file.close()
                file = None
            time.sleep(POLL_SECONDS)
    finally:
        if file is not None:
            file.close()


def _still_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _shown(entry: trail.Entry) -> str:
    when = entry.start or f"(start rotated away) {entry.done}"
    end = "never settled" if entry.done is None else "error" if entry.is_error else "ok"
    return f"{when}  {end:<13}  {entry.tool}  {entry.args}  call {entry.id}  session {entry.sid[:8]}"
