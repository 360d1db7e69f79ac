"""`initialize`: what a client says of itself, and the answer. Given before the server is imported, so it needs little itself."""

from understudy import __version__

NEWEST = "2025-11-25"
MODERN = "2026-07-28"  # the era without a handshake, see `modern.py`
PREFIX = "io.modelcontextprotocol/"  # of what is in `_meta` there
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

Result = dict[str, "str | bool | Result"]


class Handshake:
    """What a client said of itself in `initialize`."""

    __slots__ = ("can_be_asked", "extended", "name", "name_version", "version")

    def __init__(self, version: str, can_be_asked: bool, name: str = "", name_version: str = "", *, extended: bool = False) -> None:
        self.version = version  # the protocol it asked for
        self.can_be_asked = can_be_asked  # it declared elicitation
        self.name = name  # as it calls itself
        self.name_version = name_version
        self.extended = extended  # it declared extensions, whatever they are


def negotiate(asked: str) -> str:
    """The client's version where we speak it, else our newest."""
    return asked if asked in VERSIONS else NEWEST


def is_modern(method: str, params: "Any") -> bool:
    """Whether a request that no handshake came before is of the era without one. `params`: its bytes, or None."""
    return method in ("server/discover", "subscriptions/listen") or (params is not None and PREFIX.encode() in bytes(params))


def server_result(version: str, more: "Mapping[str, Any] | None" = None) -> Result:
    """`more`: capabilities."""
    return {
        "capabilities": {"tools": {"listChanged": True}, **(more or {})},
        "protocolVersion": version,
        "serverInfo": server_info(),
    }


def server_info() -> Result:
    return {"name": "understudy", "title": "Understudy", "version": __version__}
