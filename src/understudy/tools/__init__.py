"""What a model can call: `files.py`, `commands.py`, `plan.py`, registered in `registry.py`.

A tool holds a `ToolContext` (`tool.py`) and nothing else, so it cannot act unjudged; a test keeps tools from importing
what acts. `acts/` is what they can do, `patch/` the one door for changes to files, `mcp/` a client of the user's own
MCP servers. `ToolHost` (`host.py`) is what acts need of the turn.
"""
