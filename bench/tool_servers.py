"""Who takes part in bench.tools, each with its own tools for the same tasks: the bridge, over HTTP on one connection,
and omp, whose tools are called inside of it, without any transport. The servers from npm are in bench.stdio.

All clients are plain ones; times are taken around encoding and decoding too.
"""

import http.client
import json
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.omp import Home, omp
from tests.support.processes import served

DEADLINE = 60.0


class Missing(Exception):
    """Why a contestant has no figure for a task."""


class Stuck(Missing):
    """It must be started anew before it can be asked again."""


class Answer(NamedTuple):
    """What a tool said last, and the milliseconds of each call."""

    text: str
    took: list[float]


class Contestant:
    """A server with the tools that it is asked for. What it lacks is Missing."""

    name = ""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._open = ExitStack()

    def start(self) -> int:
        """The id of the process whose tree is all of it."""
        raise NotImplementedError

    def stop(self) -> None:
        with suppress(subprocess.TimeoutExpired):  # one that is stuck is killed
            self._open.close()

    def ask(self, name: str, arguments: Mapping[str, Any]) -> str:
        """One call of a tool; its text. Raises Missing where it fails."""
        raise NotImplementedError

    def call(self, name: str, arguments: Mapping[str, Any], times: int = 1) -> Answer:
        text = ""
        took = []
        for _ in range(times):
            began = time.perf_counter()
            text = self.ask(name, arguments)
            took.append((time.perf_counter() - began) * 1000)
        return Answer(text, took)

    def read(self, file: Path, times: int) -> Answer:
        raise NotImplementedError

    def tail(self, file: Path, lines: int, times: int) -> Answer:
        raise NotImplementedError

    def edit(self, file: Path, old: str, new: str) -> Answer:
        raise NotImplementedError

    def bash(self, command: str, times: int) -> Answer:
        raise Missing("it has no shell")

    def grep(self, pattern: str, directory: Path) -> Answer:
        raise Missing("it does not search in files")

    def glob(self, pattern: str, directory: Path) -> Answer:
        raise NotImplementedError


class Bridge(Contestant):
    name = "bridge"

    def start(self) -> int:
        self._home.mkdir(exist_ok=True)
        server = self._open.enter_context(served(self._home))
        self._link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        self._open.callback(self._link.close)
        self._headers = {"Authorization": f"Bearer {server.token}"}
        self._headers["Mcp-Session-Id"] = self._post("initialize", {})[1]["mcp-session-id"]
        pid: int = server.process.pid
        return pid

    def _post(self, method: str, params: Any) -> tuple[Any, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        try:
            self._link.request("POST", "/", body, self._headers)
            answer = self._link.getresponse()
            return json.loads(answer.read()), answer.headers
        except TimeoutError:
            raise Stuck(f"no answer within {DEADLINE:.0f} s") from None

    def ask(self, name: str, arguments: Mapping[str, Any]) -> str:
        return text_of(self._post("tools/call", {"name": name, "arguments": arguments})[0])

    def read(self, file: Path, times: int) -> Answer:
        return self.call("read", {"path": str(file)}, times)

    def tail(self, file: Path, lines: int, times: int) -> Answer:
        return self.call("read", {"path": str(file), "offset": -lines}, times)

    def edit(self, file: Path, old: str, new: str) -> Answer:
        return self.call("edit", {"path": str(file), "edits": [{"old": old, "new": new}]})

    def bash(self, command: str, times: int) -> Answer:
        return self.call("bash", {"command": command}, times)

    def grep(self, pattern: str, directory: Path) -> Answer:
        return self.call("grep", {"pattern": pattern, "path": str(directory)})

    def glob(self, pattern: str, directory: Path) -> Answer:
        return self.call("glob", {"pattern": pattern, "path": str(directory)})


class InsideOmp(Contestant):
    """`replace` is the way of its edit that takes old and new text; its default one gives up on a file of 20 MB."""

    name = "inside omp"

    def start(self) -> int:
        home = Home(self._home / str(time.monotonic_ns()))
        home.settings("edit: { mode: replace }\n")
        self._omp = self._open.enter_context(omp(home))
        self._omp.drive(do="tools")
        pid: int = self._omp.process.pid
        return pid

    def call(self, name: str, arguments: Mapping[str, Any], times: int = 1) -> Answer:
        try:
            answer = self._omp.drive(do="call", name=name, arguments=arguments, times=times)
        except AssertionError:
            raise Stuck(f"no answer within {DEADLINE:.0f} s") from None
        if "error" in answer:
            raise Missing(answer["error"])
        return Answer(text_of({"result": answer}), answer["took"])

    def read(self, file: Path, times: int) -> Answer:
        return self.call("read", {"path": str(file)}, times)

    def tail(self, file: Path, lines: int, times: int) -> Answer:
        return self.call("read", {"path": f"{file}:-{lines}"})  # once: in a large file it takes seconds

    def edit(self, file: Path, old: str, new: str) -> Answer:
        return self.call("edit", {"path": str(file), "old_string": old, "new_string": new})

    def bash(self, command: str, times: int) -> Answer:
        return self.call("bash", {"command": command}, times)

    def grep(self, pattern: str, directory: Path) -> Answer:
        return self.call("grep", {"pattern": pattern, "path": str(directory)})

    def glob(self, pattern: str, directory: Path) -> Answer:
        return self.call("glob", {"path": f"{directory}/{pattern}"})


def text_of(answer: Any) -> str:
    """The text of a result. Raises Missing with the words of an error."""
    if "error" in answer:
        raise Missing(answer["error"]["message"])
    text = "\n".join(block.get("text", "") for block in answer["result"]["content"])
    if answer["result"].get("isError"):
        raise Missing(text)
    return text
