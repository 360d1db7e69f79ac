"""Everything that is wrong with a config.toml, each with its line: what is no TOML, misspelt keys, and wrong values."""

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.file import parse_toml
from understudy.config.lines import line_of, split_key
from understudy.config.load import build_config
from understudy.config.overrides import merge
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.config.slips import find_slips, unknown_keys
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides

ANY_MODEL = "none"  # none is asked anything here, so none need be configured
MOST = 100  # wrong values; each is found by leaving out the ones before it

_NAMED = re.compile(r"`([\w.-]+)` should")


class ConfigProblem(msgspec.Struct, frozen=True):
    text: str
    key: str | None = None
    line: int | None = None
    wrong: bool = True  # False: it only has no effect


def problems_in(path: Path, text: str, cwd: Path, env: Mapping[str, str]) -> list[ConfigProblem]:
    """In the order of their lines."""
    try:
        tree = parse_toml(path, text)
    except ConfigError as error:
        place = re.search(r"at line (\d+)", str(error))
        reason = str(error).splitlines()[-2] if place else str(error)
        return [ConfigProblem(f"this is not TOML: {reason}", line=int(place[1]) if place else None)]
    found = [*_slips(tree), *_wrong_values(path.parent, tree, cwd, env)]
    told: dict[tuple[str | None, str], ConfigProblem] = {}
    for problem in found:
        line = None if problem.key is None else line_of(text, split_key(problem.key))
        told.setdefault((problem.key, problem.text), msgspec.structs.replace(problem, line=line))
    return sorted(told.values(), key=lambda problem: (problem.line or 0, problem.key or ""))


def _slips(tree: Tree) -> Iterator[ConfigProblem]:
    for slip in find_slips(tree):
        yield ConfigProblem(f"`{slip.key}` {slip.word}", slip.key, wrong=not slip.word.startswith("has no effect"))
    for key in unknown_keys(tree):
        yield ConfigProblem(f"`{key}` has no effect: neither understudy nor codex knows such a key", key, wrong=False)


def _wrong_values(home: Path, tree: Tree, cwd: Path, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    plain = {key: value for key, value in tree.items() if key != "profiles"}
    yield from _mismatches(home, plain, "", cwd, env)
    profiles = tree.get("profiles")
    for name, profile in cast(Tree, profiles).items() if isinstance(profiles, Mapping) else ():
        if isinstance(profile, Mapping):
            known = {problem.text for problem in _mismatches(home, plain, "", cwd, env)}
            prefix = f"profiles.{name}."
            merged = merge(plain, cast(Tree, profile))
            yield from (
                msgspec.structs.replace(problem, key=problem.key and prefix + problem.key)
                for problem in _mismatches(home, merged, "", cwd, env)
                if problem.text not in known
            )


def _mismatches(home: Path, tree: Tree, prefix: str, cwd: Path, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Of a whole configuration only the first wrong value is told, so that is left out, and the rest is looked at again."""
    rest = copy.deepcopy(dict(tree))
    for _ in range(MOST):
        try:
            build_config(home, TreeReader(rest), Overrides(model=ANY_MODEL), cwd, env, ())
        except Mismatch as slip:
            yield ConfigProblem(f"`{prefix}{slip.key}`: {slip.complaint}; it should be {slip.wanted}", prefix + slip.key)
            if not _leave_out(rest, slip.key):
                return
        except ConfigError as error:
            named = _NAMED.search(str(error))
            key = None if named is None else named[1]
            yield ConfigProblem(" ".join(str(error).split()), key and prefix + key)
            if key is None or not _leave_out(rest, key):
                return
        else:
            return


def _leave_out(tree: dict[str, Any], key: str) -> bool:
    """Whether that changed anything. Of a key inside a list, the list goes."""
    *way, last = re.sub(r"\[\d+\].*", "", key).split(".")
    at: Any = tree
    for name in way:
        at = cast(dict[str, Any], at).get(name) if isinstance(at, dict) else None
    return isinstance(at, dict) and cast(dict[str, Any], at).pop(last, None) is not None
