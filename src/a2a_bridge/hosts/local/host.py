"""The local host: its table of tools, and how one is run. A new tool is a file beside this one and a row here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from a2a_bridge.errors import HostUnavailable, UnknownTool
from a2a_bridge.hosts.local.bash import BASH
from a2a_bridge.hosts.local.edit import EDIT
from a2a_bridge.hosts.local.glob import GLOB
from a2a_bridge.hosts.local.grep import GREP
from a2a_bridge.hosts.local.job import JOB
from a2a_bridge.hosts.local.read import READ
from a2a_bridge.hosts.local.search import ripgrep
from a2a_bridge.hosts.local.workspace import Workspace
from a2a_bridge.hosts.local.write import WRITE
from a2a_bridge.hosts.typed import TypedTool
from a2a_bridge.tool import Access, Call, Result, Tool

TOOLS: tuple[TypedTool[Any, Workspace], ...] = (READ, WRITE, EDIT, BASH, JOB, GREP, GLOB)
# They are ripgrep's work, and not there without it.
SEARCHES = (GREP, GLOB)


class LocalHost:
    """Lends `directory` (where relative paths start and commands run) and whatever this user may reach from it.
    `longest` is the most seconds that a command may run, None for any number. `warnings` tell the owner what
    it lacks."""

    def __init__(self, directory: Path, name: str = "local", max_command_seconds: float | None = None) -> None:
        self._name = name
        self._workspace = Workspace(directory, max_command_seconds)
        searchable = ripgrep.find() is not None
        tools = [tool for tool in TOOLS if searchable or tool not in SEARCHES]
        self.warnings = () if searchable else (ripgrep.MISSING,)
        self._definitions = tuple(tool.definition for tool in tools)
        self._tools = {tool.definition.name: tool for tool in tools}

    @property
    def name(self) -> str:
        jobs = self._workspace.jobs.running
        return f"{self._name} ({jobs} job{'' if jobs == 1 else 's'} in the background)" if jobs else self._name

    async def start(self) -> None:
        if not self._workspace.directory.is_dir():
            raise HostUnavailable(f"{self._workspace.directory} is not a directory")

    async def close(self) -> None:
        await self._workspace.jobs.close()
        self._workspace.close()

    @property
    def known_tools(self) -> Sequence[Tool]:
        return self._definitions

    async def tools(self) -> Sequence[Tool]:
        return self._definitions

    async def call(self, name: str, arguments: object, call: Call) -> Result:
        if self._workspace.closed:
            raise HostUnavailable("it has ended")
        return await self._tool(name)(arguments, self._workspace)

    def access(self, name: str, arguments: object) -> Access:
        return self._tool(name).access(arguments, self._workspace)

    async def preview(self, name: str, arguments: object) -> str:
        return await self._tool(name).preview(arguments, self._workspace)

    async def halt(self) -> None:
        await self._workspace.jobs.close()

    def _tool(self, name: str) -> TypedTool[Any, Workspace]:
        tool = self._tools.get(name)
        if tool is None:
            raise UnknownTool(name)
        return tool
