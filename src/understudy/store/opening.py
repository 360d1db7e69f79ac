"""The way to the store of conversations, wherever the configuration puts it. Today that is a file under the home."""

import asyncio
from pathlib import Path

from understudy.config.home import state_dir
from understudy.store.log import Store
from understudy.store.place import DATABASE, SEARCH_INDEX
from understudy.store.sqlite import SqliteLog


def open_store(home: Path, loop: asyncio.AbstractEventLoop | None = None) -> Store:
    """Make it where it is not there yet. What becomes of writes is told on `loop`, or, without one, on another thread.

    Raises `StoreError` with a text for people.
    """
    return SqliteLog(state_dir(home), loop)


def store_exists(home: Path) -> bool:
    """False where the first conversation is still to come."""
    return _database(home).exists()


def store_place(home: Path) -> str:
    """Where it is or will be, for people."""
    return str(_database(home))


def open_to_others(home: Path) -> tuple[str, ...]:
    """Files and folders of the store that other users may read or write, each with its mode."""
    folder = state_dir(home)
    expected = {folder: 0o700} | dict.fromkeys(sorted([*folder.glob(f"{DATABASE}*"), *folder.glob(f"{SEARCH_INDEX}*")]), 0o600)
    modes = {path: path.stat().st_mode & 0o777 for path in expected}
    return tuple(f"{path} (mode {mode:o}, expected {expected[path]:o})" for path, mode in modes.items() if mode & ~expected[path])


def _database(home: Path) -> Path:
    return state_dir(home) / DATABASE
