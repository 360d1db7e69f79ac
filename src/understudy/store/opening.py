"""Opens the store of conversations that is configured: a file under the home, or a database."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config.file import read_config_file
from understudy.config.home import state_dir
from understudy.errors import StoreError, how_to_add
from understudy.store.log import Store
from understudy.store.place import DATABASE, SEARCH_INDEX
from understudy.store.sqlite.event_log import SqliteLog

if TYPE_CHECKING:
    from understudy.config.store import StoreChoice


_TABLES = {"store", "cluster"}  # of [understudy]


def open_store(home: Path, loop: asyncio.AbstractEventLoop | None = None, *, host: str | None = None, front: bool = False) -> Store:
    """Open the store, and create it if it does not exist. Writes report on `loop`, or on another thread without one. For a
    database, `host` is the name of this machine there, and a `front` claims nothing.

    Does not connect to a database yet: whether that works shows at the first request. Raises `ConfigError`, or `StoreError` with
    a text for people.
    """
    choice = _choose(home)
    if choice is None or choice.url is None:
        return SqliteLog(state_dir(home), loop)
    try:
        from understudy.store.postgres.log import PostgresLog  # imported only if it is configured
    except ImportError as error:
        raise StoreError(f"conversation store: the driver of PostgreSQL is missing ({error}); {how_to_add('postgres')}") from None
    from understudy.config.store import read_workspaces

    loop = loop or asyncio.get_running_loop()
    return PostgresLog(
        state_dir(home),
        choice.url,
        loop,
        lease_seconds=choice.lease_seconds,
        host=host or choice.host_name,
        front=front,
        moves=read_workspaces(home, os.environ).snapshots is not None,
        audit_key=choice.audit_key,
    )


def _choose(home: Path) -> "StoreChoice | None":
    """None if nothing is configured, which is the usual case."""
    ours = read_config_file(home).tree.get("understudy")
    if "UNDERSTUDY_STORE_URL_FILE" not in os.environ and not (isinstance(ours, Mapping) and ours.keys() & _TABLES):
        return None
    from understudy.config.store import read_store_choice

    return read_store_choice(home, os.environ)


def store_exists(home: Path) -> bool:
    """False if there was no conversation yet."""
    return not is_file(home) or _database(home).exists()


def is_file(home: Path) -> bool:
    choice = _choose(home)
    return choice is None or choice.url is None


def store_place(home: Path) -> str:
    """Where the file is or will be, in words for people."""
    return str(_database(home))


def open_to_others(home: Path) -> tuple[str, ...]:
    """Files and folders of the store that other users may read or write, with their modes."""
    folder = state_dir(home)
    expected = {folder: 0o700} | dict.fromkeys(sorted([*folder.glob(f"{DATABASE}*"), *folder.glob(f"{SEARCH_INDEX}*")]), 0o600)
    modes = {path: path.stat().st_mode & 0o777 for path in expected if path.exists()}
    return tuple(f"{path} (mode {mode:o}, expected {expected[path]:o})" for path, mode in modes.items() if mode & ~expected[path])


def _database(home: Path) -> Path:
    return state_dir(home) / DATABASE
