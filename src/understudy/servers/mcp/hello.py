"""The answer to `initialize`. Standard library only: it is given before anything else is imported."""

from typing import Any, NamedTuple

from understudy import __version__

NEWEST = "2025-11-25"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)


class Hello(NamedTuple):
    """What a client said of itself."""

    version: str  # the protocol it asked for
    can_be_asked: bool  # it declared elicitation


def negotiate(asked: str) -> str:
    """The client's version where we speak it, else our newest."""
    return asked if asked in VERSIONS else NEWEST


def server_result(version: str) -> dict[str, Any]:
    return {
        "capabilities": {"tools": {"listChanged": True}},
        "protocolVersion": version,
        "serverInfo": {"name": "understudy", "title": "Understudy", "version": __version__},
    }
