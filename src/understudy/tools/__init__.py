"""What a model can call: `files.py`, `commands.py`, `plan.py`, listed in `registry.py`.

A tool gets only a `ToolContext` (`tool.py`), so it cannot act without a verdict; a test keeps tools from importing code that acts.
`acts/` contains what they can do, `patch/` all changes of files, `mcp/` a client of the user's own MCP servers. `ToolHost`
(`host.py`) is what acts need from the turn.
"""
