"""The configuration that a project brings along: `.codex/config.toml` of each trusted folder from the git root down to cwd.

It stands below the user's own file, and decides nothing about what may run, what may be read or where anything is sent.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.docs import project_folders
from understudy.config.file import parse_toml
from understudy.config.home import state_dir
from understudy.config.keys import PROJECT_KEYS
from understudy.config.overrides import apply_key, merge
from understudy.config.schema import Tree
from understudy.config.slips import find_slips
from understudy.errors import ConfigError

PROJECT_FILE = ".codex/config.toml"


class ProjectLayer(msgspec.Struct, frozen=True):
    tree: Tree
    origins: tuple[tuple[str, Tree], ...]  # the files it was made from, the nearest last
    warnings: tuple[str, ...]


NOTHING = ProjectLayer({}, (), ())


def project_files(cwd: Path, home: Path) -> list[str]:
    """Folders from cwd up to the git root that have such a file; the user's own, below the home directory, is none."""
    folders = project_folders(str(cwd))
    found = [folder for folder in folders if os.path.lexists(os.path.join(folder, PROJECT_FILE))]
    return [folder for folder in found if os.path.realpath(os.path.join(folder, ".codex")) != os.path.realpath(home)]


def read_project_layer(cwd: Path, home: Path, projects: Mapping[str, Tree]) -> ProjectLayer:
    """Raises `ConfigError` for a trusted file that cannot be read as TOML."""
    folders = project_files(cwd, home)
    if not folders:
        return NOTHING
    from understudy.config.trust import TrustStore  # few projects have one

    store = TrustStore(state_dir(home) / "trust.json")
    layer = NOTHING
    for folder in reversed(folders):
        path = f"{folder}/{PROJECT_FILE}"
        judged = store.judge(Path(folder), projects)
        if judged.files is None:
            layer = _with_notice(layer, _not_read(path, folder, changed=judged.standing == "changed"))
        elif PROJECT_FILE not in judged.files.contents:
            layer = _with_notice(
                layer, f"{path} was not read: it has to be a plain file, and neither it nor `.codex` may be a link"
            )
        else:
            layer = _laid_over(layer, path, judged.files.contents[PROJECT_FILE])
    return layer


def _not_read(path: str, folder: str, *, changed: bool) -> str:
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
    ignored = [key for key in _leaves(tree, "") if key not in PROJECT_KEYS and key not in slips]
    warnings = [f"`{key}` in {path} {word}" for key, word in slips.items()]
    warnings += [f"`{key}` in {path} does not count: a project cannot set it, only your own configuration can" for key in ignored]
    return ProjectLayer(merge(layer.tree, own), (*layer.origins, (path, own)), (*layer.warnings, *warnings))


def _value(tree: Tree, key: str) -> Any:
    at: Any = tree
    for part in key.split("."):
        at = cast(Tree, at).get(part) if isinstance(at, Mapping) else None
    return at


def _leaves(tree: Tree, prefix: str) -> Iterator[str]:
    """Dotted keys down to the tables that no allowed key lies in."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and any(allowed.startswith(f"{key}.") for allowed in PROJECT_KEYS):
            yield from _leaves(cast(Tree, value), f"{key}.")
        else:
            yield key
