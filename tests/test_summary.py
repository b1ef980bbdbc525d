"""A call in a few words: what it says of each tool, and that nothing makes it long or more than a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_bridge.summary import MOST_CHARACTERS, summarize

TOOLS = ("bash", "read", "write", "edit", "grep", "glob", "job")
NAMES = ["command", "cwd", "background", "path", "offset", "limit", "content", "append", "edits", "old", "new"]
NAMES += ["pattern", "action", "id", "text"]
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("\n", "\u2028", " ", ""))
)
JSON = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), one, max_size=5)
)


def check(said: str) -> None:
    assert len(said) <= MOST_CHARACTERS + 1
    assert len(said.splitlines()) <= 1
    assert said == " ".join(said.split())


@given(tool=st.sampled_from(TOOLS) | st.text(), arguments=JSON)
def test_it_is_one_bounded_line_for_any_call(tool: str, arguments: object) -> None:
    check(summarize(tool, arguments))


@pytest.mark.parametrize("tool", [*TOOLS, "other"])
@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        "x y\n" * 250_000,
        "\n" * 1_000_000,
        ["x" * 100] * 10_000,
        [[]] * 300_000,
        10**4300 - 1,
        1 - 10**4300,
    ],
    ids=("long", "lines", "ends", "list", "empties", "number", "negative"),
)
def test_what_is_huge_is_cut(tool: str, value: object) -> None:
    for arguments in (value, dict.fromkeys(NAMES, value), {"path": "p", **dict.fromkeys(NAMES[4:6], value)}):
        check(summarize(tool, arguments))


def test_what_is_nested_deep_is_cut() -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = {"edits": [deep]}
    check(summarize("edit", deep))
    check(summarize("other", deep))


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("bash", {"command": "make  all"}, "make all"),
        ("bash", {"command": "a\nb\nc"}, "a (and 2 lines more)"),
        ("bash", {"command": "a\nb"}, "a (and 1 line more)"),
        ("bash", {"command": "a", "cwd": "/lab", "background": True}, "a in /lab &"),
        ("bash", {"command": "x" * 300, "cwd": "/lab"}, "x" * 191 + "… in /lab"),
        ("bash", {"command": ""}, '{"command":""}'),
        ("bash", {"command": 1}, '{"command":1}'),
        ("read", {"path": "a"}, "a"),
        ("read", {"path": "a", "offset": 5}, "a:5"),
        ("read", {"path": "a", "limit": 10}, "a:1-10"),
        ("read", {"path": "a", "offset": 120, "limit": 61}, "a:120-180"),
        ("read", {"path": "a", "offset": True}, "a"),
        ("write", {"path": "a", "content": "b\nc\n"}, "a (2 lines)"),
        ("write", {"path": "a", "content": "b\nc", "append": True}, "a (+2 lines)"),
        ("edit", {"path": "a", "edits": [{"old": "b\n", "new": "c\nd\n"}]}, "a (1 edit, +2 −1)"),
        ("edit", {"path": "a", "edits": "b"}, "a"),
        ("grep", {"pattern": "x+", "path": "src"}, "x+ in src"),
        ("glob", {"pattern": "*.py"}, "*.py"),
        ("job", {"action": "input", "id": 3, "text": "y\n"}, 'input 3 "y\\n"'),
        ("job", {"action": "list"}, "list"),
        ("other", {}, ""),
        ("other", {"a": [1, "é"]}, '{"a":[1,"é"]}'),
        ("other", "text", '"text"'),
        ("other", None, "null"),
    ],
)
def test_what_it_says(tool: str, arguments: object, said: str) -> None:
    assert summarize(tool, arguments) == said
