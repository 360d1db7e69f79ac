"""Decides which hooks count in a folder, which do not, and why. This is read when a conversation begins in this process, and then
fixed.
"""

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from understudy.config.home import state_dir
from understudy.config.hooks.entries import Hook
from understudy.config.hooks.files import HookTrust, find_hooks
from understudy.engine.hooks.running import spelled_out
from understudy.errors import ConfigError
from understudy.places.resolving import is_within
from understudy.tools.acts.dependencies import depended_on
from understudy.tools.acts.wildcards import TooWide

Standing = Literal["user", "trusted", "untrusted", "modified"]
TRUST_FILE = "hooks.json"
MOST_NAMED = 10  # named hooks of one file that do not run


class JudgedHook(msgspec.Struct, frozen=True):
    hook: Hook
    standing: Standing
    digest: str
    enabled: bool = True

    @property
    def counts(self) -> bool:
        return self.enabled and self.standing in ("user", "trusted")


class LoadedHooks(msgspec.Struct, frozen=True):
    judged: tuple[JudgedHook, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Text for each start: broken or unknown entries, and hooks that nobody has trusted."""
        by_file: dict[str, list[JudgedHook]] = {}
        for each in self.judged:
            if each.standing in ("untrusted", "modified"):
                by_file.setdefault(each.hook.file.path, []).append(each)
        return (*self.problems, *(line for path, some in by_file.items() for line in _not_run(path, some)))


def load_hooks(
    cwd: Path,
    home: Path,
    env: Mapping[str, str],
    own_table: Mapping[str, Any],
    untrusted: Sequence[str] = (),
    *,
    only_to_run: bool = False,
) -> LoadedHooks:
    """`untrusted`: folders that the user's configuration marks so. `only_to_run`: untrusted hooks get a digest of their entry
    alone, so that the scripts of an untrusted folder are not read. Raises `ConfigError` for a file of ours.
    """
    found = find_hooks(cwd, home, env, own_table)
    trusted: dict[str, str] | None = None
    judged: list[JudgedHook] = []
    for hook in found.hooks:
        enabled = hook.key not in found.off
        if hook.file.source == "user":
            judged.append(JudgedHook(hook, "user", entry_digest(hook), enabled))
            continue
        if trusted is None:
            trusted = hook_trust(home).read()
        known = None if os.path.realpath(hook.file.folder) in untrusted else trusted.get(hook.key)
        digest = entry_digest(hook) if known is None and only_to_run else whole_digest(hook)
        standing: Standing = "untrusted" if known is None else "trusted" if digest == known else "modified"
        judged.append(JudgedHook(hook, standing, digest, enabled))
    return LoadedHooks(tuple(judged), found.problems)


def untrusted_folders(projects: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Real paths of the folders that the user's configuration marks as untrusted."""
    return tuple(os.path.realpath(path) for path, table in projects.items() if table.get("trust_level") == "untrusted")


def hook_trust(home: Path) -> HookTrust:
    return HookTrust(state_dir(home) / TRUST_FILE)


def trust_folder(folder: Path, home: Path, env: Mapping[str, str]) -> tuple[Hook, ...]:
    """Trust all hooks of this one folder as they are now."""
    hooks = [each for each in load_hooks(folder, home, env, {}).judged if each.hook.file.folder == str(folder)]
    if hooks:
        hook_trust(home).trust({each.hook.key: each.digest for each in hooks})
    return tuple(each.hook for each in hooks)


def distrust_folder(folder: Path, home: Path) -> None:
    """Withdraw the trust, whatever the file said when it was given."""
    trust = hook_trust(home)
    if keys := frozenset(key for key in trust.read() if is_within(key.rsplit(":", 3)[0], str(folder))):
        trust.distrust(keys)


def entry_digest(hook: Hook) -> str:
    return f"sha256:{hashlib.sha256(hook.entry).hexdigest()}"


def whole_digest(hook: Hook) -> str:
    """A digest of the entry and of the files in its folder that its command depends on. System programs are left out."""
    folder = hook.file.folder
    try:
        marks = depended_on(spelled_out(hook, folder), folder, os.environ.get("PATH", ""))
    except (TooWide, ConfigError):
        marks = {"": os.urandom(16).hex()}  # random, so it never matches: not all of the files could be watched
    digest = hashlib.sha256(hook.entry)
    real = os.path.realpath(folder)
    for path, mark in sorted(marks.items()):
        if not path or is_within(os.path.realpath(path), real):
            digest.update(f"\n{path}:{mark}".encode("utf-8", "surrogatepass"))
    return f"sha256:{digest.hexdigest()}"


def _not_run(path: str, some: Sequence[JudgedHook]) -> list[str]:
    """A notice for each hook, or one for all of them if there are too many to read."""
    if len(some) > MOST_NAMED:
        return [f"{len(some)} hooks of {path} do not run, because nobody has trusted them as they are: see `understudy hooks list`"]
    return [
        f"the hook {each.hook.key} does not run, because"
        f" {'it or its script has changed since you trusted it' if each.standing == 'modified' else 'nobody has trusted it'}."
        f" Look at it; `understudy hooks trust {shlex.quote(each.hook.key)}` lets it count"
        for each in some
    ]
