"""Typed tools: what the schema says and what is accepted are one; and the local host's table of tools."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from a2a_bridge.cli import serve_loop
from a2a_bridge.config import Config, load
from a2a_bridge.errors import HostUnavailable, ToolError, UnknownTool
from a2a_bridge.hosts.local import LocalHost
from a2a_bridge.hosts.local.host import TOOLS
from a2a_bridge.hosts.local.job import JOB
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.typed import TypedTool, schema
from a2a_bridge.tool import Result, text
from tests.hosts import CALL, NAMES, ok_text

# Of each local tool: a value for every argument, all harmless.
SAMPLES: dict[str, dict[str, Any]] = {
    "read": {"path": ".", "offset": 1, "limit": 5},
    "write": {"path": "f", "content": "x", "append": True},
    "edit": {"path": "g", "edits": [{"old": "a", "new": "ba", "all": True}]},
    "bash": {"command": "true", "cwd": ".", "timeout": 60, "env": {"A": "b"}, "background": False},
    "job": {"action": "list", "id": None, "wait_seconds": None, "text": None},
    "grep": {
        "pattern": "x",
        "path": ".",
        "glob": "*",
        "ignore_case": True,
        "context": 1,
        "limit": 5,
        "hidden": True,
        "no_ignore": True,
        "files_only": False,
    },
    "glob": {"pattern": "*", "path": ".", "limit": 5, "hidden": True, "no_ignore": True},
}


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """Something inside."""

    depth: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """Something around it."""

    one: Annotated[Inner, msgspec.Meta(description="The one.")]
    many: Annotated[list[Inner], msgspec.Meta(description="The others.")] = []
    count: Annotated[int, msgspec.Meta(ge=0, description="How many.")] = 3


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    """A type that holds itself."""

    children: list["Tree"] = []


async def _count(arguments: Outer, place: str) -> Result:
    return text(f"{place} {arguments.one.depth} {len(arguments.many)} {arguments.count}")


COUNT = TypedTool("count", "Counts.", Outer, _count)


def references(found: Any) -> list[str]:
    """Every `$ref` in a schema."""
    if isinstance(found, list):
        return [reference for part in found for reference in references(part)]
    if not isinstance(found, dict):
        return []
    own = [found["$ref"]] if "$ref" in found else []
    return own + [reference for part in found.values() for reference in references(part)]


def test_the_object_is_at_the_top_and_the_parts_are_below() -> None:
    found = schema(Outer)
    assert found["type"] == "object"
    assert "$ref" not in found
    assert set(found["properties"]) == {"one", "many", "count"}
    assert found["required"] == ["one"]
    assert found["additionalProperties"] is False
    assert found["properties"]["count"] == {"type": "integer", "minimum": 0, "description": "How many.", "default": 3}
    assert found["properties"]["many"]["description"] == "The others."
    assert found["properties"]["one"]["description"] == "The one."
    assert set(found["$defs"]) == {"Inner"}
    assert found["$defs"]["Inner"]["properties"] == {"depth": {"type": "integer"}}
    assert set(references(found)) == {"#/$defs/Inner"}
    msgspec.json.encode(found)


def test_a_flat_type_has_no_definitions() -> None:
    assert "$defs" not in schema(Inner)


def test_a_type_that_holds_itself() -> None:
    found = schema(Tree)
    assert found["type"] == "object"
    for reference in references(found):
        assert reference == "#" or reference.removeprefix("#/$defs/") in found["$defs"]


async def test_arguments_reach_the_function_with_their_types_and_defaults() -> None:
    assert ok_text(await COUNT({"one": {"depth": 4}}, "here")) == "here 4 0 3"
    assert ok_text(await COUNT({"one": {"depth": 4}, "many": [{"depth": 1}], "count": 0}, "there")) == "there 4 1 0"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field `one`"),
        ({"one": 5}, "$.one"),
        ({"one": {"depth": "4"}}, "$.one.depth"),
        ({"one": {"depth": True}}, "$.one.depth"),
        ({"one": {"depth": None}}, "$.one.depth"),
        ({"one": {"depth": 1, "width": 2}}, "unknown field `width` - at `$.one`"),
        ({"one": {"depth": 1}, "many": [{"depth": 1}, {}]}, "$.many[1]"),
        ({"one": {"depth": 1}, "count": -1}, "$.count"),
        ({"one": {"depth": 1}, "Count": 1}, "unknown field `Count`"),
        (None, "object"),
        ([], "object"),
        ("one", "object"),
    ],
)
async def test_what_is_wrong_is_named(arguments: object, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        await COUNT(arguments, "here")
    assert str(caught.value).startswith("invalid arguments for count: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("; it takes one, many, count")


def test_the_choices_of_an_argument_are_told() -> None:
    assert "action (input, kill, list, poll, wait), id, " in JOB._taken()


def test_the_table() -> None:
    assert NAMES == ["read", "write", "edit", "bash", "job", "grep", "glob"]
    assert set(SAMPLES) == set(NAMES), "a new tool needs a sample here"


async def test_without_ripgrep_two_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the owner is told at the start."""
    monkeypatch.setattr(ripgrep, "find", lambda: None)
    host = LocalHost(tmp_path)
    assert [tool.name for tool in await host.tools()] == [name for name in NAMES if name not in ("grep", "glob")]
    for name in ("grep", "glob"):
        with pytest.raises(UnknownTool):
            await host.call(name, SAMPLES[name], CALL)
    started: list[Config] = []
    monkeypatch.setattr(serve_loop, "serve_host", lambda config, *_: started.append(config))
    serve_loop.serve_local(load(tmp_path / "config.json"), tmp_path)
    assert started[0].warnings == (ripgrep.MISSING,)
    await host.close()


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_local_tool_is_described(tool: TypedTool[Any, Workspace]) -> None:
    found = tool.definition.input_schema
    assert tool.definition.description
    assert found["type"] == "object"
    assert "$ref" not in found
    assert not found.keys() & {"anyOf", "oneOf", "allOf"}
    assert found["additionalProperties"] is False
    assert all(part["description"] for part in found["properties"].values())
    assert set(found["properties"]) == set(SAMPLES[tool.definition.name])
    assert all(reference.removeprefix("#/$defs/") in found["$defs"] for reference in references(found))
    assert msgspec.json.decode(msgspec.json.encode(tool.definition))["inputSchema"] == found


@pytest.mark.parametrize("name", NAMES)
async def test_a_local_tool_accepts_what_its_schema_says(name: str, tmp_path: Path) -> None:
    (tmp_path / "g").write_text("a")
    host = LocalHost(tmp_path)
    await host.start()
    shown = {tool.name: tool.input_schema for tool in await host.tools()}[name]
    sample = SAMPLES[name]
    required = {key: sample[key] for key in shown["required"]}
    try:
        ok_text(await host.call(name, sample, CALL))
        ok_text(await host.call(name, required, CALL))
        for key, part in shown["properties"].items():
            if key in required:
                with pytest.raises(ToolError, match=f"missing required field `{key}`"):
                    await host.call(name, {other: value for other, value in sample.items() if other != key}, CALL)
            else:
                assert "default" in part
                ok_text(await host.call(name, {**required, key: part["default"]}, CALL))
            types = {choice["type"] for choice in part.get("anyOf", [part])}
            wrong: list[object] = ["", -1, 1.5, True, [], {"a": 1}, None]
            for value in wrong:
                kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
                kind = kinds.get(type(value), "null")
                if kind not in types and not (kind == "integer" and "number" in types):
                    with pytest.raises(ToolError, match=rf"\$\.{key}`"):
                        await host.call(name, {**sample, key: value}, CALL)
        with pytest.raises(ToolError, match="unknown field `other`"):
            await host.call(name, {**sample, "other": 1}, CALL)
    finally:
        await host.close()


@pytest.mark.parametrize("name", ["", "Read", "bash ", "write_file"])
async def test_another_name_is_unknown(name: str, tmp_path: Path) -> None:
    host = LocalHost(tmp_path)
    with pytest.raises(UnknownTool):
        await host.call(name, {}, CALL)
    await host.close()


async def test_the_same_table_each_time(tmp_path: Path) -> None:
    host = LocalHost(tmp_path, "mine")
    assert host.name == "mine"
    assert [tool.name for tool in await host.tools()] == NAMES
    assert await host.tools() is await host.tools()
    await host.close()


@pytest.mark.parametrize("name", ["file", "missing"])
async def test_a_host_needs_a_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostUnavailable, match=f"{name} is not a directory"):
        await LocalHost(tmp_path / name).start()
