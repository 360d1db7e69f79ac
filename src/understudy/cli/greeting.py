"""A word for whoever starts the server at a terminal and sees nothing happen. No client is ever shown it."""

import os
import sys

TEXT = """\
understudy: this is an MCP server. It waits for a client's messages on standard input, and nobody but a client writes them.
  A client starts it by itself:    {"command": "understudy", "args": ["mcp-server"]}
  in Claude Code, for example:     claude mcp add codex -- understudy mcp-server
  To see it at work:               understudy demo
  Ctrl-D ends it.
"""


def greet_person() -> None:
    """On standard error, where standard input is a terminal."""
    if os.isatty(0) and sys.stderr:
        try:
            sys.stderr.write(TEXT)
        except OSError:
            return  # the server does not depend on it
