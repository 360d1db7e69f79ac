"""Finds everything that is wrong in a config.toml, with line numbers: invalid TOML, misspelt keys, and wrong values.

Layers above this one read some of the tables; `use` checks the configuration on their behalf.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.editing import line_of, split_key
from understudy.config.file import ConfigFile, parse_toml
from understudy.config.load import build_config
from understudy.config.model import Config
from understudy.config.overrides import choose_profile, merge
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.config.slips import find_slips, unknown_keys
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides

ANY_MODEL = "none"  # no model is asked here, so none need be configured
MOST = 100  # wrong values; each is found by leaving out the earlier ones

_NAMED = re.compile(r"`([\w.-]+)` should|^`([\w.-]+\.[\w.-]+)`|\b(policy\.rules\[\d+\])")

Use = Callable[[Config], None]


class ConfigProblem(msgspec.Struct, frozen=True):
    text: str
    key: str | None = None
    line: int | None = None
    wrong: bool = True  # False: it merely has no effect


def problems_in(path: Path, text: str, cwd: Path, env: Mapping[str, str], use: Use) -> list[ConfigProblem]:
    """In the order of their lines. `use` raises `ConfigError` for values that later readers could not use."""
    try:
        tree = parse_toml(path, text)
    except ConfigError as error:
        place = re.search(r"at line (\d+)", str(error))
        reason = str(error).splitlines()[-2] if place else str(error)
        return [ConfigProblem(f"this is not TOML: {reason}", line=int(place[1]) if place else None)]

    def check(tree: Tree) -> None:
        use(build_config(path.parent, TreeReader(tree), Overrides(model=ANY_MODEL), cwd, env, ()))

    found = [*_slips(tree), *_no_profile(path, tree), *_wrong_values(tree, check)]
    told: dict[tuple[str | None, str], ConfigProblem] = {}
    for problem in found:
        line = None if problem.key is None else _line(text, problem.key)
        told.setdefault((problem.key, problem.text), msgspec.structs.replace(problem, line=line))
    return sorted(told.values(), key=lambda problem: (problem.line or 0, problem.key or ""))


def _slips(tree: Tree) -> Iterator[ConfigProblem]:
    for slip in find_slips(tree):
        yield ConfigProblem(f"`{slip.key}` {slip.word}", slip.key, wrong=not slip.idle)
    for key in unknown_keys(tree):
        yield ConfigProblem(f"`{key}` has no effect: neither understudy nor codex knows such a key", key, wrong=False)


def _line(text: str, key: str) -> int | None:
    """`key[2]` means the second table of a list."""
    numbered = re.fullmatch(r"(.*)\[(\d+)\]", key)
    return line_of(text, split_key(numbered[1]), int(numbered[2])) if numbered else line_of(text, split_key(key))


def _no_profile(path: Path, tree: Tree) -> Iterator[ConfigProblem]:
    try:
        choose_profile(Overrides(), tree, ConfigFile(path, tree, ()))
    except ConfigError as error:
        yield ConfigProblem(_one_line(error), "profile")


def _wrong_values(tree: Tree, check: Callable[[Tree], None]) -> Iterator[ConfigProblem]:
    plain = {key: value for key, value in tree.items() if key != "profiles"}
    known = list(_mismatches(plain, check))
    yield from known
    profiles = tree.get("profiles")
    for name, profile in cast(Tree, profiles).items() if isinstance(profiles, Mapping) else ():
        if isinstance(profile, Mapping):
            for problem in _mismatches(merge(plain, cast(Tree, profile)), check):
                if problem.text not in {each.text for each in known}:
                    yield _of_profile(f"profiles.{name}", problem)


def _of_profile(place: str, problem: ConfigProblem) -> ConfigProblem:
    if problem.key is None:
        return ConfigProblem(f"in [{place}]: {problem.text}", place)
    key = f"{place}.{problem.key}"
    text = problem.text.replace(f"`{problem.key}`", f"`{key}`", 1)
    return ConfigProblem(text if key in text else f"in [{place}]: {text}", key)


def _mismatches(tree: Tree, check: Callable[[Tree], None]) -> Iterator[ConfigProblem]:
    """Checking a whole configuration reports only the first wrong value, so leave that out and check again."""
    rest = copy.deepcopy(dict(tree))
    left_out: list[str] = []
    for _ in range(MOST):
        try:
            check(rest)
        except Mismatch as slip:
            key, text = slip.key, f"`{slip.key}`: {slip.reason()}"
        except ConfigError as error:
            named = _NAMED.search(str(error))
            key, text = next(filter(None, named.groups())) if named else None, _one_line(error)
        else:
            return
        if key is None or not any(each.startswith(f"{key}.") for each in left_out):  # otherwise it was left out by us
            yield ConfigProblem(text, key)
        if key is None or not _leave_out(rest, key):
            return
        left_out.append(key)


def _one_line(error: ConfigError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines())


def _leave_out(tree: dict[str, Any], key: str) -> bool:
    """Whether that changed anything. For a key inside a list, leaves out the list."""
    *way, last = re.sub(r"\[\d+\].*", "", key).split(".")
    at: Any = tree
    for name in way:
        at = cast(dict[str, Any], at).get(name) if isinstance(at, dict) else None
    return isinstance(at, dict) and cast(dict[str, Any], at).pop(last, None) is not None
