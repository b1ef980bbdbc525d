"""Which tools are visible and may be called (rules M3 and M6)."""

from collections.abc import Collection, Sequence

from a2a_bridge.tool import Tool

MCP_PREFIX = "mcp__"


class Exposure:
    """The host's registry less the denied names, and less the tools of other MCP servers where those are denied."""

    def __init__(self, deny: Collection[str] = (), deny_mcp_tools: bool = False) -> None:
        self._deny = frozenset(deny)
        self._deny_mcp_tools = deny_mcp_tools

    def allows(self, name: str) -> bool:
        return name not in self._deny and not (self._deny_mcp_tools and name.startswith(MCP_PREFIX))

    def visible(self, tools: Sequence[Tool]) -> list[Tool]:
        return [tool for tool in tools if self.allows(tool.name)]
