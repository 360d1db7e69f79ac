"""Whether a hook applies: by its matcher, which may use a tool's name in either program, and by its `if`. Pure."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from understudy.config.hooks.entries import NOT_MATCHED, Hook
from understudy.policy.words import split_script

_PLAIN = re.compile(r"[A-Za-z0-9_|]*")
_LIST = re.compile(r"[A-Za-z0-9_|, ]*,[A-Za-z0-9_|, ]*")
_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_PATHS = ("file_path", "path", "notebook_path")


def matches(hook: Hook, names: Iterable[str]) -> bool:
    """`names`: of a tool, in both programs; for a start or a compaction, what caused it. Case counts."""
    if hook.event in NOT_MATCHED:
        return True
    return matches_name(hook.matcher, names)


def matches_name(matcher: str | None, names: Iterable[str]) -> bool:
    if not matcher or matcher == "*":
        return True
    if _PLAIN.fullmatch(matcher):
        return not frozenset(matcher.split("|")).isdisjoint(names)
    if _LIST.fullmatch(matcher):
        wanted = {part.strip() for part in re.split(r"[,|]", matcher)}
        return not wanted.isdisjoint(names)
    pattern = _compiled(matcher)
    return pattern is not None and any(pattern.search(name) for name in names)


def is_about(hook: Hook, names: Iterable[str], tool_input: Mapping[str, Any]) -> bool:
    """Evaluate the hook's `if`. Whatever is not understood counts as a match: a guard is better called too often than too
    seldom.
    """
    rule = None if hook.condition is None else _RULE.fullmatch(hook.condition.strip())
    if rule is None:
        return True
    if not any(fnmatch.fnmatchcase(name, rule["tool"]) for name in names):
        return False
    pattern = rule["pattern"]
    if not pattern or pattern == "*":
        return True
    command = tool_input.get("command")
    if isinstance(command, str):
        return _fits_command(pattern, command)
    path = next((value for key in _PATHS if isinstance(value := tool_input.get(key), str)), None)
    return path is None or _fits_path(pattern, path)


def _fits_command(pattern: str, command: str) -> bool:
    wanted = f"{pattern[:-2]}*" if pattern.endswith(":*") else pattern
    parts = split_script(command)
    if parts is None:  # not understood: the shell's meaning of it is unknown
        return True
    texts = (command, *(" ".join(words) for words in parts))
    return any(fnmatch.fnmatchcase(text, wanted) or (wanted.endswith(" *") and text == wanted[:-2]) for text in texts)


def _fits_path(pattern: str, path: str) -> bool:
    bare = pattern.removeprefix("./").removeprefix("//").lstrip("~").lstrip("/")
    return fnmatch.fnmatchcase(path, f"*{bare}") or fnmatch.fnmatchcase(path, f"*{bare}*")


@lru_cache(maxsize=256)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except (re.error, RecursionError, OverflowError):
        return None
