"""The sandbox's settings and defaults: what commands may write, reach and read; and our own program, in case a command could change
it.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from understudy.config.home import expand, state_dir, user_home
from understudy.config.model import Config, Limits, SandboxSettings
from understudy.config.project import agents_home, claude_home, project_folders
from understudy.config.schema import TreeReader
from understudy.places import masks
from understudy.places.places import Places, pin_places
from understudy.places.resolving import is_within
from understudy.places.walking import real_paths
from understudy.protocol.choices import NETWORK_MODES, SANDBOX_MODES, NetworkMode, SandboxMode
from understudy.protocol.records import Pins


def own_code(roots: Iterable[str]) -> tuple[str, ...]:
    """Our own folders and files inside the roots, real and absolute, without those inside another one."""
    real_roots = real_paths(roots)
    parts = (
        os.path.dirname(os.path.dirname(__file__)),
        *(sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable, sys.pycache_prefix or ""),
        *sys.path,
    )
    absolute = [part for part in parts if os.path.isabs(part)]
    found = {*map(os.path.normpath, absolute), *real_paths(absolute)}
    inside = {path for path in found if any(path != root and is_within(path, root) for root in real_roots)}
    return tuple(sorted(path for path in inside if not any(path != other and is_within(path, other) for other in inside)))


def load_nothing_from(roots: Sequence[str]) -> None:
    """Stop importing modules from writable roots. Our own are found through the package."""
    folders = {*roots, *map(_identity, roots)} - {None}
    sys.path[:] = [entry for entry in sys.path if entry not in folders and _identity(entry) not in folders]


def _identity(path: str) -> tuple[int, int] | None:
    """Used for every conversation; real paths would take six times as long."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


_OPENED = "!"  # before an entry: removes it from the defaults
_WILDCARDS = frozenset("*?[")

MOST_PROCESSES = 4_000_000  # about as many as Linux can count
MOST_MEGABYTES = 1 << 40  # the most that the system accepts, in bytes

_FOLDERS_OF_HOMES = ("/home", "/Users")

# The user's own files that can make anything run, or that instruct all models.
_DECIDING = ("config.toml", "auth.json", "hooks.json", "AGENTS.md", "AGENTS.override.md", "skills", "prompts", "rules", "hooks")
_DECIDING_OF_CLAUDE = (
    "settings.json",
    "settings.local.json",
    "CLAUDE.md",
    "rules",
    "skills",
    "commands",
    "agents",
    "plugins",
    "hooks",
)


class _Spelled:
    """The paths of the latest settings, as text: conversations share the settings, and there may be many paths."""

    def __init__(self) -> None:
        self._known: tuple[SandboxSettings | None, tuple[str, ...], tuple[str, ...]] = None, (), ()  # set together

    def __call__(self, settings: SandboxSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of the roots, and of the masks."""
        known, roots, masked = self._known
        if known is not settings:
            roots, masked = tuple(map(str, settings.writable_roots)), tuple(map(str, settings.mask))
            self._known = settings, roots, masked
        return roots, masked


_spelled = _Spelled()


def places_of(config: Config, known: Pins | None = None) -> Places:
    """The places that a conversation's configuration names: as pinned in `known`, else as they are now."""
    sandbox, cwd = config.sandbox, str(config.cwd)
    roots, masked = _spelled(sandbox)
    load_nothing_from((cwd, *roots))
    return pin_places(
        cwd,
        roots,
        masked=masked,
        protected=sandbox.protect,
        contained=config.plans or sandbox.mode != "danger-full-access",
        known=known,
    )


def read_sandbox(read: TreeReader, chosen: SandboxMode | None, *, home: Path, cwd: Path, env: Mapping[str, str]) -> SandboxSettings:
    mode = chosen or cast(SandboxMode | None, read.choice("sandbox_mode", SANDBOX_MODES)) or default_mode(cwd, env)
    state = state_dir(home)
    mask = _chosen(read.texts("understudy.sandbox.mask"), masks.MASK)
    wanted = _read_protect(read)
    protect = _chosen(wanted, masks.PROTECT)
    writable = tuple(expand(root, base=cwd, env=env) for root in read.texts("sandbox_workspace_write.writable_roots") or () if root)
    roots = (str(cwd), *map(str, writable))
    ours = [path for path in own_code(roots) if _OPENED + path not in (wanted or ())]
    keys = _keys_of_a_server(read, home, env)
    own = _deciding_places(home, cwd, env, roots)
    told = _instructions(read, wanted)
    guarded = (*_protected(protect, env), *told, *_start_up(protect, roots, env), str(state), *own, *map(str, keys), *ours)
    return SandboxSettings(
        mode=mode,
        writable_roots=writable,
        network=_read_network(read, mode),
        unix_sockets=read.flag("understudy.sandbox.unix_sockets") or False,
        exclude_tmpdir_env_var=read.flag("sandbox_workspace_write.exclude_tmpdir_env_var") or False,
        exclude_slash_tmp=read.flag("sandbox_workspace_write.exclude_slash_tmp") or False,
        # our own files stay hidden and protected, whatever the lists say: the log, the credentials, and a configuration that may
        # contain
        # some, too
        mask=_distinct((state, home / "auth.json", home / "config.toml", *keys, *_masked(mask, cwd, roots, env))),
        protect=tuple(dict.fromkeys(guarded)),
        kept=told,
        opened=tuple(entry[1:].rstrip("/") for entry in wanted or () if entry.startswith(_OPENED)),
        limits=_read_limits(read),
    )


def _chosen(given: tuple[str, ...] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """The user's list instead of ours; if it contains `!NAME`, our list without that, plus the rest."""
    if given is None:
        return default
    opened = {entry[1:].rstrip("/") for entry in given if entry.startswith(_OPENED)}
    if not opened:
        return given
    return (*(entry for entry in default if entry not in opened), *(entry for entry in given if not entry.startswith(_OPENED)))


def _instructions(read: TreeReader, protect: tuple[str, ...] | None) -> tuple[str, ...]:
    """Files that the user reads instead of AGENTS.md are protected like it: where they exist, unless the user lists them with
    `!`."""
    names = read.texts("project_doc_fallback_filenames") or ()
    return tuple(name for name in names if name and _OPENED + name not in (protect or ()))


def _start_up(protect: tuple[str, ...], roots: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    """In a writable home folder, missing files that shells read cannot be created either."""
    folder = os.path.realpath(user_home(env))
    if not any(is_within(folder, os.path.realpath(root)) for root in roots):
        return []
    return [os.path.join(folder, name) for name in masks.START_UP if name in protect]


def _deciding_places(home: Path, cwd: Path, env: Mapping[str, str], roots: Iterable[str]) -> list[str]:
    """The folders with the user's own files; if somebody works inside one, at least the files that control us.

    Programs that run with the user's rights, and files for all models, may be links to a place in a root; such places count, too.
    """
    folders = (
        (str(home), _DECIDING),
        (os.path.normpath(claude_home(env)), _DECIDING_OF_CLAUDE),
        (os.path.normpath(agents_home(env)), ("skills",)),
    )
    found: list[str] = []
    for folder, names in folders:
        found += [f"{folder}/{name}" for name in names]
        found += [] if is_within(str(cwd), folder) else [folder]
    real_roots = real_paths(roots)
    inside = [path for path in (*found, *real_paths(found)) if any(is_within(path, root) for root in (*roots, *real_roots))]
    always = () if is_within(str(cwd), str(home)) else (str(home),)
    return list(dict.fromkeys((*always, *inside)))


def _keys_of_a_server(read: TreeReader, home: Path, env: Mapping[str, str]) -> list[Path]:
    """With the server's token or socket, a command could approve for itself; with the TLS key somebody could impersonate the
    server; with the database's address and the key of the seals, it could write conversations.
    """
    named = [read.text(f"understudy.serve.{name}") for name in ("token_file", "tls_key", "unix")]
    ours = read.value("understudy")
    if "UNDERSTUDY_STORE_URL_FILE" in env or (isinstance(ours, dict) and ("store" in ours or "cluster" in ours)):
        from understudy.config.store import files_of  # few configurations have any

        named += files_of(read, env)
    return [expand(text, base=home, env=env) for text in named if text]


def default_mode(cwd: Path, env: Mapping[str, str]) -> SandboxMode:
    """`workspace-write` for a folder that looks like a project, `read-only` for one where free writing could do harm."""
    real = os.path.realpath(cwd)
    mine = os.path.realpath(user_home(env))
    is_above_home = mine == real or mine.startswith(real.rstrip("/") + "/")
    is_a_home = os.path.dirname(real) in _FOLDERS_OF_HOMES
    if is_above_home or is_a_home or real == "/" or os.stat(real).st_uid != os.geteuid():
        return "read-only"
    return "workspace-write"


def _read_network(read: TreeReader, mode: SandboxMode) -> NetworkMode:
    ours = read.choice("understudy.sandbox.network", NETWORK_MODES)
    allowed = read.flag("sandbox_workspace_write.network_access")
    match mode:
        case "danger-full-access":
            return "on"  # this mode contains nothing
        case "workspace-write":
            return cast(NetworkMode, ours or ("on" if allowed else "off"))
        case "read-only":
            return cast(NetworkMode, ours or "off")


def _read_limits(read: TreeReader) -> Limits:
    key = "understudy.sandbox.limits"
    return Limits(
        seconds=read.count(f"{key}.seconds") or None,
        processes=_read_at_most(read, f"{key}.processes", MOST_PROCESSES),
        memory_mb=_read_at_most(read, f"{key}.memory_mb", MOST_MEGABYTES),
        file_mb=_read_at_most(read, f"{key}.file_mb", MOST_MEGABYTES),
        tmp_mb=read.count(f"{key}.tmp_mb"),
        tmp_files=read.count(f"{key}.tmp_files"),
    )


def _read_at_most(read: TreeReader, key: str, most: int) -> int | None:
    number = read.count(key)
    if number is not None and number > most:
        raise read.mismatch(key, f"invalid value: integer `{number}`", f"a whole number from 0 (no limit) to {most}")
    return number


def _read_protect(read: TreeReader) -> tuple[str, ...] | None:
    """A name that leads out of the writable folders, or to the folder itself, would protect nothing; neither would a pattern."""
    entries = read.texts("understudy.sandbox.protect")
    for entry in entries or ():
        parts = entry.removeprefix(_OPENED).split("/")
        leads_elsewhere = ".." in parts or not any(part not in ("", ".") for part in parts)
        if _WILDCARDS.intersection(entry) or (leads_elsewhere and parts[0] and not parts[0].startswith("~")):
            wanted = "names within the writable folders, such as `.git`, or absolute paths; patterns are not understood"
            raise read.mismatch("understudy.sandbox.protect", f"invalid value: `{entry}`", wanted)
    return entries


def _masked(entries: tuple[str, ...], cwd: Path, roots: tuple[str, ...], env: Mapping[str, str]) -> list[Path]:
    """A relative entry applies to every writable folder, like a protected name, and to the project around the working directory, so
    that a conversation in a subfolder sees no more of it.
    """
    masked: list[Path] = []
    folders: list[Path] = []
    for entry in filter(None, entries):
        if entry.startswith(("~", "/")):
            masked.append(expand(entry, base=cwd, env=env))
            continue
        folders = folders or [Path(folder) for folder in dict.fromkeys((*roots, *project_folders(str(cwd))))]
        masked += [folder / entry for folder in folders]
    return masked


def _protected(entries: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    """A relative entry stays a name, because it applies to every writable root."""
    kept = [entry.rstrip("/") or "/" for entry in entries if entry]
    return [str(expand(entry, base=Path(), env=env)) if entry.startswith("~") else entry for entry in kept]


def _distinct(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))
