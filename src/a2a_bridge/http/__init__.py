"""The MCP endpoint over HTTP: the order of checks, the ASGI app around it, and the server that binds it."""
