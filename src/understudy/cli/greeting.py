"""A word for whoever starts the server at a terminal and sees nothing happen. No client is ever shown it.

Bare `understudy` at a terminal: whoever types it is offered a chat.
"""

import os
import sys
from collections.abc import Callable

from understudy import __version__
from understudy.cli.tell.terminal import one_line

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


OFFER = """\
understudy {version}: a coding agent. `understudy --help` lists its commands.
You are in {folder}
Start a chat here? [Y/n] """


def at_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def offer_chat(chat: Callable[[], int]) -> int:
    """The exit code of the chat; 0 where it is not wanted."""
    sys.stdout.write(OFFER.format(version=__version__, folder=one_line(os.getcwd())))
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer:
        sys.stdout.write("\n")
        return 0
    return chat() if answer.strip().lower() in ("", "y", "yes") else 0
