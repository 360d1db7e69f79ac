"""A hint for people who start the server at a terminal and see nothing happen. Clients never see it.

Also offers a chat to whoever types bare `understudy` at a terminal.
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
    """On standard error, if standard input is a terminal."""
    if os.isatty(0) and sys.stderr:
        try:
            sys.stderr.write(TEXT)
        except OSError:
            return  # the server works without it


OFFER = """\
understudy {version}: a coding agent. `understudy --help` lists its commands.
You are in {folder}
Start a chat here? [Y/n] """


def at_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def offer_chat(chat: Callable[[], int]) -> int:
    """Returns the exit code of the chat; 0 if it is not wanted."""
    sys.stdout.write(OFFER.format(version=__version__, folder=one_line(os.getcwd())))
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer:
        sys.stdout.write("\n")
        return 0
    return chat() if answer.strip().lower() in ("", "y", "yes") else 0
