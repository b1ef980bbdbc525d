"""A tool whose arguments are a msgspec type: the JSON Schema that is shown and the check that is made are one."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.tool import Result, Tool

Arguments = TypeVar("Arguments", bound=msgspec.Struct)
Place = TypeVar("Place")


class TypedTool(Generic[Arguments, Place]):
    """A function of typed arguments and the place that it works in, as a tool.

    The argument type should forbid unknown fields, so that a misspelt argument is named and not ignored.
    """

    def __init__(
        self,
        name: str,
        description: str,
        arguments: type[Arguments],
        run: Callable[[Arguments, Place], Awaitable[Result]],
    ) -> None:
        self.shown = Tool(name, description, schema(arguments))
        self._arguments = arguments
        self._run = run

    async def __call__(self, arguments: object, place: Place) -> Result:
        """Check the arguments and run. Raises ToolError that names the argument that is wrong."""
        try:
            checked = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"invalid arguments for {self.shown.name}: {error}; {self._taken()}") from None
        return await self._run(checked, place)

    def _taken(self) -> str:
        """The arguments that there are, for who has none right."""
        parts = self.shown.input_schema["properties"]
        words = [f"{name} ({', '.join(part['enum'])})" if "enum" in part else name for name, part in parts.items()]
        return f"it takes {', '.join(words)}"


def schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The type's JSON Schema with the object itself at the top: clients refuse a top-level `$ref` (M3)."""
    (reference,), parts = msgspec.json.schema_components((arguments,), ref_template="#/$defs/{name}")
    name = reference["$ref"].rpartition("/")[2]
    top = {key: value for key, value in parts[name].items() if key != "title"}
    if reference["$ref"] not in msgspec.json.encode(parts).decode():  # nothing within refers back to the top
        del parts[name]
    return {**top, "$defs": parts} if parts else top
