"""Tools of other MCP servers. Loaded only where some are configured: the `mcp` SDK takes half a second."""
