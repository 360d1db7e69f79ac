"""The names under which other servers' tools are offered, and which tool a name in a call means.

Offered is `mcp__server__tool`, in characters and a length that every provider takes. Models write other spellings, of other
programs and other times; each is understood as long as it can mean one tool only.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

PREFIX = "mcp__"
LONGEST = 64  # what providers take
_HASH = 12
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_BETWEEN = re.compile(r"[^a-z0-9]+")

Tool = tuple[str, str]  # server and tool, as they call themselves


def offered_names(tools: Iterable[Tool], taken: Iterable[str] = ()) -> dict[str, Tool]:
    """The tool behind each offered name. `taken` are names of our own tools.

    What is too long, or would be the same as another, ends in a hash of the names as the server has them. So a tool keeps its
    name whichever others there are, unless one comes that would be called the same.
    """
    distinct = list(dict.fromkeys(tools))
    plain = {tool: f"{PREFIX}{_plain(tool[0])}__{_plain(tool[1])}" for tool in distinct}
    counts: dict[str, int] = {}
    for name in (*plain.values(), *taken):
        counts[name.lower()] = counts.get(name.lower(), 0) + 1  # some providers take no two that differ by case only
    named: dict[str, Tool] = {}
    for tool, name in plain.items():
        unique = counts[name.lower()] == 1 and len(name) <= LONGEST
        named[name if unique else _with_hash(name, tool)] = tool
    return named


def _plain(name: str) -> str:
    return _ODD.sub("_", name) or "_"


def _with_hash(name: str, tool: Tool) -> str:
    digest = hashlib.sha256("\0".join(tool).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{digest}"


class Spellings:
    """Which tool a call means, whatever way its name is spelled."""

    def __init__(self, named: Mapping[str, Tool]) -> None:
        self._named = named
        self._known: dict[str, Tool | None] = {}  # None: it could be several
        self._exact: dict[str, Tool | None] = {}
        for offered, (server, tool) in named.items():
            for exact in (f"{PREFIX}{server}__{tool}", f"{server}__{tool}"):
                _note(self._exact, exact, (server, tool))
            spellings = {_squeezed(text) for text in (offered, f"{PREFIX}{server}__{tool}", f"{server}__{tool}")}
            for spelling in spellings - {""}:
                _note(self._known, spelling, (server, tool))
        full = frozenset(self._known)
        for server, tool in named.values():
            if (bare := _squeezed(tool)) and bare not in full:  # without its server, where only one has such a tool
                _note(self._known, bare, (server, tool))

    def find(self, name: str) -> Tool | None:
        found = self._named.get(name) or self._exact.get(name)
        if found is None:
            spelling = _squeezed(name)
            found = self._known.get(spelling) or self._known.get(spelling.removeprefix("mcp_"))
        return found


def _note(known: dict[str, Tool | None], spelling: str, tool: Tool) -> None:
    if known.setdefault(spelling, tool) != tool:
        known[spelling] = None


def _squeezed(name: str) -> str:
    return _BETWEEN.sub("_", name.lower()).strip("_")
