"""The sandbox settings and their defaults: what commands may write, reach and read when nothing is said."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from understudy.config.home import expand, state_dir, user_home
from understudy.config.model import Limits, SandboxSettings
from understudy.config.schema import Reader
from understudy.protocol.choices import NETWORK_MODES, SANDBOX_MODES, NetworkMode, SandboxMode

DEFAULT_MASK = ("~/.ssh", "~/.aws", "~/.gnupg")
DEFAULT_PROTECT = (".git", ".codex", ".agents", ".mcp.json")

_FOLDERS_OF_HOMES = ("/home", "/Users")


def read_sandbox(read: Reader, chosen: SandboxMode | None, *, home: Path, cwd: Path, env: Mapping[str, str]) -> SandboxSettings:
    mode = chosen or cast(SandboxMode | None, read.choice("sandbox_mode", SANDBOX_MODES)) or default_mode(cwd, env)
    state = state_dir(home)
    mask = read.texts("understudy.sandbox.mask")
    protect = read.texts("understudy.sandbox.protect")
    return SandboxSettings(
        mode=mode,
        writable_roots=tuple(
            expand(root, base=cwd, env=env) for root in read.texts("sandbox_workspace_write.writable_roots") or () if root
        ),
        network=_read_network(read, mode),
        unix_sockets=read.flag("understudy.sandbox.unix_sockets") or False,
        exclude_tmpdir_env_var=read.flag("sandbox_workspace_write.exclude_tmpdir_env_var") or False,
        exclude_slash_tmp=read.flag("sandbox_workspace_write.exclude_slash_tmp") or False,
        # our own things stay hidden and unwritten, whatever the lists say: the log, the credentials, and a configuration that may
        # hold some too
        mask=_distinct(
            (state, home / "auth.json", home / "config.toml", *_masked(DEFAULT_MASK if mask is None else mask, cwd, env))
        ),
        protect=tuple(
            dict.fromkeys((*_protected(DEFAULT_PROTECT if protect is None else protect, env), *_our_places(home, state, cwd)))
        ),
        limits=_read_limits(read),
    )


def _our_places(home: Path, state: Path, cwd: Path) -> tuple[str, ...]:
    """All of the home folder; where somebody works in it, at least what decides over us."""
    return (str(state), str(home / "config.toml"), str(home / "auth.json")) if cwd.is_relative_to(home) else (str(state), str(home))


def default_mode(cwd: Path, env: Mapping[str, str]) -> SandboxMode:
    """`workspace-write` for a folder that looks like a project, `read-only` for one where writing at will would do harm."""
    real = os.path.realpath(cwd)
    mine = os.path.realpath(user_home(env))
    is_above_home = mine == real or mine.startswith(real.rstrip("/") + "/")
    is_a_home = os.path.dirname(real) in _FOLDERS_OF_HOMES
    if is_above_home or is_a_home or real == "/" or os.stat(real).st_uid != os.geteuid():
        return "read-only"
    return "workspace-write"


def _read_network(read: Reader, mode: SandboxMode) -> NetworkMode:
    ours = read.choice("understudy.sandbox.network", NETWORK_MODES)
    allowed = read.flag("sandbox_workspace_write.network_access")
    match mode:
        case "danger-full-access":
            return "on"  # nothing is contained there
        case "workspace-write":
            return cast(NetworkMode, ours or ("on" if allowed else "off"))
        case "read-only":
            return cast(NetworkMode, ours or "off")


def _read_limits(read: Reader) -> Limits:
    key = "understudy.sandbox.limits"
    return Limits(
        seconds=read.count(f"{key}.seconds") or None,
        processes=read.count(f"{key}.processes"),
        memory_mb=read.count(f"{key}.memory_mb"),
        file_mb=read.count(f"{key}.file_mb"),
    )


def _masked(entries: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> list[Path]:
    return [expand(entry, base=cwd, env=env) for entry in entries if entry]


def _protected(entries: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    """A relative entry stays a name, because it holds in every writable root."""
    kept = [entry.rstrip("/") or "/" for entry in entries if entry]
    return [str(expand(entry, base=Path(), env=env)) if entry.startswith("~") else entry for entry in kept]


def _distinct(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
