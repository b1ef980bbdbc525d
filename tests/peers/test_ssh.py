"""Across machines: a client through a real `ssh -L` forward, with a server and keys of the test's own."""

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.hosts import NAMES
from tests.peers.test_python_sdk import connected
from tests.support.callers import TOKEN
from tests.support.processes import served


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until somebody listens on that port."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail(f"nobody listens on port {port}")


@contextmanager
def ssh_server(home: Path) -> Iterator[tuple[int, Path]]:
    """An sshd on loopback that lets this user in with one key; its port, and that key."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None or shutil.which("ssh-keygen") is None:
        missing("openssh-server")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / name)]
        subprocess.run(command, check=True)
    (home / "authorized").write_text((home / "user.pub").read_text())
    port = free_port()
    (home / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {home}/host\nPidFile {home}/pid\nStrictModes no\n"
        f"AuthorizedKeysFile {home}/authorized\nPasswordAuthentication no\nUsePAM no\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it when it is root's
    process = subprocess.Popen([str(sshd), "-D", "-e", "-f", str(home / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield port, home / "user"
    finally:
        process.terminate()
        process.wait()


async def test_a_client_through_a_forward_lists_and_calls(tmp_path: Path) -> None:
    for part in ("ssh", "bridge"):
        (tmp_path / part).mkdir()
    (tmp_path / "bridge" / "note.txt").write_text("seen from afar\n")
    with ssh_server(tmp_path / "ssh") as (ssh_port, key), served(tmp_path / "bridge", settings={"token": TOKEN}) as far:
        near = free_port()
        options = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known"]
        options += ["-o", "LogLevel=ERROR", "-o", "ExitOnForwardFailure=yes", f"{getpass.getuser()}@127.0.0.1"]
        forward = subprocess.Popen(
            ["ssh", "-N", "-L", f"{near}:127.0.0.1:{far.port}", "-p", str(ssh_port), "-i", str(key), *options]
        )
        try:
            wait_for(near, forward)
            async with connected(far._replace(url=f"http://127.0.0.1:{near}/")) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == set(NAMES)
                read = await client.call_tool("read", {"path": "note.txt"})
                assert "seen from afar" in str(read.content)
                ran = await client.call_tool("bash", {"command": "exit 3"})
                assert ran.is_error
        finally:
            forward.terminate()
            forward.wait()
