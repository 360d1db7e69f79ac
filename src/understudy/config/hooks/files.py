"""Which files may contain hooks, and what is in them. A project's files are read without following links.

Also which hooks of project folders the user trusts, by a digest of the entry and of the files that its command depends on.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.home import is_there
from understudy.config.hooks.entries import Entries, Hook, HookFile, read_json, read_tree, switched_off
from understudy.config.private_file import PrivateFile
from understudy.config.project import PROJECT_FILE, claude_home, project_folders
from understudy.config.trust import read_plain_file
from understudy.errors import ConfigError


class HookTrust(msgspec.Struct, frozen=True):
    """`hooks.json` of our state folder."""

    file: Path

    def read(self) -> dict[str, str]:
        content = PrivateFile(self.file).read()
        if content is None:
            return {}
        trusted = content.get("trusted")
        if not isinstance(trusted, dict):
            raise ConfigError(f'{self.file} is not understood. Expected {{"trusted": {{KEY: DIGEST}}}}; remove it to trust no hook')
        return {str(key): str(digest) for key, digest in cast(dict[object, object], trusted).items()}

    def trust(self, digests: Mapping[str, str]) -> None:
        """Trust these, as they are now."""
        with PrivateFile(self.file).locked():
            PrivateFile(self.file).write({"trusted": dict(sorted({**self.read(), **digests}.items()))})

    def distrust(self, keys: frozenset[str]) -> None:
        with PrivateFile(self.file).locked():
            PrivateFile(self.file).write({"trusted": {key: digest for key, digest in self.read().items() if key not in keys}})


CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")
CODEX_FILE = ".codex/hooks.json"
_MOST_BYTES = 4 * 1024 * 1024
_MOST_BYTES_OF_A_FOLDER = 256 * 1024


class FoundHooks(msgspec.Struct, frozen=True):
    """All entries found, from low to high precedence, in the order of both programs; others decide whether each counts."""

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    off: frozenset[str] = frozenset()  # keys that the user has disabled


def hook_files(cwd: str, home: Path, env: Mapping[str, str]) -> list[HookFile]:
    """The files that exist. Every conversation asks, so this must be cheap."""
    claude = claude_home(env)
    own = (HookFile(f"{home}/hooks.json", "codex", "user"), HookFile(f"{claude}/settings.json", "claude", "user"))
    found = [file for file in own if is_there(file.path)]
    ours = {os.path.realpath(claude), os.path.realpath(home)}
    for folder in reversed(project_folders(os.path.realpath(cwd))):  # trust belongs to one folder, by whatever name it was reached
        if is_there(f"{folder}/.claude") and f"{folder}/.claude" not in ours:
            files = [HookFile(f"{folder}/{name}", "claude", "project", folder) for name in CLAUDE_FILES]
            found += [file for file in files if is_there(file.path)]
        if is_there(f"{folder}/.codex") and f"{folder}/.codex" not in ours:
            files = [HookFile(f"{folder}/{name}", "codex", "project", folder) for name in (CODEX_FILE, PROJECT_FILE)]
            found += [file for file in files if is_there(file.path)]
    return found


def find_hooks(cwd: Path, home: Path, env: Mapping[str, str], own_table: Mapping[str, Any]) -> FoundHooks:
    """`own_table` is `[hooks]` of the user's config.toml."""
    files = hook_files(str(cwd), home, env)
    config = HookFile(f"{home}/config.toml", "codex", "user")
    entries = [_read(file) for file in files if file.source == "user" and file.family == "codex"]
    entries.append(read_tree(config, own_table or None))
    entries += [_read(file) for file in files if not (file.source == "user" and file.family == "codex")]
    return FoundHooks(
        tuple(hook for each in entries for hook in each.hooks),
        tuple(problem for each in entries for problem in each.problems),
        switched_off(own_table),
    )


def read_hook_file(path: Path) -> Entries:
    """One file by its name, for `understudy hooks test`. Raises `ConfigError` if it cannot be read."""
    family = "claude" if path.name in ("settings.json", "settings.local.json") else "codex"
    file = HookFile(str(path), family, "user")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    return _read_toml(file, content) if path.suffix == ".toml" else read_json(file, content)


def _read(file: HookFile) -> Entries:
    """Reads the file once, so that the bytes that are judged are the bytes that are used."""
    if file.source == "user":
        return _read_own(file)
    try:
        content = read_plain_file(Path(os.path.realpath(file.folder)), os.path.relpath(file.path, file.folder))
    except ConfigError as error:
        return Entries(problems=(f"{file.path} was not read, so its hooks do not run: {error}",))
    if content is None:
        return Entries(problems=(f"{file.path} was not read, so its hooks do not run: it has to be a plain file, and no link",))
    if len(content) > _MOST_BYTES_OF_A_FOLDER:  # its author may be anybody
        return Entries(problems=(f"{file.path} is larger than {_MOST_BYTES_OF_A_FOLDER} bytes, so its hooks do not run",))
    return _read_toml(file, content) if file.path.endswith(".toml") else read_json(file, content)


def _read_own(file: HookFile) -> Entries:
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        return Entries(problems=(f"{file.path} cannot be read, so its hooks do not run: {error.strerror}",))
    if len(content) > _MOST_BYTES:
        return Entries(problems=(f"{file.path} is larger than {_MOST_BYTES} bytes, so its hooks do not run",))
    return read_json(file, content)


def _read_toml(file: HookFile, content: bytes) -> Entries:
    try:
        tree = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        return Entries(problems=(f"{file.path} is not TOML, so its hooks do not run: {error}",))
    return read_tree(file, cast(Mapping[str, Any], tree).get("hooks"))
