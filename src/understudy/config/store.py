"""Where conversations are kept: [understudy.store] of config.toml. Servers that share them name the same database.

Neither a caller nor a project or profile can choose it, because conversations in an unexpected place would be lost to their users.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from understudy.config.file import read_config_file
from understudy.config.home import STATE_FOLDER, expand
from understudy.config.named_file import read_named_file
from understudy.config.schema import Mismatch, TreeReader
from understudy.errors import ConfigError

VARIABLE = "UNDERSTUDY_STORE_URL_FILE"  # overrides the file: machines with the same one can mount a secret
SQLITE = "sqlite"
SCHEMES = ("postgresql://", "postgres://")
LEASE_SECONDS = 15.0
SHORTEST_LEASE = 2.0
MOST_LETTERS = 63
HOST_NAME_WANTED = "a name of letters, digits, `.`, `_` and `-`, 63 at most"
_MOST_BYTES = 4096
_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!//)")
_WANTED = '"sqlite", or the address of a database such as "postgresql://understudy@db.internal/understudy"'


class StoreChoice(msgspec.Struct, frozen=True):
    url: str | None = None  # None: SQLite, in the state folder
    lease_seconds: float = LEASE_SECONDS
    audit_key: Path | None = None  # for the seals; None: in the state folder
    host_name: str | None = None  # of this machine, in the database; None: as the system says


WORKSPACE_SECONDS = 600.0
WORKSPACE_MB = 4096


class WorkspaceSettings(msgspec.Struct, frozen=True):
    """How workspaces are made for conversations."""

    folder: Path  # in which they are made
    snapshots: str | None = None  # a repository, by its address or path; None: they are not saved
    also: tuple[str, ...] = ()  # files and folders in them that are saved although git ignores them
    urls: tuple[str, ...] | None = None  # how addresses must begin to be cloned; None: any address, for unrestricted callers
    seconds: float = WORKSPACE_SECONDS  # time for making one
    most_mb: int = WORKSPACE_MB


def files_of(read: TreeReader, env: Mapping[str, str]) -> list[str | None]:
    """Files that no command may read. Raises `Mismatch`."""
    snapshots = read.text("understudy.cluster.snapshots")  # snapshots of all conversations
    kept = snapshots if snapshots is not None and _is_path(snapshots) else None
    return [env.get(VARIABLE), read.text("understudy.store.url_file"), read.text("understudy.cluster.audit_key_file"), kept]


_OURS = StoreChoice()


def read_store_choice(home: Path, env: Mapping[str, str]) -> StoreChoice:
    """Raises `ConfigError` that contains no address, because an address may contain a password."""
    tree = read_config_file(home).tree.get("understudy")
    if VARIABLE not in env and (not isinstance(tree, Mapping) or not ("store" in tree or "cluster" in tree)):
        return _OURS
    file = read_config_file(home)
    for slip in file.slips:
        if slip.severe and slip.key.startswith("understudy.store."):  # otherwise conversations would begin in the wrong place
            raise ConfigError(f"`{slip.key}` in {file.path} {slip.word}")
    try:
        return _choice(home, TreeReader(file.tree), env)
    except Mismatch as slip:
        raise ConfigError(f"{slip.complaint}\nin `{slip.key}`\n`{slip.key}` should be {slip.wanted}.") from None


def check_store(home: Path, read: TreeReader) -> None:
    """Checks it as part of a conversation's configuration. Raises `Mismatch`."""
    _choice(home, read, {}, reads_file=False)
    _workspaces(home, read, {})
    for table in ("understudy.store", "understudy.cluster"):
        if read.value(table) != TreeReader(read_config_file(home).tree).value(table):
            raise Mismatch(table, "it can be set only in config.toml itself: it holds for the whole server", "left out here")


def _choice(home: Path, read: TreeReader, env: Mapping[str, str], *, reads_file: bool = True) -> StoreChoice:
    lease = read.amount("understudy.cluster.lease_seconds")
    if lease is not None and lease < SHORTEST_LEASE:
        complaint = f"invalid value: `{lease:g}`"
        raise Mismatch("understudy.cluster.lease_seconds", complaint, f"a number of seconds, {SHORTEST_LEASE:g} or more")
    url, file = read.text("understudy.store.url"), read.text("understudy.store.url_file")
    if url is not None and file is not None:
        raise Mismatch("understudy.store.url_file", "`url` is set, too, and only one of them can hold", "left out, or `url`")
    if url is not None and not (url == SQLITE or url.startswith(SCHEMES)):
        raise Mismatch("understudy.store.url", "invalid value: it is no address of a store", _WANTED)
    named = env.get(VARIABLE) or file
    if named and reads_file:
        url = _in_file(expand(named, base=home, env=env), VARIABLE if env.get(VARIABLE) else "understudy.store.url_file")
    host_name = read.text("understudy.cluster.host_name")
    if host_name is not None and not is_host_name(host_name):
        raise Mismatch("understudy.cluster.host_name", f"invalid value: `{host_name}`", HOST_NAME_WANTED)
    key = read.text("understudy.cluster.audit_key_file")
    audit_key = expand(key, base=home, env=env) if key else None
    return StoreChoice(None if url in (None, SQLITE) else url, LEASE_SECONDS if lease is None else lease, audit_key, host_name)


def is_host_name(text: str) -> bool:
    return 0 < len(text) <= MOST_LETTERS and all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in text)


def _in_file(path: Path, key: str) -> str:
    try:
        url = read_named_file(path, _MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Mismatch(key, f"{path} cannot be read: {reason}", "the path of a file that holds the address of a database") from None
    if not (url == SQLITE or url.startswith(SCHEMES)):
        raise Mismatch(key, f"{path} holds no address of a store", f"the path of a file that holds {_WANTED}")
    return url


# -- workspaces


def read_workspaces(home: Path, env: Mapping[str, str]) -> WorkspaceSettings:
    """Raises `ConfigError`."""
    try:
        return _workspaces(home, TreeReader(read_config_file(home).tree), env)
    except Mismatch as slip:
        raise ConfigError(f"{slip.complaint}\nin `{slip.key}`\n`{slip.key}` should be {slip.wanted}.") from None


def _workspaces(home: Path, read: TreeReader, env: Mapping[str, str]) -> WorkspaceSettings:
    key = "understudy.cluster."
    folder = expand(read.text(f"{key}workspaces") or "workspaces", base=home, env=env)
    state = home / STATE_FOLDER
    if folder.is_relative_to(state):
        raise Mismatch(f"{key}workspaces", "invalid value: no command can see what lies there", f"a folder outside {state}")
    snapshots = read.text(f"{key}snapshots") or None
    if snapshots is not None and _has_password(snapshots):
        wanted = "an address without a password: leave that to ssh, or to a credential helper of git"
        raise Mismatch(f"{key}snapshots", "invalid value: it holds a password", wanted)
    if snapshots is not None and _is_path(snapshots):
        snapshots = str(expand(snapshots, base=home, env=env))
    also = read.texts(f"{key}snapshot_also") or ()
    for name in also:
        if name.startswith("/") or ".." in name.split("/") or not name.strip("/"):
            wanted = "files and folders of a workspace, such as `.env.test` or `build`"
            raise Mismatch(f"{key}snapshot_also", f"invalid value: `{name}`", wanted)
    seconds, most = read.amount(f"{key}workspace_seconds"), read.count(f"{key}workspace_mb")
    urls = read.texts(f"{key}workspace_urls")
    return WorkspaceSettings(folder, snapshots, also, urls, seconds or WORKSPACE_SECONDS, most or WORKSPACE_MB)


def _is_path(repository: str) -> bool:
    return "://" not in repository and not _SCP.match(repository)


def _has_password(url: str) -> bool:
    scheme, separator, rest = url.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    return bool(separator and at and (":" in user or scheme != "ssh"))
