"""A tool whose arguments are a msgspec type: the JSON Schema that is shown and the check that is made are one."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from a2a_bridge.errors import ToolError
from a2a_bridge.tool import Access, Result, Tool

Arguments = TypeVar("Arguments", bound=msgspec.Struct)
Context = TypeVar("Context")


class TypedTool(Generic[Arguments, Context]):
    """A function of typed arguments and the place that it works in, as a tool. `access` tells what a call would do,
    `preview` shows what it would change.

    The argument type should forbid unknown fields, so that a misspelt argument is named and not ignored.
    """

    def __init__(
        self,
        name: str,
        description: str,
        arguments: type[Arguments],
        run: Callable[[Arguments, Context], Awaitable[Result]],
        access: Callable[[Arguments, Context], Access] = lambda *_: Access(),
        preview: Callable[[Arguments, Context], Awaitable[str]] | None = None,
    ) -> None:
        self.definition = Tool(name, description, schema(arguments))
        self._arguments = arguments
        self._run = run
        self._access = access
        self._preview = preview

    async def __call__(self, arguments: object, workspace: Context) -> Result:
        """Check the arguments and run. Raises ToolError that names the argument that is wrong."""
        return await self._run(self._checked(arguments), workspace)

    def access(self, arguments: object, workspace: Context) -> Access:
        """What the call would do. Raises ToolError, as it would itself."""
        return self._access(self._checked(arguments), workspace)

    async def preview(self, arguments: object, workspace: Context) -> str:
        """What the call would change; empty where there is nothing to show. Raises ToolError, as it would itself."""
        return await self._preview(self._checked(arguments), workspace) if self._preview is not None else ""

    def _checked(self, arguments: object) -> Arguments:
        try:
            return msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"invalid arguments for {self.definition.name}: {error}; {self._taken()}") from None

    def _taken(self) -> str:
        """The arguments that there are, for who has none right."""
        parts = self.definition.input_schema["properties"]
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
