"""A word for whoever starts the server at a terminal and sees nothing happen. No client is ever shown it."""

import os
import sys

TEXT = """\
understudy: this is an MCP server. It is waiting for a client's messages on standard input.
  Let your client start it:    {"command": "understudy", "args": ["mcp-server"]}
  In Claude Code:              claude mcp add codex -- understudy mcp-server
  To see it at work:           understudy demo
  To end it:                   Ctrl-D
"""


def greet_person() -> None:
    """On standard error, where standard input is a terminal."""
    if os.isatty(0) and sys.stderr:
        try:
            sys.stderr.write(TEXT)
        except OSError:
            return  # the server does not depend on it
