"""Starting real processes for a test, and ending them with it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Served(NamedTuple):
    """A bridge process that listens."""

    url: str
    token: str
    home: Path
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def audit(self) -> Path:
        return self.home / "audit.log"

    @property
    def config(self) -> Path:
        return self.home / "bridge.json"


def environment(home: Path) -> dict[str, str]:
    """Nothing of the developer's own: a home, a runtime directory and an audit log for this test alone."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "A2A_BRIDGE_CONFIG": str(home / "bridge.json"),
        "A2A_BRIDGE_AUDIT": str(home / "audit.log"),
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
    }


@contextmanager
def bridge(
    command: Sequence[str], home: Path, settings: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Run a command that serves, wait for the line with its URL, and end it by SIGTERM when the block ends."""
    file = home / "bridge.json"
    if settings is not None:
        file.write_text(json.dumps(settings))
        file.chmod(0o600)
    with (home / "stderr").open("w") as err:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, text=True, env={**environment(home), **(env or {})}, cwd=home
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"{command} said {line!r} and {(home / 'stderr').read_text()!r}"
            yield Served(found[0], json.loads(file.read_text())["token"], home, process)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(15)
            finally:
                process.kill()
                if process.stdout is not None:
                    process.stdout.close()


def records(audit: Path) -> list[dict[str, Any]]:
    """The records of an audit log; none when there is no file. Raises when a line is torn."""
    return [json.loads(line) for line in audit.read_bytes().split(b"\n") if line] if audit.exists() else []


def scripted(home: Path, settings: Mapping[str, Any] | None = None, grace: float = 5.0) -> Any:
    """The bridge with the scripted host."""
    return bridge([sys.executable, "-m", "tests.support.scripted", str(home), str(grace)], home, settings)


def served(home: Path, *options: str, settings: Mapping[str, Any] | None = None, **env: str) -> Any:
    """`a2a-bridge serve --plain` with the local host."""
    return bridge([sys.executable, "-m", "a2a_bridge", "serve", "--plain", *options], home, settings, env)


def a2a(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run an `a2a-bridge` command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "a2a_bridge", *arguments],
        capture_output=True,
        text=True,
        env={**environment(home), **env},
        cwd=home,
        timeout=30,
    )
