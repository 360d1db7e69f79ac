"""Tools of other MCP servers. Loaded only if some are configured, because importing the `mcp` SDK takes half a second."""
