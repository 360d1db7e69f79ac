"""`initialize`: what the app server and its client say about themselves. It is answered before the server is imported, so it needs
little.
"""

import os
import sys

from understudy import __version__
from understudy.servers.codex_version import CODEX_VERSION

Introduction = dict[str, str]


class Handshake:
    """What a client said of itself."""

    __slots__ = ("name", "opted_out")

    def __init__(self, name: str, opted_out: "frozenset[str]") -> None:
        self.name = name
        self.opted_out = opted_out  # notifications that it does not want


def introduce(name: str, version: str, home: str) -> Introduction:
    """The answer to a client of that name. `home`: the configuration folder."""
    return {
        "userAgent": user_agent(name or "client", version),
        "codexHome": home,
        "platformFamily": "unix",
        "platformOs": "macos" if sys.platform == "darwin" else sys.platform,
    }


def user_agent(name: str, version: str) -> str:
    """Clients take the version after the first `/` for codex's: it says whose protocol this is."""
    machine = os.uname()
    system = f"{machine.sysname} {machine.release}; {machine.machine}"
    return f"{name}/{CODEX_VERSION} ({system}) understudy/{__version__} ({name}; {version})"
