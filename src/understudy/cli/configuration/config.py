"""`understudy config get|set|check|sample`: reads the user's config.toml, changes one place in it, and checks it."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import tomlkit

from understudy.cli.parsing import wrong_usage
from understudy.cli.tell.terminal import one_line
from understudy.config.checking import ConfigProblem, problems_in
from understudy.config.editing import edit_config_file, split_key, with_value, without
from understudy.config.file import read_config_file
from understudy.config.home import find_home, page_path
from understudy.config.model import Config
from understudy.config.overrides import parse_flag
from understudy.config.slips import find_slips, unknown_keys
from understudy.errors import BadRequest, ConfigError
from understudy.models.providers import built_in_provider, provider_from_table
from understudy.policy.rules import parse_rules
from understudy.policy.secrets import REDACTED, without_secrets
from understudy.text import make_visible

MOST_READ = 1024 * 1024


def run(options: Namespace) -> int:
    match options.action:
        case "get":
            return _get(options)
        case "set":
            return _set(options)
        case "sample":
            return _sample()
        case _:
            return _check(options)


# -- sample


def _sample() -> int:
    path = Path(page_path("config.toml"))
    if not path.exists():
        raise BadRequest("the sample is not in this install; it is docs/config.toml of the checkout")
    print(path.read_text(encoding="utf-8"), end="")
    return 0


# -- get


def _get(options: Namespace) -> int:
    home = find_home(os.environ)
    tree = read_config_file(home).tree
    shown: Any = masked(tree)
    if options.key is not None:
        for name in split_key(options.key):
            shown = cast(dict[str, Any], shown).get(name) if isinstance(shown, dict) else None
        if shown is None:
            raise BadRequest(_not_set(options.key, home))
    print(json.dumps(shown, indent=2, default=str) if options.json else _as_toml(shown))
    return 0


def _not_set(key: str, home: Path) -> str:
    meant = _complaint(key, "")
    return f"`{make_visible(key)}` {meant or f'is not set in {home}/config.toml; its default holds'}"


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return make_lines(tomlkit.dumps(cast(dict[str, Any], value)).rstrip("\n"))
    line = tomlkit.dumps({"value": value}).rstrip("\n")
    return make_lines(line.removeprefix("value = "))


def make_lines(text: str) -> str:
    return "\n".join(make_visible(line) for line in text.split("\n"))


def masked(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Without any key, token or password, at any depth."""
    return _masked(tree, without_secrets(dict(tree)))


def _masked(original: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in original.items():
        kept = plain.get(key)
        if kept is None:
            shown[key] = REDACTED
        elif isinstance(value, Mapping) and isinstance(kept, Mapping):
            shown[key] = _masked(cast(Mapping[str, Any], value), cast(Mapping[str, Any], kept))
        else:
            shown[key] = kept
    return shown


# -- set


def _set(options: Namespace) -> int:
    home = find_home(os.environ)
    place = split_key(options.key)
    if options.unset == (options.value is not None):
        wrong_usage("give a value (understudy config set KEY VALUE), or --unset")
    if not options.unset and (wrong := _complaint(options.key, "")):
        raise BadRequest(f"`{make_visible(options.key)}` {wrong}")
    value = None if options.unset else parse_flag(f"value={_given(options.value)}")[1]

    def change(text: str) -> str:
        if options.unset:
            return without(text, place)
        changed = with_value(text, place, value)
        before = {(problem.key, problem.text) for problem in _problems(home / "config.toml", text)}
        for problem in _problems(home / "config.toml", changed):
            if problem.wrong and (problem.key, problem.text) not in before:
                raise BadRequest(f"{problem.text}; nothing was changed")
        return changed

    path = edit_config_file(home, change)
    done = "unset" if options.unset else "set"
    print(f"{done}: {one_line(options.key)}, in {one_line(str(path))}")
    return 0


def _given(value: str) -> str:
    """`-` reads it from standard input, because everybody on the machine can see arguments."""
    if value != "-":
        return value
    read = sys.stdin.read(MOST_READ)
    if not read.strip():
        raise BadRequest("there is no value on standard input")
    return read.strip()


def _complaint(key: str, value: Any) -> str:
    """What is wrong with the key itself, as the end of a sentence; empty if it is known."""
    tree: Any = value
    for name in reversed(split_key(key)):
        tree = {name: tree}
    for slip in find_slips(cast(dict[str, Any], tree)):
        if not slip.idle:
            return slip.word
    return "is not a key that understudy or codex knows" if unknown_keys(cast(dict[str, Any], tree)) else ""


# -- check


def _check(options: Namespace) -> int:
    home = find_home(os.environ)
    path = home / "config.toml" if options.file is None else Path(os.path.abspath(options.file))
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        if options.file is not None:
            raise BadRequest(f"{path} is not there") from None
        text = ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None
    problems = _problems(path, text)
    if options.json:
        fields = ("line", "key", "text", "wrong")
        found = [{name: getattr(each, name) for name in fields} for each in problems]
        print(json.dumps({"file": str(path), "problems": found}, indent=2))
    else:
        for problem in problems:
            line = "" if problem.line is None else f":{problem.line}"
            print(f"{one_line(str(path))}{line}: {'' if problem.wrong else 'note: '}{make_visible(' '.join(problem.text.split()))}")
        if not problems:
            print(f"{one_line(str(path))}: {'all is well' if text else 'not there, so the defaults hold'}")
    return 1 if any(problem.wrong for problem in problems) else 0


def _problems(path: Path, text: str) -> list[ConfigProblem]:
    return problems_in(path, text, Path.cwd(), os.environ, _use)


def _use(config: Config) -> None:
    """Use the tables as models and policy do. Raises `ConfigError`."""
    source = "config.toml"
    try:
        parse_rules(config.policy_rules, source=source, home=os.environ.get("HOME", ""))
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix(f"{source}: ")) from None
    for name, table in config.provider_tables.items():
        provider_from_table(name, table, base=built_in_provider(name, os.environ))
