"""Finds keys that were probably a mistake: misspelt, in the wrong table, or without effect here.

A mistake in a key that guards something is an error: a rule that is silently ignored is worse than none.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

import msgspec

from understudy.config.keys import COUNTED_ON, GUARDING, KNOWN_KEYS, TOP_KEYS, WITHOUT_EFFECT, guards
from understudy.config.schema import Tree

# Other names that people write; too different from the right ones to be found by similarity.
_ALIASES = {
    "sandbox": "sandbox_mode",
    "sandbox_policy": "sandbox_mode",
    "approval": "approval_policy",
    "approvals": "approval_policy",
    "approval_mode": "approval_policy",
    "ask_for_approval": "approval_policy",
    "policies": "policy",
    "polices": "policy",
    "provider": "model_provider",
    "providers": "model_providers",
    "reasoning_effort": "model_reasoning_effort",
    "network_access": "sandbox_workspace_write.network_access",
    "writable_roots": "sandbox_workspace_write.writable_roots",
}
_LIKENESS = 0.8
_LIKENESS_ELSEWHERE = 0.85


class Slip(msgspec.Struct, frozen=True):
    key: str  # dotted, as written
    word: str  # what is wrong with it, as the end of a sentence that begins with the key and its place
    severe: bool  # ignoring it would leave something open
    idle: bool = False  # a valid key of codex that has no effect here
    told: bool = True  # shown whenever something runs


def find_slips(tree: Tree) -> Iterator[Slip]:
    yield from _find(tree, KNOWN_KEYS, "", "")


def unknown_keys(tree: Tree) -> list[str]:
    """Keys at the top that neither we nor `codex` know, unless they look misspelt."""
    slips = {slip.key.partition(".")[0] for slip in find_slips(tree)}
    return [key for key in tree if key not in KNOWN_KEYS and key not in slips]


def _find(tree: Tree, known: Tree, written: str, prefix: str) -> Iterator[Slip]:
    """`written` is the path of the table in the file, `prefix` the same without the profile that may contain it."""
    for key, value in tree.items():
        if key in known or "*" in known:
            yield from _known(value, known.get(key, known.get("*")), f"{written}{key}", f"{prefix}{key if key in known else '*'}")
        else:
            yield from _unknown(key, value, known, written, prefix)


def _known(value: object, beneath: object, written: str, place: str) -> Iterator[Slip]:
    if place.startswith("profiles.*"):
        place = place.removeprefix("profiles.*").removeprefix(".")
    if (reason := WITHOUT_EFFECT.get(place)) is not None:
        yield Slip(written, f"has no effect: {reason}", severe=False, idle=True, told=place in COUNTED_ON)
    elif isinstance(beneath, Mapping) and isinstance(value, Mapping):
        yield from _find(cast(Tree, value), cast(Tree, beneath), f"{written}.", f"{place}." if place else "")
    elif isinstance(value, Mapping) and "." not in place:  # another program's table: a key of ours below its header is a mistake
        yield from _strays(cast(Tree, value), written)


def _unknown(key: str, value: object, known: Tree, written: str, prefix: str) -> Iterator[Slip]:
    slip = _judge_unknown(key, value, known, written, prefix)
    if slip is not None:
        yield slip
    if isinstance(value, Mapping):
        yield from _strays(cast(Tree, value), written + key)


def _judge_unknown(key: str, value: object, known: Tree, written: str, prefix: str) -> Slip | None:
    profile = _profile_of(written)
    if "." in key and (places := _elsewhere(key.rpartition(".")[2])):
        named = " or ".join(f"`{profile}{place}`" for place in places)
        return Slip(
            written + key, f"is one name, because it is quoted; without quotes it belongs at {named}", any(map(guards, places))
        )
    if (meant := _nearest(key, known)) is not None:
        place = meant if "." in meant else prefix + meant
        shown = profile + meant if "." in meant else written + meant
        severe = guards(place) or _holds_guarding(value, known.get(meant), place)
        return Slip(written + key, f"is not a key; did you mean `{shown}`?", severe)
    if places := _elsewhere(key):
        named = " or ".join(f"`{profile}{place}`" for place in places)
        return Slip(written + key, f"is not a key there; it belongs at {named}", any(map(guards, places)))
    if guards(prefix.rstrip(".")) or prefix.startswith("understudy."):
        may = ", ".join(f"`{name}`" for name in known)
        return Slip(written + key, f"is not a key; `{written.rstrip('.')}` may hold {may}", _is_ours_to_guard(prefix))
    return None


def _holds_guarding(value: object, known: object, place: str) -> bool:
    """Whether a table with a misspelt name contains a key that would guard something under the right name."""
    if not isinstance(value, Mapping) or not isinstance(known, Mapping):
        return False
    names = cast(Tree, known)
    return any(guards(f"{place}.{name if name in names else _nearest(name, names)}") for name in cast(Tree, value))


def _is_ours_to_guard(prefix: str) -> bool:
    """No other program adds keys to these tables, so an unknown one is certainly a mistake."""
    return prefix.startswith(("understudy.sandbox.", "policy."))


def _profile_of(written: str) -> str:
    parts = written.split(".")
    return f"profiles.{parts[1]}." if parts[0] == "profiles" and len(parts) > 2 else ""


def _strays(table: Tree, written: str) -> Iterator[Slip]:
    """In TOML a key belongs to the last header above it, so a guarding key easily ends up in the wrong table."""
    for key in table:
        if key in _DISTINCT and (places := _elsewhere(key)):
            yield Slip(f"{written}.{key}", f"is not a key there; it belongs at {' or '.join(f'`{at}`' for at in places)}", True)


def _nearest(key: str, known: Tree) -> str | None:
    plain = key.replace("-", "_").lower()
    if (alias := _ALIASES.get(plain)) and alias.partition(".")[0] in known:
        return alias
    by_plain = {name.replace("_", ""): name for name in known}
    near = _closest(plain.replace("_", ""), tuple(by_plain), _LIKENESS)
    return by_plain[near] if near else None


def _elsewhere(key: str) -> tuple[str, ...]:
    """Where a key of this name belongs, or a guarding key with a very similar name."""
    places = _places()
    if key in places:
        return places[key]
    guarding = tuple(name for name, at in places.items() if any(map(guards, at)))
    near = _closest(key.replace("-", "_").lower(), guarding, _LIKENESS_ELSEWHERE)
    return places[near] if near else ()


def _closest(word: str, among: tuple[str, ...], cutoff: float) -> str | None:
    import difflib  # only for the few files with an unknown key

    return next(iter(difflib.get_close_matches(word, among, n=1, cutoff=cutoff)), None)


@cache
def _places() -> dict[str, tuple[str, ...]]:
    """Each name in the tree of keys, with its places."""
    found: dict[str, list[str]] = {}

    def walk(known: Tree, prefix: str) -> None:
        for name, beneath in known.items():
            if name != "*":
                found.setdefault(name, []).append(prefix + name)
            if isinstance(beneath, Mapping):
                walk(cast(Tree, beneath), f"{prefix}{'NAME' if name == '*' else name}.")

    walk(TOP_KEYS, "")
    return {name: tuple(places) for name, places in found.items()}


# Names with the same meaning everywhere.
_DISTINCT = frozenset({
    *(name for name in GUARDING if "." not in name and name != "history"),
    "rules",
    "mask",
    "protect",
    "writable_roots",
    "network_access",
    "ignore_default_excludes",
})  # fmt: skip
