"""Starting a real omp for a test, in a home of its own, and speaking its RPC mode."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from a2a_bridge.hosts.omp import installation
from tests.conftest import missing
from tests.support.processes import ROOT, Served, environment

BINARIES = ROOT / ".peers" / "node_modules" / ".bin"
DRIVER = ROOT / "peers" / "driver.ts"
COMMAND = [sys.executable, "-P", "-m", "a2a_bridge"]
# For what another process does. Long, because it only ever passes when something is broken.
DEADLINE = 60.0

MODELS = """
providers:
  offline:
    baseUrl: http://127.0.0.1:9/v1
    apiKey: none
    api: openai-completions
    models: [{ id: none, name: none, contextWindow: 8192, maxTokens: 1024, input: [text, image] }]
"""
QUIET = "setupVersion: 2\nstartup: { setupWizard: false, showSplash: false, checkUpdate: false }\n"


def until(holds: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Wait for another process's doing; what `holds` gave."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
        time.sleep(0.01)
    return found


class Home:
    """A home directory for one omp: its configuration, our extension, and a directory to work in."""

    def __init__(self, path: Path) -> None:
        if not (BINARIES / "omp").exists() or not (BINARIES / "bun").exists():
            missing("omp and bun under .peers (make test installs them, with npm)")
        self.path = path
        self.agent = path / ".omp" / "agent"
        self.work = path / "work"
        self.agent.mkdir(parents=True)
        self.work.mkdir()
        (self.agent / "models.yml").write_text(MODELS)
        (self.agent / "config.yml").write_text(QUIET)

    @property
    def env(self) -> dict[str, str]:
        """The developer's own settings of omp and of XDG directories stay out."""
        ours = {
            **environment(self.path),
            "PATH": f"{BINARIES}:{environment(self.path)['PATH']}",
            "TERM": "xterm-256color",
        }
        del ours["A2A_BRIDGE_CONFIG"], ours["A2A_BRIDGE_AUDIT"]
        return ours

    @property
    def config(self) -> Path:
        return self.agent / "a2a-bridge.json"

    @property
    def audit(self) -> Path:
        return self.agent / "a2a-bridge.log"

    def settings(self, text: str) -> None:
        """More lines for omp's config.yml."""
        with (self.agent / "config.yml").open("a") as file:
            file.write(text)

    def bridge(self, **settings: Any) -> None:
        """The bridge's own settings."""
        self.config.write_text(json.dumps(settings))
        self.config.chmod(0o600)

    def install(self, command: Sequence[str] = COMMAND) -> Path:
        file = self.agent / "extensions" / installation.FILE_NAME
        installation.install(file, list(command))
        return file

    def a2a(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "a2a_bridge", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.env, cwd=self.path, timeout=60)


class Omp:
    """omp in RPC mode. `lines` are the messages that it has printed so far."""

    def __init__(self, home: Home, process: "subprocess.Popen[bytes]") -> None:
        self.home = home
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.garbage: list[bytes] = []
        self._numbers = iter(range(1, 10_000))
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.garbage.append(line)

    def say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def command(self, line: str) -> None:
        """Type a slash command."""
        self.say(id=f"c{next(self._numbers)}", type="prompt", message=line)

    def requests(self, method: str) -> list[dict[str, Any]]:
        """What omp's extensions have asked the terminal to do."""
        return [one for one in self.lines if one.get("type") == "extension_ui_request" and one.get("method") == method]

    def notices(self) -> list[tuple[str, str]]:
        return [(one["notifyType"], one["message"]) for one in self.requests("notify")]

    def status_line(self) -> str | None:
        lines = [one.get("statusText") for one in self.requests("setStatus") if one["statusKey"] == "a2a"]
        return lines[-1] if lines else None

    def notice(self, words: str, level: str | None = None, after: int = 0) -> str:
        """The first notice, of those after the first `after`, that holds these words; waits for it."""

        def find() -> str:
            found = [text for kind, text in self.notices()[after:] if words in text and level in (None, kind)]
            return found[0] if found else ""

        return str(until(find, f"omp says {words!r}; it said {self.notices()}"))

    def drive(self, **step: Any) -> Any:
        """Something done inside of omp; see peers/driver.ts."""
        before = len(self.notices())
        self.command(f"/driver {json.dumps(step)}")
        return json.loads(self.notice('{"driver":', after=before))["driver"]

    def approvals(self, count: int) -> list[dict[str, Any]]:
        """That many prompts for approval, the oldest first."""
        until(lambda: len(self.requests("select")) >= count, f"{count} prompts")
        return self.requests("select")[:count]

    def answer(self, prompt: Mapping[str, Any], value: str) -> None:
        self.say(type="extension_ui_response", id=prompt["id"], value=value)

    def turns(self) -> list[str]:
        """Signs of the model's having been woken."""
        return [one["type"] for one in self.lines if one.get("type") in ("agent_start", "turn_start", "message_start")]

    def served(self, since: int = 0) -> Served:
        """The bridge, once it listens; `since` leaves out the notices before."""
        said = self.notice("A2A bridge listening on", after=since)
        url = next(word for word in said.split() if word.startswith("http://"))
        token = json.loads(self.home.config.read_text())["token"]
        return Served(url, token, self.home.path, self.process)  # type: ignore[arg-type]

    def bridge_pid(self) -> int:
        (pid,) = children(self.process.pid, "a2a_bridge")
        return pid


@contextmanager
def omp(home: Home, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Omp]:
    """omp in RPC mode; its stdin is closed at the end, which is its clean shutdown."""
    command = [str(BINARIES / "omp"), "--mode", "rpc", "--no-session", "-e", str(DRIVER), *options]
    with (home.path / "omp.stderr").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env={**home.env, **(env or {})},
            cwd=home.work,
        )
    one = Omp(home, process)
    bridges: list[int] = []
    try:
        yield one
        bridges = children(process.pid, "a2a_bridge")
    finally:
        with suppress(OSError):
            os.kill(process.pid, signal.SIGCONT)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(20)
        finally:
            process.kill()
            one._reading.join(5)
            process.stdout.close()
    until(lambda: not any(map(alive, bridges)), "the bridge has ended with omp", 10)


def processes() -> list[tuple[int, int, str, str]]:
    """Id, parent, state and command of each."""
    listed = subprocess.check_output(["ps", "-axww", "-o", "pid=,ppid=,stat=,args="], text=True)
    rows = (line.split(None, 3) for line in listed.splitlines())
    return [(int(row[0]), int(row[1]), row[2], row[3] if len(row) > 3 else "") for row in rows]


def children(parent: int, words: str = "") -> list[int]:
    return [pid for pid, its, state, args in processes() if its == parent and words in args and state[0] != "Z"]


def alive(pid: int) -> bool:
    return any(pid == one and state[0] != "Z" for one, _, state, _ in processes())


def tool(name: str) -> str:
    """A program that a test needs."""
    found = shutil.which(name)
    if found is None:
        missing(name)
    return str(found)
