"""omp-a2a-bridge: lend the tools of a live session on this machine to an agent on another one, over MCP.

Importing the package does nothing but define these names.
"""

from a2a_bridge.errors import HostUnavailable, ToolError, UnknownTool
from a2a_bridge.tool import Call, Content, Host, Image, Result, Text, Tool

__all__ = [
    "Call",
    "Content",
    "Host",
    "HostUnavailable",
    "Image",
    "Result",
    "Text",
    "Tool",
    "ToolError",
    "UnknownTool",
]
