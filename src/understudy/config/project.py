"""A project's own configuration: `.codex/config.toml` and `.mcp.json` of each trusted folder from the git root down to cwd.

The user's own file overrides it. Except for the MCP servers that it names, it decides nothing about what may run, what may be read,
or where anything is sent.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.file import parse_toml
from understudy.config.home import is_there, state_dir
from understudy.config.keys import PROJECT_KEYS
from understudy.config.overrides import apply_key, merge
from understudy.config.schema import Tree
from understudy.config.slips import find_slips
from understudy.errors import ConfigError
from understudy.places.placeholders import begins_repository

PROJECT_FILE = ".codex/config.toml"
SERVERS_FILE = ".mcp.json"
SKILL_FOLDERS = (".agents/skills", ".codex/skills", ".claude/skills")
COMMAND_FOLDERS = (".claude/commands", ".codex/prompts")


class ProjectLayer(msgspec.Struct, frozen=True):
    tree: Tree
    origins: tuple[tuple[str, Tree], ...]  # its source files, the nearest last
    warnings: tuple[str, ...]
    servers: Tree = {}  # by name; each is taken from one file, never merged from two


NOTHING = ProjectLayer({}, (), ())


def project_folders(cwd: str) -> list[str]:
    """From cwd up to the nearest folder that begins a repository; only cwd if there is none.

    Works on plain strings, because every conversation needs it.
    """
    upwards = _upwards(cwd)
    for number, folder in enumerate(upwards, 1):
        if is_there(f"{folder}/.git") and begins_repository(folder):
            return list(upwards[:number])
    return [cwd]


@lru_cache(maxsize=64)  # depends only on the text, and is asked three times per conversation
def _upwards(cwd: str) -> tuple[str, ...]:
    folders = [cwd]
    while (above := folders[-1].rpartition("/")[0] or "/") != folders[-1]:
        folders.append(above)
    return tuple(folders)


def skill_folders(homes: Sequence[object], project: Sequence[str]) -> list[str]:
    """Folders that may contain skills: in the user's own homes, and in the project. Asked for every conversation."""
    folders = [f"{home}/skills" for home in homes]
    folders += [f"{folder}/{name}" for folder in project for name in SKILL_FOLDERS]
    return [folder for folder in folders if is_there(folder)]


def is_marked_untrusted(path: str, projects: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the user's configuration marks the path, or the nearest folder above it that it mentions, as untrusted."""
    said = [
        (os.path.realpath(folder), str(table.get("trust_level"))) for folder, table in projects.items() if os.path.isabs(folder)
    ]
    levels = dict(sorted(said, key=lambda each: each[1] == "untrusted"))  # of two entries for one folder, the stricter counts
    above = next((folder for folder in _upwards(os.path.dirname(path)) if folder in levels), None)
    return above is not None and levels[above] == "untrusted"


def has_hook_files(cwd: str, home: Path, env: Mapping[str, str]) -> bool:
    """Whether there may be hooks. Asked for every conversation, so it may say yes wrongly: whoever reads them looks closely."""
    if is_there(f"{home}/hooks.json") or is_there(f"{claude_home(env)}/settings.json"):
        return True
    return any(is_there(f"{folder}/.claude") or is_there(f"{folder}/.codex") for folder in project_folders(cwd))


def claude_home(env: Mapping[str, str]) -> str:
    """Claude Code's folder; empty if there is no home."""
    named = env.get("CLAUDE_CONFIG_DIR")
    return os.path.abspath(named) if named else f"{env.get('HOME') or '/nonexistent'}/.claude"


def agents_home(env: Mapping[str, str]) -> str:
    """The folder with files for all agents."""
    return f"{env.get('HOME') or '/nonexistent'}/.agents"


def project_files(cwd: Path, home: Path) -> list[tuple[str, str]]:
    """Such files from cwd up to the git root, with their folders, without the user's own file below the home directory."""
    found = [
        (folder, file)
        for folder in project_folders(str(cwd))
        for file in (PROJECT_FILE, SERVERS_FILE)
        if is_there(path := f"{folder}/{file}") and not _is_folder(path)
    ]
    return [(folder, file) for folder, file in found if file == SERVERS_FILE or not _is_home(os.path.join(folder, ".codex"), home)]


def _is_folder(path: str) -> bool:
    """Ignores the empty folders that replace missing protected names while a command runs."""
    return os.path.isdir(path) and not os.path.islink(path)


def _is_home(folder: str, home: Path) -> bool:
    return os.path.realpath(folder) == os.path.realpath(home)


def read_project_layer(cwd: Path, home: Path, projects: Mapping[str, Tree]) -> ProjectLayer:
    """Raises `ConfigError` for a trusted file that is not valid TOML or JSON."""
    files = project_files(cwd, home)
    if not files:
        return NOTHING
    from understudy.config.trust import TrustStore  # few projects have one

    store = TrustStore(state_dir(home) / "trust.json")
    judgements = {folder: store.judge(Path(folder), projects) for folder, _ in files}  # read each folder only once
    layer = NOTHING
    for folder, file in reversed(files):
        path = f"{folder}/{file}"
        judged = judgements[folder]
        if judged.files is None:
            layer = _with_notice(layer, _not_read(path, folder, changed=judged.standing == "changed"))
        elif file not in judged.files.contents:
            nor = "neither it nor `.codex` may be a link" if file == PROJECT_FILE else "it may not be a link"
            layer = _with_notice(layer, f"{path} was not read: it has to be a plain file, and {nor}")
        elif file == PROJECT_FILE:
            layer = _laid_over(layer, path, judged.files.contents[file])
        else:
            from understudy.config.project_servers import servers_in_json

            layer = _with_servers(layer, path, servers_in_json(path, judged.files.contents[file]))
    return layer


def with_project_servers(tree: Tree, servers: Tree) -> Tree:
    """A server of the user's own replaces the project's server of the same name entirely."""
    own = tree.get("mcp_servers", {})
    if not servers or not isinstance(own, Mapping):
        return tree
    return {**tree, "mcp_servers": {**servers, **cast(Tree, own)}}


def _with_servers(layer: ProjectLayer, path: str, tables: Mapping[object, object]) -> ProjectLayer:
    from understudy.config.project_servers import check_servers  # few projects have any

    servers, warnings = check_servers(path, tables)
    return msgspec.structs.replace(layer, servers={**layer.servers, **servers}, warnings=(*layer.warnings, *warnings))


def _not_read(path: str, folder: str, *, changed: bool) -> str:
    import shlex

    why = "the folder's own files have changed since you trusted it" if changed else "the folder is not trusted"
    return f"{path} was not read, because {why}. Look at what it says; `understudy trust {shlex.quote(folder)}` lets it count"


def _with_notice(layer: ProjectLayer, notice: str) -> ProjectLayer:
    return msgspec.structs.replace(layer, warnings=(*layer.warnings, notice))


def _laid_over(layer: ProjectLayer, path: str, content: bytes) -> ProjectLayer:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None
    tree = parse_toml(Path(path), text)
    own: Tree = {}
    for key in PROJECT_KEYS:
        if (value := _value(tree, key)) is not None:
            own = apply_key(own, key, value)
    slips = {slip.key: slip.word for slip in find_slips(tree)}
    tables = tree.get("mcp_servers")
    has_servers = isinstance(tables, Mapping)
    known = PROJECT_KEYS | {"mcp_servers", "hooks"} if has_servers else PROJECT_KEYS | {"hooks"}  # hooks are read elsewhere
    ignored = [key for key in _leaves(tree, "") if key not in known and key not in slips]
    silent = {slip.key for slip in find_slips(tree) if not slip.told}
    warnings = [f"`{key}` in {path} {word}" for key, word in slips.items() if key not in silent]
    warnings += [f"`{key}` in {path} does not count: a project cannot set it, only your own configuration can" for key in ignored]
    laid = ProjectLayer(merge(layer.tree, own), (*layer.origins, (path, own)), (*layer.warnings, *warnings), layer.servers)
    return _with_servers(laid, path, cast(Mapping[object, object], tables)) if has_servers else laid


def _value(tree: Tree, key: str) -> Any:
    at: Any = tree
    for part in key.split("."):
        at = cast(Tree, at).get(part) if isinstance(at, Mapping) else None
    return at


def _leaves(tree: Tree, prefix: str) -> Iterator[str]:
    """Dotted keys, down to tables that contain no allowed key."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and any(allowed.startswith(f"{key}.") for allowed in PROJECT_KEYS):
            yield from _leaves(cast(Tree, value), f"{key}.")
        else:
            yield key
