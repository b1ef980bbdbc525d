"""The memory of calls that have ended: counted, the last ones told, and bounded whatever a call brings or gives."""

import json
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.audit.redaction import shown_arguments
from a2a_bridge.calls import MOST_BYTES, MOST_REMEMBERED, CallHistory, FinishedCall, Outcome, told, written
from a2a_bridge.tool import Call, Content, Image, Result, Text, text

# What one call may leave in memory: its arguments as JSON and its result, each cut. A character takes up to 6 bytes
# in JSON, and 4 in a text.
MOST_OF_ONE = 14 * MOST_BYTES


def settled(
    arguments: object = None,
    result: Result | None = None,
    outcome: Outcome = Outcome.DONE,
    number: int = 0,
    tool: str = "bash",
) -> FinishedCall:
    call = Call(f"call-{number}", "s1", "omp 1")
    return FinishedCall(call, tool, arguments, shown_arguments(arguments), 0.5, outcome, "mode yolo", result)


def deep(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


HUGE: dict[str, object] = {
    "text": {"command": "x" * 1_000_000},
    "controls": {"command": "\x01" * 1_000_000},
    "wide": {"command": "🙂" * 250_000},
    "names": {f"name {number}" * 10: number for number in range(10_000)},
    "a name": {"n" * 1_000_000: 1},
    "numbers": list(range(150_000)),
    "a number": 10**4299,
    "empty lists": [[]] * 300_000,
    "empty objects": [{}] * 300_000,
    "empty texts": [""] * 300_000,
    "nothings": [None] * 200_000,
    "pairs": [[[]]] * 150_000,
    "deep": deep(100_000),
    "quite deep": [deep(300)] * 1000,
    "half a character": {"command": "\ud800" * 1_000_000},
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_arguments_are_cut_and_still_json(name: str) -> None:
    shown = written(HUGE[name])
    assert len(shown) <= 8 * MOST_BYTES
    msgspec.json.decode(shown)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(), one, max_size=4),
)


@given(value=JSON)
def test_small_arguments_are_written_whole(value: object) -> None:
    assert json.loads(written(value)) == value


@given(value=JSON, times=st.integers(1, 5000))
def test_any_arguments_are_written_as_json_within_bounds(value: object, times: int) -> None:
    shown = written([value] * times)
    json.loads(shown)
    assert len(shown) <= 8 * MOST_BYTES


def test_what_is_cut_says_so() -> None:
    assert written({"a": "x" * 20_000}).endswith('… [20000 characters in all]"}')
    assert json.loads(written(["x" * 100] * 1000))[-1] == "[1000 in all]"
    assert json.loads(written({str(number): "x" * 100 for number in range(1000)}))["…"] == "[1000 in all]"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, ""),
        (Result(()), ""),
        (text("a"), "a"),
        (Result((Text("a"), Image("AAAA", "image/png"), Text("b"))), "a\n[image/png image, 4 characters of base64]\nb"),
        (text("x" * (MOST_BYTES + 1)), "x" * MOST_BYTES + f"… [{MOST_BYTES + 1} characters in all]"),
        (text("x" * MOST_BYTES), "x" * MOST_BYTES),
    ],
)
def test_results_are_told_as_text(result: Result | None, said: str) -> None:
    assert told(result) == said


@pytest.mark.parametrize(
    "content",
    [
        (Text("x" * 5_000_000),),
        (Text("x" * 10_000),) * 500,
        (Text(""),) * 100_000,
        (Image("A" * 5_000_000, "image/png"),),
        (Image("A", "image/png"),) * 10_000,
    ],
    ids=("text", "texts", "empty texts", "image", "images"),
)
def test_huge_results_are_cut(content: tuple[Content, ...]) -> None:
    assert len(told(Result(content))) <= MOST_BYTES + 100


def test_it_counts_and_remembers_the_last_ones_newest_first() -> None:
    now = iter(range(10_000))
    ledger = CallHistory(lambda: float(next(now)))
    for number in range(MOST_REMEMBERED + 50):
        outcome = (Outcome.DONE, Outcome.FAILED, Outcome.ABANDONED, Outcome.WITHDRAWN)[number % 4]
        ledger.put(settled({"command": f"echo {number}"}, text("out"), outcome, number))
    assert (ledger.done, ledger.failed) == (63, 187)
    last = ledger.last()
    assert [one.call.id for one in last] == [f"call-{249 - number}" for number in range(MOST_REMEMBERED)]
    assert (last[0].at, last[0].seconds, last[0].summary, last[0].decided) == (249.0, 0.5, "echo 249", "mode yolo")
    assert (last[0].arguments, last[0].result, last[0].outcome) == ('{"command":"echo 249"}', "out", Outcome.FAILED)
    assert [one.call.id for one in ledger.last(2)] == ["call-249", "call-248"]
    assert CallHistory().last() == []


@pytest.mark.parametrize("name", HUGE)
def test_what_it_remembers_of_huge_arguments_is_small(name: str) -> None:
    fits_in_memory(lambda number: settled(HUGE[name], text("done"), number=number))


def test_what_it_remembers_of_a_huge_name_is_small() -> None:
    fits_in_memory(lambda number: settled({}, text("unknown"), tool=f"{number}" + "x" * 1_000_000))
    ledger = CallHistory()
    ledger.put(settled({}, tool="x" * 1_000_000))
    assert ledger.last()[0].tool == "x" * 120 + "…"


def test_what_it_remembers_of_huge_results_is_small() -> None:
    fits_in_memory(lambda number: settled({"n": number}, text(f"{number}" + "x" * 5_000_000)))
    fits_in_memory(lambda number: settled({"n": number}, Result((Image(f"{number}" + "A" * 5_000_000, "image/png"),))))
    fits_in_memory(lambda number: settled({"n": number}, Result((Text(f"{number}" + "x" * MOST_BYTES),) * 300)))


def fits_in_memory(make: Callable[[int], FinishedCall]) -> None:
    ledger, calls = CallHistory(lambda: 0.0), 20
    tracemalloc.start()
    try:
        for number in range(calls):
            ledger.put(make(number))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= calls * MOST_OF_ONE
    assert len(ledger.last()) == calls
