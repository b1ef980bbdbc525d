"""JSON-RPC and MCP as bytes and values. No event loop, clock, file or log."""
