"""Options that may stand before the command, as they do with codex: `codex -m MODEL mcp-server`.

What codex has there is taken before any command. `exec` and `review` read such options themselves; to other commands they become
settings, if they use the configuration. One that nothing here can obey is named on standard error and does no harm.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence

import msgspec

from understudy.cli.parsing import wrong_usage
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES

EXEC_WORDS = frozenset({"exec", "e", "review"})


class _Root(msgspec.Struct, frozen=True):
    name: str  # as `exec` and our messages have it
    takes_value: bool = True
    key: str | None = None  # of the configuration, which it sets
    choices: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # settings that it stands for
    for_exec: bool = True  # `exec` knows it, too


_CONFIG, _FOLDER = _Root("--config"), _Root("--cd")
_OPTIONS = {
    ("-c", "--config"): _CONFIG,
    ("-C", "--cd"): _FOLDER,
    ("-m", "--model"): _Root("--model", key="model"),
    ("-s", "--sandbox"): _Root("--sandbox", key="sandbox_mode", choices=SANDBOX_MODES),
    ("-a", "--ask-for-approval"): _Root("--ask-for-approval", key="approval_policy", choices=APPROVAL_POLICIES),
    ("-p", "--profile"): _Root("--profile", key="profile"),
    ("--oss",): _Root("--oss", takes_value=False, sets=('model_provider="oss"',)),
    ("--local-provider",): _Root("--local-provider", key="model_provider", choices=("ollama", "lmstudio"), for_exec=False),
    ("--full-auto",): _Root(
        "--full-auto", takes_value=False, sets=('approval_policy="on-failure"', 'sandbox_mode="workspace-write"')
    ),
    ("--dangerously-bypass-approvals-and-sandbox", "--yolo"): _Root(
        "--yolo", takes_value=False, sets=('approval_policy="never"', 'sandbox_mode="danger-full-access"')
    ),
    ("-i", "--image"): _Root("--image"),
    ("--add-dir",): _Root("--add-dir"),
    ("--enable",): _Root("--enable"),
    ("--disable",): _Root("--disable"),
    ("--strict-config",): _Root("--strict-config", takes_value=False),
    ("--search",): _Root("--search", takes_value=False, for_exec=False),
    ("--approve-for-me",): _Root("--approve-for-me", takes_value=False, for_exec=False),
    ("--dangerously-bypass-hook-trust",): _Root("--dangerously-bypass-hook-trust", takes_value=False, for_exec=False),
    ("--no-alt-screen",): _Root("--no-alt-screen", takes_value=False, for_exec=False),
    ("--no-daemon",): _Root("--no-daemon", takes_value=False, for_exec=False),
}
_BY_NAME = {name: option for names, option in _OPTIONS.items() for name in names}


def command_at(words: Sequence[str]) -> int:
    """Where the command stands; the number of words where there is none, or something before it is no such option."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, value = _split(words[at])
        option = _BY_NAME.get(name)
        if option is None:
            return len(words)
        at += 2 if option.takes_value and value is None else 1
    return min(at, len(words))


def place_behind(words: list[str], takes_settings: Callable[[str], bool]) -> list[str]:
    """The words with the command first. `takes_settings`: whether a command uses the configuration."""
    at = command_at(words)
    if at == 0 or at == len(words):
        return words
    command = words[at]
    given = list(_read(words[:at]))
    moved = _for_exec(given) if command in EXEC_WORDS else _as_settings(given, command, uses=takes_settings(command))
    return [command, *moved, *words[at + 1 :]]


def _read(words: Sequence[str]) -> list[tuple[_Root, str]]:
    given: list[tuple[_Root, str]] = []
    rest = iter(words)
    for word in rest:
        name, value = _split(word)
        option = _BY_NAME[name]
        if not option.takes_value and value is not None:
            wrong_usage(f"`{name}` takes no value")
        if option.takes_value and value is None:
            value = next(rest)
        if option.choices and value not in option.choices:
            wrong_usage(f"`{value}` is no value for `{name}`; it can be {', '.join(option.choices)}")
        given.append((option, value or ""))
    return given


def _for_exec(given: Sequence[tuple[_Root, str]]) -> list[str]:
    moved: list[str] = []
    for option, value in given:
        if option.for_exec:
            moved += [option.name, value] if option.takes_value else [option.name]
        elif option.key is not None:
            moved += ["--config", _setting(option.key, value)]
        else:
            _without_effect(option)
    return moved


def _as_settings(given: Sequence[tuple[_Root, str]], command: str, *, uses: bool) -> list[str]:
    """What is set by a key of its own counts before what another option brings along."""
    written = [value for option, value in given if option is _CONFIG]
    brought: list[str] = []
    chosen: list[str] = []
    for option, value in given:
        if option is _FOLDER:
            _enter(value)
        elif option.sets:
            brought += option.sets
        elif option.key is not None:
            chosen.append(_setting(option.key, value))
        elif option is not _CONFIG and uses:
            _without_effect(option)
    if not uses:
        return []
    return [word for setting in (*written, *brought, *chosen) for word in ("--config", setting)]


def _setting(key: str, value: str) -> str:
    return f"{key}={json.dumps(value)}"


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:
        wrong_usage(f"`-C {folder}` cannot be used: {error.strerror if isinstance(error, OSError) else error}")


def _without_effect(option: _Root) -> None:
    more = "; set `sandbox_workspace_write.writable_roots`" if option.name == "--add-dir" else ""
    sys.stderr.write(f"understudy: {option.name} has no effect here{more}\n")


def _split(word: str) -> tuple[str, str | None]:
    """As `exec` does: `--name=value`, `-nvalue`, `-n=value`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], (word[2:].removeprefix("=") if len(word) > 2 else None)
