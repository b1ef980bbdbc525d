"""What the local tools cost beside those of others: time and memory of the same tasks, in one run.

python -m bench.tools [ROUNDS]

At first each task is done once while memory is watched, which warms up, too. Then, in each round, every task is put
to everyone in turn. An answer that lacks what it must hold is no answer. Takes some minutes and 2 GB of the temporary
directory. Needs the npm peers under .peers and .peers/bench (make bench installs them).
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import memory
from bench.files import TAIL_LINES, Edited, Ground
from bench.stdio import DesktopCommander, Filesystem
from bench.tool_servers import Answer, Bridge, Contestant, InsideOmp, Missing, Stuck

CONTESTANTS = (Bridge, Filesystem, DesktopCommander, InsideOmp)
# Calls in a row of what takes about a millisecond.
TIMES = 20
# A task that has kept a contestant for so long is not put to it in further rounds.
ENOUGH_SECONDS = 20
LONGEST_REASON = 160
REST, END = "just started", "after the rounds"
NONE = "-"


class Entry:
    """A contestant at work, with a file of its own to edit, and its figures."""

    def __init__(self, who: Contestant, edited: Edited) -> None:
        self.who = who
        self.edited = edited
        self.took: dict[str, list[float]] = defaultdict(list)
        self.peaks: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.pid = who.start()

    def work(self, task: "Task") -> list[float]:
        """Milliseconds; none, and a reason is kept, where the task is not done as it should be."""
        if task.label in self.reasons:
            return []
        try:
            answer = task.run(self)
            for words in task.wanted:
                if words not in answer.text:
                    raise Missing(f"{words!r} is not in the answer, which begins {answer.text[:80]!r}")
        except Missing as missing:
            self.reasons[task.label] = " ".join(str(missing).split())[:LONGEST_REASON]
            if isinstance(missing, Stuck):
                self.who.stop()
                self.pid = self.who.start()
            return []
        return answer.took

    def median(self, label: str) -> float | None:
        return None if label in self.reasons else statistics.median(self.took[label])

    def peak(self, label: str) -> float | None:
        return None if label in self.reasons else self.peaks[label]


class Task(NamedTuple):
    """Something to do, and what the answer must hold."""

    label: str
    run: Callable[[Entry], Answer]
    wanted: Sequence[str] = ()


def tasks(ground: Ground) -> list[Task]:
    return [
        Task("read 10 lines", lambda one: one.who.read(ground.small, TIMES), ground.small_lines),
        # All but the first of them: some take the end of the last line for a line of its own.
        Task("last 100 of 1 GB", lambda one: one.who.tail(ground.huge, TAIL_LINES, TIMES), ground.huge_lines[1:]),
        Task("edit in 20 MB", _edit),
        Task("bash true", lambda one: one.who.bash("true", TIMES)),
        Task("grep 100,000 files", lambda one: one.who.grep(ground.pattern, ground.tree), ground.matches),
        Task("glob 100,000 files", lambda one: one.who.glob(ground.glob, ground.tree), ground.special),
    ]


def _edit(one: Entry) -> Answer:
    old, new = one.edited.change()
    answer = one.who.edit(one.edited.path, old, new)
    if not one.edited.holds(new):
        raise Missing(f"the file was not changed; the answer begins {answer.text[:80]!r}")
    return answer


@contextmanager
def entered(root: Path, ground: Ground) -> Iterator[list[Entry]]:
    """All contestants, started."""
    with ExitStack() as started:
        entries = []
        for kind in CONTESTANTS:
            who = kind(root / kind.__name__)
            started.callback(who.stop)
            entries.append(Entry(who, ground.edited(who.name)))
        yield entries


def race(entries: Iterable[Entry], todo: Iterable[Task], rounds: int) -> None:
    for _ in range(rounds):
        for task in todo:
            for entry in entries:
                if sum(entry.took[task.label]) < ENOUGH_SECONDS * 1000:
                    entry.took[task.label] += entry.work(task)


def weigh(entries: Iterable[Entry], label: str, task: Task | None = None) -> None:
    for entry in entries:
        with memory.peak(entry.pid) as peak:
            if task:
                entry.work(task)
        entry.peaks[label] = peak.megabytes


def table(
    title: str, entries: Sequence[Entry], labels: Iterable[str], figure: Callable[[Entry, str], float | None]
) -> None:
    """A column for each contestant, and how many times ours each figure of the others is."""
    ours, *others = entries
    print(f"{title:<22}{ours.who.name:>9}" + "".join(f"{other.who.name:>21}" for other in others))
    for label in labels:
        base = figure(ours, label)
        row = [f"{label:<22}{NONE if base is None else f'{base:.1f}':>9}"]
        for other in others:
            found = figure(other, label)
            ratio = f"x{found / base:.2f}" if found is not None and base else ""
            row.append(f"{NONE if found is None else f'{found:.1f}':>11}{ratio:>10}")
        print("".join(row))
    print()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as directory:
        ground = Ground(Path(directory))
        todo = tasks(ground)
        labels = [task.label for task in todo]
        with entered(Path(directory), ground) as entries:
            weigh(entries, REST)
            for task in todo:
                weigh(entries, task.label, task)
            race(entries, todo, rounds)
            weigh(entries, END)
            table("p50 ms", entries, labels, Entry.median)
            if memory.AVAILABLE:
                table("peak MB, whole tree", entries, [REST, *labels, END], Entry.peak)
            for entry in entries:
                for label, reason in entry.reasons.items():
                    print(f"{NONE} {entry.who.name}, {label}: {reason}")


if __name__ == "__main__":
    main()
