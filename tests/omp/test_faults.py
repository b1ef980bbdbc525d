"""What a broken bridge does to omp: nothing. It goes on, says once what is wrong and what to do, and can start anew.

The bridge is played by a script. Most tests share one omp, give the script a new part, and type `/a2a restart`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.omp.test_tools import sleeping
from tests.support.omp import BINARIES, Home, Omp, alive, children, omp, until

# The other end of the link, as small as it can be. What a test adds runs after it.
ACTOR = """
import json, os, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
with open(f"{HERE}/starts", "a") as file:
    file.write(f"{os.getpid()} {time.monotonic()}\\n")
STARTS = len(open(f"{HERE}/starts").readlines())


def write(data):
    while data:
        data = data[os.write(1, data):]


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")


def say(words):
    send(method="notify", params={"message": words, "level": "info"})


def ready():
    send(method="ready", params={"port": 1})


def take():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else os._exit(0)


def ask(method, params, number=1):
    send(id=number, method=method, params=params)
    while (message := take()).get("id") != number or "method" in message:
        pass
    return message


def serve():
    ready()
    say(f"serving, as number {STARTS}")
    while True:
        message = take()
        if "method" in message:
            words = f"answered {message['params']['word']}"
            send(id=message["id"], result={"message": words, "level": "info"})


def hang():
    while True:
        signal.pause()

"""

ODD = """
export default function odd(pi) {
	const round = {}; round.round = round;
	const kinds = {
		"a big integer": () => ({ content: [{ type: "text", text: 1n }] }),
		"a circle": () => ({ content: [round] }),
		"a text that throws": () => ({ content: [{ toJSON() { throw new Error("no"); } }] }),
		"no object": () => { throw Object.create(null); },
		"nothing": () => { throw undefined; },
	};
	pi.registerTool({
		name: "odd", label: "odd", description: "for tests", approval: "read",
		parameters: pi.typebox.Type.Object({ kind: pi.typebox.Type.String() }),
		execute: async (_id, { kind }) => kinds[kind](),
	});
}
"""

# Says in which mode a session has started: without it, a bridge that is not there proves nothing.
PROBE = """
import { appendFileSync } from "node:fs";
export default function probe(pi) {
	pi.on("session_start", (_event, ctx) => appendFileSync("%s", `${ctx.mode}\\n`));
}
"""

numbers = count(1)


class Play:
    """A home whose bridge is the actor."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.script = home.path / "actor.py"
        self.starts = home.path / "starts"
        self.part("serve()")
        self.file = home.install([sys.executable, "-IS", str(self.script)])

    def part(self, lines: str) -> None:
        self.script.write_text(ACTOR + lines)
        self.starts.unlink(missing_ok=True)

    def quicker(self, name: str, value: str) -> None:
        """Another number for one of the extension's waits."""
        source, changed = re.subn(
            rf"^const {name} = .*;$", f"const {name} = {value};", self.file.read_text(), flags=re.M
        )
        assert changed == 1, f"the extension has no {name}"
        self.file.write_text(source)

    def started(self) -> list[tuple[int, float]]:
        """Process id and time of each start."""
        lines = self.starts.read_text().splitlines() if self.starts.exists() else []
        return [(int(line.split()[0]), float(line.split()[1])) for line in lines]

    def actors(self, one: Omp) -> list[int]:
        """Those of its starts that run."""
        started = [pid for pid, _ in self.started()]
        return [pid for pid in children(one.process.pid) if pid in started]

    def sweep(self) -> None:
        """End what a failed test has left; one that hangs does not notice that omp is gone."""
        for pid, _ in self.started():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def played(path: Path) -> Iterator[Play]:
    play = Play(Home(path))
    try:
        yield play
    finally:
        play.sweep()


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """For an omp of this test's own."""
    with played(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Play, Omp]]:
    """One omp for all; its waits are short."""
    with played(tmp_path_factory.mktemp("faults")) as play:
        play.quicker("BACKOFF_MS", "[20, 40, 80, 160, 320]")
        play.quicker("ANSWER_MS", "1500")
        play.quicker("END_MS", "300")
        play.home.settings("tools: { artifactSpillThreshold: 100000 }\n")  # large results whole
        (play.home.agent / "extensions" / "odd.ts").write_text(ODD)
        with omp(play.home) as one:
            one.notice("serving, as number 1")
            yield play, one
            well(one)


def begin(stage: tuple[Play, Omp], lines: str) -> tuple[Play, Omp, int]:
    """Give the actor a part and start it. The number is that of the notices before."""
    play, one = stage
    play.part(lines)
    return play, one, restarted(one)


def restarted(one: Omp) -> int:
    before = len(one.notices())
    one.command("/a2a restart")
    one.notice("A2A bridge: starting anew", "info", after=before)
    return before


def well(one: Omp) -> None:
    """omp answers, and nobody but omp has written to its stdout or stderr."""
    number = f"well-{next(numbers)}"
    one.say(id=number, type="get_state")
    (answer,) = until(lambda: [line for line in one.lines if line.get("id") == number], "omp answers")
    assert answer["success"] is True
    assert one.process.poll() is None
    assert one.garbage == []
    assert [line for line in one.lines if line.get("type") == "extension_error"] == []
    # With no extension at all omp prints nothing there either.
    assert (one.home.path / "omp.stderr").read_text() == ""


def typed(one: Omp, line: str) -> tuple[str, str]:
    """What a command is answered with."""
    before = len(one.notices())
    one.command(line)
    until(lambda: len(one.notices()) > before, f"{line} is answered")
    return one.notices()[before]


def said(one: Omp, after: int, words: str) -> list[str]:
    """The notices with these words so far, less what was typed for."""
    return [text for _, text in one.notices()[after:] if words in text and "not running" not in text]


# It cannot be started.


def nothing(file: Path) -> None:
    file.unlink()


def closed(file: Path) -> None:
    file.chmod(0o644)


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def no_interpreter(file: Path) -> None:
    file.write_text("#!/no/such/python\n")


def no_program(file: Path) -> None:
    file.write_bytes(b"\0\1\2\3")


@pytest.mark.parametrize("broken", [nothing, closed, a_directory, no_interpreter, no_program])
def test_a_command_that_cannot_be_started(play: Play, broken: Any) -> None:
    program = play.home.path / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {play.script} "$@"\n')
    program.chmod(0o755)
    play.home.install([str(program)])
    broken(program)
    with omp(play.home) as one:
        told = one.notice("a2a-bridge omp install", "error")
        assert told.startswith(f"A2A bridge: {program} cannot be started")
        level, words = typed(one, "/a2a status")
        assert level == "error"
        assert f"not running: {program} cannot be started" in words
        assert len(said(one, 0, "cannot be started")) == 1, "it is said once"
        well(one)
        assert not play.starts.exists()


def test_reinstalling_elsewhere_needs_a_new_omp_and_the_message_says_so(play: Play) -> None:
    """The command is a part of the extension that omp has loaded: /a2a restart alone starts the old one again."""
    play.home.install([str(play.home.path / "gone")])
    with omp(play.home) as one:
        told = one.notice("cannot be started", "error")
        play.home.install([sys.executable, "-IS", str(play.script)])
        before = restarted(one)
        one.notice("cannot be started", "error", after=before)
        well(one)
        assert "restart omp" in told


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("os._exit(0)", "it ended with exit code 0"),
        ("os._exit(1)", "it ended with exit code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "it was ended by SIGKILL"),
        ("raise ValueError('what it died of')", "it ended with exit code 1"),
        ("os.write(2, b'tall\\x1b[31m \\xe2\\x80\\xae tale\\n'); os._exit(3)", "it ended with exit code 3"),
        ('os.write(1, b\'{"jsonrpc":"2.0","meth\'); os._exit(4)', "it ended with exit code 4"),
    ],
)
def test_one_that_ends_at_once_is_not_started_again(stage: tuple[Play, Omp], last: str, why: str) -> None:
    play, one, before = begin(stage, last)
    told = one.notice(why, "error", after=before)
    assert "a2a-bridge omp install" in told
    assert "/a2a restart" in told
    if "died of" in last:
        assert told.endswith("\nValueError: what it died of")
    if "tall" in last:
        assert told.endswith("\ntall\\u{1b}[31m \\u{202e} tale")
    assert why in typed(one, "/a2a")[1], "it waits for nothing"
    assert len(said(one, before, why)) == 1
    assert said(one, before, "started again") == []
    assert len(play.started()) == 1
    well(one)


def test_what_it_says_itself_is_not_said_again(stage: tuple[Play, Omp]) -> None:
    lines = 'send(method="failed", params={"message": "the port is made of cheese"}); os._exit(1)'
    play, one, before = begin(stage, lines)
    one.notice("A2A bridge: the port is made of cheese", "error", after=before)
    until(lambda: not play.actors(one), "it has ended")
    assert "not running: the port is made of cheese" in typed(one, "/a2a")[1]
    assert len([text for _, text in one.notices()[before:]]) == 3, one.notices()[before:]
    well(one)


# It falls over later.


def test_one_that_keeps_dying_is_given_up(play: Play) -> None:
    waits = [0.03, 0.06, 0.12, 0.24, 0.48]
    play.quicker("BACKOFF_MS", json.dumps([wait * 1000 for wait in waits]))
    play.part("ready(); os._exit(7)")
    with omp(play.home) as one:
        told = one.notice("again and again", "error")
        assert "it ended with exit code 7" in told
        assert "look into omp's log" in told
        assert "/a2a restart" in told
        again = [words for level, words in one.notices() if "is started again in" in words and level == "warning"]
        assert [float(words.split(" in ")[1].split()[0]) for words in again] == waits
        assert all("it ended with exit code 7" in words for words in again)
        times = [at for _, at in play.started()]
        assert all(later - at >= wait for at, later, wait in zip(times, times[1:], waits, strict=False))
        assert "again and again" in typed(one, "/a2a status")[1]
        assert len(play.started()) == len(waits) + 1
        well(one)
        play.part("serve()")
        before = restarted(one)
        one.notice("serving", after=before)
        assert typed(one, "/a2a status") == ("info", "answered status")
        well(one)


def test_stopping_counts_while_it_waits_to_start_again(play: Play) -> None:
    play.quicker("BACKOFF_MS", "[1500]")
    play.part("ready(); os._exit(7)")
    with omp(play.home) as one:
        one.notice("is started again in 1.5 s", "warning")
        heard = time.monotonic()
        assert "stopped" in typed(one, "/a2a stop")[1]
        until(lambda: time.monotonic() > heard + 2, "it would have been started by now")
        assert len(play.started()) == 1
        well(one)


@pytest.mark.parametrize("last", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_one_that_dies_in_a_call_takes_the_call_with_it(stage: tuple[Play, Omp], last: str) -> None:
    lines = f"""
if STARTS > 1:
    serve()
ready()
for number, seconds in enumerate((321, 322, 323)):
    params = {{"id": f"c{{number}}", "name": "bash", "arguments": {{"command": f"env sleep {{seconds}}"}}}}
    send(id=number, method="tools/call", params=params)
while not os.path.exists(f"{{HERE}}/now"):
    time.sleep(0.01)
os.unlink(f"{{HERE}}/now")
{last}
"""
    play, one, before = begin(stage, lines)
    until(lambda: sleeping(321) and sleeping(322) and sleeping(323), "the calls run")
    (play.home.path / "now").touch()
    until(lambda: not (sleeping(321) or sleeping(322) or sleeping(323)), "nothing runs for nobody", 10)
    if last != "os._exit(0)":
        one.notice("serving, as number 2", after=before)
    else:
        one.notice("it was ended from outside; /a2a restart starts it again", "warning", after=before)
    well(one)


def test_one_that_leaves_a_process_with_its_pipes_has_ended_all_the_same(stage: tuple[Play, Omp]) -> None:
    lines = """
if STARTS > 1:
    serve()
ready()
left = subprocess.Popen(["env", "sleep", "330"], start_new_session=True)
os._exit(1)
"""
    _, one, before = begin(stage, lines)
    try:
        until(lambda: sleeping(330), "the process that stays")
        until(lambda: said(one, before, "serving, as number 2"), "it was started again", 10)
    finally:
        for process in sleeping(330):
            os.kill(process, signal.SIGKILL)
    well(one)


# It asks and does not read.

LARGE = """
def large(times):
    for number in range(times):
        params = {"id": f"large{number}", "name": "produce", "arguments": {"kind": "large"}}
        send(id=number, method="tools/call", params=params)
"""


def test_one_that_never_reads_what_it_asks_for_is_ended(stage: tuple[Play, Omp]) -> None:
    _, one, before = begin(stage, LARGE + "if STARTS > 1:\n    serve()\nready()\nlarge(40)\nhang()\n")
    assert "did not read" in one.notice("is started again in", "warning", after=before)
    one.notice("serving, as number 2", after=before)
    well(one)


def test_one_that_reads_late_gets_all(stage: tuple[Play, Omp]) -> None:
    lines = """
ready()
large(8)
time.sleep(0.5)
answers = [take() for _ in range(8)]
sizes = {len(answer["result"]["content"][0]["text"]) for answer in answers}
say(f"read {sorted(answer['id'] for answer in answers)} of {sizes}")
serve()
"""
    _, one, before = begin(stage, LARGE + lines)
    assert one.notice("read [", after=before) == f"read {list(range(8))} of {{{19 * 250_000}}}"
    well(one)


# It writes what it likes.

PIECES: dict[str, bytes] = {
    "words": b"Traceback (most recent call last):\n",
    "an open brace": b"{\n",
    "nothing": b"\n\r\n \n\n",
    "bytes": b"\0\x01\xff\xfe\x80\n",
    "a list": b'[1,{"method":"ready"}]\n',
    "null": b"null\n",
    "numbers": b"5\n-0\n1e999\n",
    "a text": b'"text"\n',
    "a truth": b"true\n",
    "no members": b"{}\n",
    "an answer to nothing": b'{"id":77,"result":1}\n{"id":null,"error":{"message":"x"}}\n',
    "answers of the wrong kind": b'{"id":[1],"result":2}\n{"id":1,"error":5}\n{"id":{},"error":{}}\n{"error":true}\n',
    "a method of the wrong kind": b'{"method":5}\n{"method":null}\n{"method":["ready"]}\n{"method":{}}\n',
    "names that JavaScript knows": b'{"__proto__":{"method":"ready"}}\n{"method":"__proto__"}\n{"method":"toString"}\n',
    "a deep one": b"[" * 200_000 + b"\n",
    "a deep message": b'{"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "half a surrogate pair": b'{"method":"notify","params":{"message":"\\ud800","level":"info"}}\n',
    "unknown things": b'{"method":"nope"}\n{"method":"ready","params":5}\n{"method":"cancel"}\n{"method":"status"}\n',
}


@pytest.mark.parametrize("kind", PIECES)
def test_what_is_no_message_is_dropped(stage: tuple[Play, Omp], kind: str) -> None:
    (stage[0].home.path / "piece").write_bytes(PIECES[kind])
    _, one, before = begin(stage, 'write(open(f"{HERE}/piece", "rb").read())\nserve()\n')
    one.notice("serving, as number 1", after=before)
    assert typed(one, "/a2a status") == ("info", "answered status")
    well(one)


def test_a_message_in_pieces_is_one_message(stage: tuple[Play, Omp]) -> None:
    lines = """
words = "é 😀 \\u2028 end"
whole = json.dumps({"method": "notify", "params": {"message": words, "level": "info"}}, ensure_ascii=False).encode()
for number in range(len(whole)):
    os.write(1, whole[number:number + 1])
    time.sleep(0.002)
write(b"\\n" + whole + b"\\n" + whole)
write(b"\\n")
serve()
"""
    _, one, before = begin(stage, lines)
    one.notice("serving", after=before)
    assert said(one, before, "end") == ["é 😀 \u2028 end"] * 3
    well(one)


def test_a_long_line_is_taken(stage: tuple[Play, Omp]) -> None:
    lines = 'say("pong " + str(ask("ping", {"x": "a" * 20_000_000})["result"]))\nserve()\n'
    _, one, before = begin(stage, lines)
    one.notice("pong {}", after=before)
    well(one)


def test_a_line_without_end_is_cut(stage: tuple[Play, Omp]) -> None:
    lines = """
if STARTS > 1:
    serve()
ready()
piece = b"a" * 1_000_000
for _ in range(300):
    write(piece)
hang()
"""
    _, one, before = begin(stage, lines)
    assert "line without an end" in one.notice("is started again in", "warning", after=before)
    one.notice("serving, as number 2", after=before)
    well(one)


def test_a_flood_on_stderr_is_read_and_not_kept(stage: tuple[Play, Omp]) -> None:
    lines = """
piece = (b"x" * 99 + b"\\n") * 10_000
for _ in range(200):
    while piece[os.write(2, piece):]:
        piece = piece[-1_000_000:]
serve()
"""
    play, one, before = begin(stage, lines)
    one.notice("serving", after=before)
    assert typed(one, "/a2a status") == ("info", "answered status")
    logs = play.home.path / ".omp" / "logs"
    assert sum(file.stat().st_size for file in logs.rglob("*") if file.is_file()) < 5_000_000
    well(one)


# It asks for nonsense.

REQUESTS: list[tuple[str, Any, object]] = [
    ("nope", {}, -32601),
    ("", {}, -32601),
    ("toString", None, -32601),
    ("ping", None, "result"),
    ("ping", [1, "two"], "result"),
    ("hello", "text", "result"),
    ("tools/list", 5, "result"),
    ("tools/call", None, -32602),
    ("tools/call", {}, -32602),
    ("tools/call", [], -32602),
    ("tools/call", "bash", -32602),
    ("tools/call", {"id": "a", "name": 5, "arguments": {}}, -32602),
    ("tools/call", {"id": "a", "name": None, "arguments": {}}, -32602),
    ("tools/call", {"id": "a", "name": ["bash"], "arguments": {}}, -32602),
    ("tools/call", {"id": "a", "name": "bash", "arguments": None}, "isError"),
    ("tools/call", {"id": "a", "name": "bash"}, "isError"),
    ("tools/call", {"name": "bash", "arguments": {"command": "echo no id"}}, "result"),
    ("tools/call", {"id": 5, "name": "bash", "arguments": {"command": "echo 5"}}, "result"),
    ("tools/call", {"id": "a", "name": "bash", "arguments": {"command": "echo a"}, "client": 5}, "result"),
    ("tools/call", {"id": {}, "name": "bash", "arguments": {"command": ["echo"]}}, "isError"),
    ("cancel", None, "result"),
    ("cancel", {"id": "unknown"}, "result"),
    ("cancel", {"id": None}, "result"),
    ("ready", {"port": "a word"}, "result"),
    ("ready", {"port": -1}, "result"),
    ("ready", None, "result"),
    ("status", {"text": None}, "result"),
    ("notify", {"message": "words", "level": "shout"}, "result"),
]


def test_every_odd_request_is_answered(stage: tuple[Play, Omp]) -> None:
    home = stage[0].home.path
    (home / "requests").write_text(json.dumps([[method, params] for method, params, _ in REQUESTS]))
    lines = """
asked = json.load(open(f"{HERE}/requests"))
answers = [ask(method, params, number) for number, (method, params) in enumerate(asked)]
with open(f"{HERE}/answers", "w") as file:
    json.dump(answers, file)
serve()
"""
    _, one, before = begin(stage, lines)
    one.notice("serving", after=before)
    got = [(method, params, kind(answer)) for (method, params, _), answer in zip(REQUESTS, answers(home), strict=True)]
    assert got == REQUESTS
    assert typed(one, "/a2a status") == ("info", "answered status")
    well(one)


def answers(home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((home / "answers").read_text())
    return found


def kind(answer: dict[str, Any]) -> object:
    if "error" in answer:
        return answer["error"]["code"]
    result = answer["result"]
    return "isError" if isinstance(result, dict) and result.get("isError") else "result"


@pytest.mark.parametrize("oddity", re.findall(r'^\t\t"(.+)": \(\)', ODD, re.M))
def test_a_result_that_is_no_json_is_answered_with_an_error(stage: tuple[Play, Omp], oddity: str) -> None:
    """A request that is never answered hangs its caller for good: nothing else ends it."""
    params = {"id": "odd", "name": "odd", "arguments": {"kind": oddity}}
    lines = f'answer = ask("tools/call", {params!r})\nsay("got " + json.dumps(answer))\nserve()\n'
    _, one, before = begin(stage, lines)
    told = until(lambda: said(one, before, "got "), "the call is answered", 5)
    assert kind(json.loads(told[0][4:])) in ("isError", -32603)
    well(one)


# It is ended and started by hand.

SLOW = """
ready(); say(f"here, as number {STARTS}")
while sys.stdin.buffer.readline():
    pass
time.sleep(0.2)
"""


def test_restarting_twice_at_once_leaves_one(stage: tuple[Play, Omp]) -> None:
    play, one, before = begin(stage, SLOW)
    one.notice("here, as number 1", after=before)
    for number in range(3):
        one.say(id=f"restart-{number}", type="prompt", message="/a2a restart")
    until(lambda: len(said(one, before, "starting anew")) == 4, "all are answered")
    until(lambda: len(play.actors(one)) == 1, "the others have ended", 5)
    one.command("/a2a stop")
    one.notice("A2A bridge: stopped", after=before)
    until(lambda: not play.actors(one), "that one was the one that counts", 5)
    well(one)


def test_stopping_while_it_restarts_stops_it(stage: tuple[Play, Omp]) -> None:
    play, one, before = begin(stage, SLOW)
    one.notice("here, as number 1", after=before)
    one.command("/a2a restart")
    one.command("/a2a stop")
    one.notice("A2A bridge: stopped", after=before)
    until(lambda: len(said(one, before, "starting anew")) == 2, "both are answered")
    assert "not running: it was stopped" in typed(one, "/a2a")[1]
    until(lambda: not play.actors(one), "it has ended", 5)
    well(one)


# It does not answer.

SILENT = {
    "one that reads nothing": "ready(); say('here'); hang()",
    "one that reads and never answers": "ready(); say('here')\nwhile True:\n    take()\n",
    "one that is stopped": "ready(); say('here'); os.kill(os.getpid(), signal.SIGSTOP); hang()",
    "one whose stdin and stdout are closed": "ready(); say('here'); os.close(0); os.close(1); hang()",
    "one whose stdin is closed": "ready(); say('here'); os.close(0); hang()",
}


@pytest.mark.parametrize("kind", SILENT)
def test_one_that_does_not_answer_is_told_of_and_replaced(stage: tuple[Play, Omp], kind: str) -> None:
    play, one, before = begin(stage, SILENT[kind])
    one.notice("here", after=before)
    (actor,) = play.actors(one)
    assert typed(one, "/a2a status") == ("error", "A2A bridge: the bridge does not answer; /a2a restart starts it anew")
    well(one)
    play.part("serve()")
    before = restarted(one)
    one.notice("serving, as number 1", after=before)
    assert not alive(actor)
    assert len(play.actors(one)) == 1
    well(one)


@pytest.mark.parametrize("lines", ["hang()", "os.close(0); os.close(1); hang()", "os.close(1); hang()"])
def test_one_that_never_gets_ready_is_told_of(stage: tuple[Play, Omp], lines: str) -> None:
    play, one, _ = begin(stage, lines)
    level, words = typed(one, "/a2a status")
    assert level == "error"
    assert "not running: it is starting; /a2a restart" in words
    (actor,) = until(lambda: play.actors(one), "it is starting")
    assert "stopped" in typed(one, "/a2a stop")[1]
    assert not alive(actor)
    well(one)


def test_nonsense_in_answer_to_a_command(play: Play) -> None:
    answers: list[Any] = [None, 5, [], {}, {"message": 5, "level": "info"}, {"message": None, "level": []}]
    play.part(f"ready(); say('here')\nfor answer in {answers!r}:\n    send(id=take()['id'], result=answer)\nhang()\n")
    with omp(play.home) as one:
        one.notice("here")
        for answer in answers:
            before = len(one.requests("notify"))
            one.command("/a2a status")
            until(partial(more, one, before), f"something is said to {answer}")
        well(one)


def more(one: Omp, notifications: int) -> bool:
    return len(one.requests("notify")) > notifications


def test_the_human_waits_five_seconds_at_most_and_omp_ends_without_it(play: Play) -> None:
    """With the extension's own waits; and no child outlives omp, however deaf it is."""
    play.part("ready(); say('here'); signal.signal(signal.SIGTERM, signal.SIG_IGN); hang()")
    with omp(play.home) as one:
        one.notice("here")
        (actor,) = play.actors(one)
        began = time.monotonic()
        assert "does not answer" in typed(one, "/a2a status")[1]
        assert 4.5 < time.monotonic() - began < 7
        os.kill(actor, signal.SIGSTOP)
        well(one)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    until(lambda: not alive(actor), "it has ended with omp", 5)


# Found twice, and where nobody can be asked.


def test_found_twice_there_is_one_bridge(play: Play) -> None:
    shutil.copy(play.file, play.file.with_name("second.ts"))
    shutil.copytree(play.file.parent, play.file.parent / "third")
    (play.file.parent / "third" / "second.ts").rename(play.file.parent / "third" / "index.ts")
    with omp(play.home) as one:
        one.notice("serving")
        well(one)
        assert typed(one, "/a2a status") == ("info", "answered status")
        assert len(play.actors(one)) == len(play.started()) == 1
        assert len(said(one, 0, "serving")) == 1
        assert len(said(one, 0, "answered")) == 1


@pytest.mark.parametrize(
    ("options", "mode"), [(["-p", "/a2a status"], "print"), (["--mode", "json", "/a2a status"], "json")]
)
def test_no_bridge_where_one_prompt_is_run(play: Play, options: list[str], mode: str) -> None:
    seen = probed(play)
    command = [str(BINARIES / "omp"), "--no-session", *options]
    ended = subprocess.run(
        command, env=play.home.env, cwd=play.home.work, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert ended.returncode == 0
    assert seen.read_text() == f"{mode}\n"
    assert not play.starts.exists()


def probed(play: Play) -> Path:
    """The file into which the modes are written."""
    seen = play.home.path / "seen"
    (play.file.parent / "probe.ts").write_text(PROBE % seen)
    return seen


def test_no_bridge_where_another_program_owns_the_session(play: Play) -> None:
    """ACP: its sessions come and go, and none is Main."""
    seen = probed(play)
    with acp(play.home) as ask:
        ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = ask("session/new", {"cwd": str(play.home.work), "mcpServers": []})["sessionId"]
        prompt = [{"type": "text", "text": "/a2a restart"}]
        assert ask("session/prompt", {"sessionId": session, "prompt": prompt})["stopReason"] == "end_turn"
    assert seen.read_text() == "rpc\n"
    assert not play.starts.exists()


@contextmanager
def acp(home: Home) -> Iterator[Any]:
    """`omp acp`, and how to ask it."""
    command = [str(BINARIES / "omp"), "acp"]
    with subprocess.Popen(
        command, env=home.env, cwd=home.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(method: str, params: Any) -> Any:
            number = next(numbers)
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
            while (answer := json.loads(stdout.readline())).get("id") != number:
                pass
            return answer["result"]

        try:
            yield ask
            stdin.close()
            assert process.wait(20) == 0
        finally:
            with suppress(ProcessLookupError):
                process.kill()
