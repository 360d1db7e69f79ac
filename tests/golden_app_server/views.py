"""What is compared of a session: its answers, and what the server told and asked, in order.

Token counts and states of threads are compared in an order of their own: upstream sends them by other tasks than the items, and
where they fall among those changes from run to run.
"""

import re
from difflib import SequenceMatcher
from typing import Any, cast

from tests.golden.matchers import Matcher
from tests.golden_app_server.play import UUID, Names

Json = dict[str, Any]

ANYTHING = {"<ms>", "<unix s>", "<pid>", "<text>", "<time>", "<high-demand text>"}


def answers(messages: list[Json], names: Names) -> Json:
    """By the id of the request. Answers without one are told by their order."""
    found: Json = {}
    for message in messages:
        if "method" not in message:
            key = f"nobody {sum(key.startswith('nobody') for key in found)}"
            if message["id"] is not None:
                key = str(names.ids_in(message["id"]))
            found[key] = {name: value for name, value in message.items() if name != "id"}
    return found


def told(messages: list[Json]) -> list[Json]:
    """Notifications and questions; deltas of one item are put together."""
    shown: list[Json] = []
    for message in messages:
        method = message.get("method")
        if method is None or method in ("thread/tokenUsage/updated", "thread/status/changed"):
            continue
        params: Json = message.get("params", {})
        before = shown[-1] if shown else None
        if (
            before is not None
            and "delta" in params
            and before["method"] == method
            and before["params"]["itemId"] == params["itemId"]
        ):
            before["params"]["delta"] += params["delta"]
            continue
        shown.append({"method": method, "params": dict(params), **({"id": message["id"]} if "id" in message else {})})
    return shown


def counts(messages: list[Json]) -> list[Json]:
    """Of tokens, as they change."""
    found: list[Json] = []
    for message in messages:
        if message.get("method") == "thread/tokenUsage/updated" and message["params"]["tokenUsage"] not in found[-1:]:
            found.append(message["params"]["tokenUsage"])
    return found


def states(messages: list[Json]) -> list[Json]:
    """Of threads, as they change."""
    found: list[Json] = []
    for message in messages:
        if message.get("method") == "thread/status/changed" and message["params"] not in found[-1:]:
            found.append(message["params"])
    return found


# -- comparing


class Comparison:
    """Finds where two values differ. A name in the recording stands for one value throughout."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.problems: list[str] = []
        self._items: dict[tuple[str, str], str] = {}

    def compare(self, wanted: Any, seen: Any, where: str) -> None:
        if isinstance(wanted, Matcher):
            if wanted != seen:
                self.problems.append(f"{where}: {wanted!r} was {seen!r}")
        elif isinstance(wanted, dict) and isinstance(seen, dict):
            self._compare_objects(cast(Json, wanted), cast(Json, seen), where)
        elif isinstance(wanted, list) and isinstance(seen, list):
            self._compare_lists(cast(list[Any], wanted), cast(list[Any], seen), where)
        elif isinstance(wanted, str) and wanted in ANYTHING:
            if seen is None:
                self.problems.append(f"{where}: nothing where {wanted} was")
        elif isinstance(wanted, str) and isinstance(seen, str):
            if not self._same_text(wanted, seen):
                self.problems.append(f"{where}: {wanted!r} was {seen!r}")
        elif wanted != seen:
            self.problems.append(f"{where}: {wanted!r} was {seen!r}")

    def _compare_objects(self, wanted: Json, seen: Json, where: str) -> None:
        for key in sorted({*wanted, *seen}):
            if key not in seen:
                self.problems.append(f"{where}.{key}: missing, was {str(wanted[key])[:200]}")
            elif key not in wanted:
                self.problems.append(f"{where}.{key}: not recorded, is {str(seen[key])[:200]}")
            else:
                self.compare(wanted[key], seen[key], f"{where}.{key}")

    def _compare_lists(self, wanted: list[Any], seen: list[Any], where: str) -> None:
        if where == "told":  # those that correspond, so that one too many does not make all after it differ
            wanted, seen = self._aligned(wanted, seen)
        for number, (one, other) in enumerate(zip(wanted, seen, strict=False)):
            self.compare(one, other, f"{where}[{number}]{_named(one)}")
        for one in wanted[len(seen) :]:
            self.problems.append(f"{where}: missing {str(one)[:300]}")
        for other in seen[len(wanted) :]:
            self.problems.append(f"{where}: not recorded {str(other)[:300]}")

    def _aligned(self, wanted: list[Any], seen: list[Any]) -> tuple[list[Any], list[Any]]:
        matcher = SequenceMatcher(None, [_signature(each) for each in wanted], [_signature(each) for each in seen], autojunk=False)
        ours: list[Any] = []
        theirs: list[Any] = []
        for kind, begin, end, first, last in matcher.get_opcodes():
            if kind == "equal":
                ours += wanted[begin:end]
                theirs += seen[first:last]
            else:
                self.problems += [f"told: missing {str(each)[:300]}" for each in wanted[begin:end]]
                self.problems += [f"told: not recorded {str(each)[:300]}" for each in seen[first:last]]
        return ours, theirs

    def _same_text(self, wanted: str, seen: str) -> bool:
        parts = re.split(r"(<uuid-\d+>)", wanted)
        pattern = "".join(f"({UUID})" if part.startswith("<uuid-") else re.escape(part) for part in parts)
        found = re.fullmatch(pattern, seen, re.DOTALL)
        if found is None:
            return False
        names = [part for part in parts if part.startswith("<uuid-")]
        return all(self.names.ids.setdefault(name, value) == value for name, value in zip(names, found.groups(), strict=True))


def _signature(message: Json) -> str:
    item = message["params"].get("item", {})
    return " ".join(str(part) for part in (message["method"], item.get("type"), item.get("status")))


def _named(message: Any) -> str:
    return f"({cast(Json, message)['method']})" if isinstance(message, dict) and "method" in message else ""
