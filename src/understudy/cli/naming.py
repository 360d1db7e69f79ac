"""The name that we were started by. A link named `codex` makes us answer like the program that we stand in for."""

import os
import sys

from understudy import __version__
from understudy.servers.codex_version import CODEX_VERSION

CODEX = "codex"


def is_codex() -> bool:
    return os.path.basename(sys.argv[0]) == CODEX


def program_name() -> str:
    return CODEX if is_codex() else "understudy"


def version_text(command: str = "") -> str:
    """As programs read it that look for a version of codex, if that is what they have started."""
    if not is_codex():
        return f"understudy {__version__}"
    return f"codex-cli{'-' if command else ''}{command} {CODEX_VERSION} (understudy {__version__})"
