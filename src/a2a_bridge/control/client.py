"""A command's end of the control socket: find the bridge that is meant, ask it one thing. Blocking, quick to start."""

import socket
from pathlib import Path
from typing import Any

import msgspec

from a2a_bridge.control.messages import STATUS, Status
from a2a_bridge.control.socket_path import sockets
from a2a_bridge.errors import ControlError

ANSWER_SECONDS = 5.0


class Found(msgspec.Struct, frozen=True):
    """A bridge that answers, and the socket that it answers on."""

    socket: Path
    status: Status


class Survey(msgspec.Struct, frozen=True):
    """The bridges that answer, and why others that live do not."""

    found: list[Found]
    silent: dict[int, str]


def ask(path: Path, method: str, params: object = None) -> Any:
    """One request, one answer. Raises ControlError when the bridge refuses, is gone, or does not answer in time."""
    request = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(ANSWER_SECONDS)
            link.connect(str(path))
            link.sendall(request + b"\n")
            line = link.makefile("rb").readline()
    except TimeoutError:
        raise ControlError(
            f"the bridge with pid {path.stem} does not answer; it may be stopped (SIGSTOP) or hung"
        ) from None
    answer = msgspec.json.decode(line) if line else {"error": {"message": "the bridge closed the connection"}}
    if "error" in answer:
        raise ControlError(str(answer["error"].get("message")))
    return answer["result"]


def survey(where: Path) -> Survey:
    """Who is there. Those that died and left a socket are cleared away. Raises ControlError."""
    found, silent = [], {}
    for path in sockets(where):
        try:
            found.append(Found(path, msgspec.convert(ask(path, STATUS), Status)))
        except (ConnectionError, FileNotFoundError):
            path.unlink(missing_ok=True)
        except ControlError as error:
            silent[_pid(path)] = str(error)
        except msgspec.ValidationError as error:
            silent[_pid(path)] = f"the bridge with pid {path.stem} is of another version ({error})"
    return Survey(found, silent)


def _pid(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else 0


def choose(there: Survey, port: int | None, pid: int | None) -> Found:
    """The one that is meant. Raises ControlError when there is none, or when several fit."""
    if pid in there.silent:
        raise ControlError(there.silent[pid])
    fitting = [
        one
        for one in there.found
        if (port is None or one.status.port == port) and (pid is None or one.status.pid == pid)
    ]
    unclear = port is None and pid is None and there.silent
    if len(fitting) == 1 and not unclear:
        return fitting[0]
    if not there.found:
        raise ControlError(
            "; ".join(there.silent.values())
            or "no bridge is running for this user; start one with a2a-bridge serve, "
            "or start an omp that has it (a2a-bridge omp status)"
        )
    choices = "".join(f"\n  --pid {one.status.pid}  {one.status.url}  ({one.status.host})" for one in there.found)
    choices += "".join(f"\n  --pid {silent}  (does not answer; its port is not known)" for silent in there.silent)
    if not fitting:
        meant = " and ".join(f"{name} {value}" for name, value in (("port", port), ("pid", pid)) if value is not None)
        raise ControlError(f"no bridge with {meant} is running; there is:{choices}")
    raise ControlError(f"{len(fitting) + len(there.silent)} bridges are running; say which one:{choices}")
