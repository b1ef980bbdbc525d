"""The servers from npm that bench.tools measures against, over stdio, which is their own transport."""

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.support.processes import ROOT, environment

from bench.tool_servers import DEADLINE, Answer, Contestant, Missing, Stuck, text_of

BINARIES = ROOT / ".peers" / "bench" / "node_modules" / ".bin"
# Between two questions whether a search has come to its end.
_PAUSE = 0.005


class Stdio(Contestant):
    """A server that speaks JSON in lines. `command` is what starts it, `variables` its settings."""

    command: ClassVar[Sequence[str]] = ()
    variables: ClassVar[Mapping[str, str]] = {}

    def start(self) -> int:
        if not (BINARIES / self.command[0]).exists():
            raise SystemExit("bench: npm peers are missing under .peers/bench (make bench installs them, with npm)")
        self._home.mkdir(exist_ok=True)
        self._rest = bytearray()
        self._number = 0
        self._process = subprocess.Popen(
            [str(BINARIES / self.command[0]), *self.command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(self._home), **self.variables},
            cwd=self._home,
        )
        self._open.enter_context(self._process)
        self._open.callback(self._process.kill)
        client = {"name": "bench", "version": "1"}
        self._request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._say({"method": "notifications/initialized"})
        return self._process.pid

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: Any) -> Any:
        self._number += 1
        self._say({"id": self._number, "method": method, "params": params})
        end = time.monotonic() + DEADLINE
        while True:
            answer = json.loads(self._line(end))
            if answer.get("id") == self._number and "method" not in answer:
                return answer

    def _line(self, end: float) -> bytes:
        assert self._process.stdout is not None
        while (at := self._rest.find(b"\n")) < 0:
            if not select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Stuck(f"no answer within {DEADLINE:.0f} s")
            piece = os.read(self._process.stdout.fileno(), 1 << 20)
            if not piece:
                raise Stuck("it has ended")
            self._rest += piece
        line = bytes(self._rest[:at])
        del self._rest[: at + 1]
        return line

    def ask(self, name: str, arguments: Mapping[str, Any]) -> str:
        return text_of(self._request("tools/call", {"name": name, "arguments": arguments}))


class Filesystem(Stdio):
    name = "filesystem"
    command: ClassVar = ("mcp-server-filesystem", "/")

    def read(self, file: Path, times: int) -> Answer:
        return self.call("read_text_file", {"path": str(file)}, times)

    def tail(self, file: Path, lines: int, times: int) -> Answer:
        return self.call("read_text_file", {"path": str(file), "tail": lines}, times)

    def edit(self, file: Path, old: str, new: str) -> Answer:
        return self.call("edit_file", {"path": str(file), "edits": [{"oldText": old, "newText": new}]})

    def glob(self, pattern: str, directory: Path) -> Answer:
        return self.call("search_files", {"path": str(directory), "pattern": pattern})


class DesktopCommander(Stdio):
    """It searches with the ripgrep that its npm package brings, 15.0.0; the bridge's is 15.2.0."""

    name = "desktop-commander"
    command: ClassVar = ("desktop-commander", "--no-onboarding")
    # Neither telemetry nor a look for feature flags: nothing listens there.
    variables: ClassVar = {"DC_FLAG_URL": "http://127.0.0.1:9/"}

    def start(self) -> int:
        settings = self._home / ".claude-server-commander"
        settings.mkdir(parents=True, exist_ok=True)
        chosen = {"telemetryEnabled": False, "allowedDirectories": [], "blockedCommands": [], "defaultShell": "/bin/sh"}
        (settings / "config.json").write_text(json.dumps(chosen))
        return super().start()

    def read(self, file: Path, times: int) -> Answer:
        return self.call("read_file", {"path": str(file)}, times)

    def tail(self, file: Path, lines: int, times: int) -> Answer:
        return self.call("read_file", {"path": str(file), "offset": -lines}, times)

    def edit(self, file: Path, old: str, new: str) -> Answer:
        return self.call("edit_block", {"file_path": str(file), "old_string": old, "new_string": new})

    def bash(self, command: str, times: int) -> Answer:
        return self.call("start_process", {"command": command, "timeout_ms": 10_000}, times)

    def grep(self, pattern: str, directory: Path) -> Answer:
        return self._search(pattern, directory, searchType="content", contextLines=0)

    def glob(self, pattern: str, directory: Path) -> Answer:
        return self._search(pattern, directory, searchType="files")

    def _search(self, pattern: str, directory: Path, **more: Any) -> Answer:
        """It answers at once, and tells of what it found when asked again."""
        began = time.perf_counter()
        wanted = {"pattern": pattern, "path": str(directory), "ignoreCase": False, **more}
        said = self.ask("start_search", wanted)
        found = re.search(r"session: (\S+)", said)
        if not found:
            raise Missing(said)
        while "Search completed" not in (said := self._found(found[1])):
            if time.perf_counter() - began > DEADLINE:
                raise Stuck(f"the search did not end within {DEADLINE:.0f} s")
            time.sleep(_PAUSE)
        return Answer(said, [(time.perf_counter() - began) * 1000])

    def _found(self, session: str) -> str:
        return self.ask("get_more_search_results", {"sessionId": session, "length": 1000})
