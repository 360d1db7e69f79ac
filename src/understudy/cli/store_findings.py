"""What `doctor` looks at in the store of conversations."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from understudy.errors import StoreError
from understudy.store.place import refuse_network_file_system
from understudy.store.sqlite import SqliteLog

StoreFinding = tuple[str, Literal["ok", "info", "warning", "broken"], str, tuple[str, ...]]
LITTLE_ROOM = 200 * 1024 * 1024


def examine_store(folder: Path) -> Iterator[StoreFinding]:
    """Name, level, text and details of each finding. A store that is not there yet is not made."""
    database = folder / "conversations.db"
    yield from _place(folder)
    if not database.exists():
        yield ("store", "info", f"{database}, which is made with the first conversation", ())
        yield _retention()
        return
    yield from _permissions(folder)
    try:
        log = SqliteLog(folder)
    except StoreError as error:
        yield ("store", "broken", str(error), ())
        return
    try:
        yield from _content(log, folder)
    except StoreError as error:
        yield ("store", "broken", str(error), ())
    finally:
        log.close()
    yield _retention()


def _place(folder: Path) -> Iterator[StoreFinding]:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        refuse_network_file_system(there)
    except StoreError as error:
        yield ("file system", "broken", str(error), ())
    if not os.access(there, os.W_OK):
        yield ("folder", "broken", f"{there} cannot be written to; set CODEX_HOME to a folder of your own", ())
    free = shutil.disk_usage(there).free
    if free < LITTLE_ROOM:
        yield ("disk", "warning", f"only {_size(free)} are free where conversations are kept", ())


def _permissions(folder: Path) -> Iterator[StoreFinding]:
    open_to_others = [
        f"{path} (mode {mode:o}, expected {expected:o})"
        for path, expected in ((folder, 0o700), *((file, 0o600) for file in sorted(folder.glob("conversations.db*"))))
        if (mode := path.stat().st_mode & 0o777) & ~expected
    ]
    if open_to_others:
        yield ("permissions", "warning", "others may read conversations", tuple(open_to_others))
    else:
        yield ("permissions", "ok", "readable by you only", ())
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        yield ("owner", "warning", f"{folder} belongs to user {owner}, and you are {os.geteuid()}", ())


def _content(log: SqliteLog, folder: Path) -> Iterator[StoreFinding]:
    count = log.count()
    size = f"{count} conversation{'' if count == 1 else 's'}, {_size(log.size())} in {log.path}"
    yield ("store", "ok", size, ())
    damage = log.check()
    if damage == "ok":
        yield ("integrity", "ok", "checked, no damage", ())
    else:
        yield (
            "integrity",
            "broken",
            "damaged; put a backup in its place, or export what can still be read",
            tuple(damage.split("\n")),
        )
    private = sum(_folder_size(path) for path in (folder / "tmp").glob("*"))
    if private:
        yield ("temporary files", "info", f"{_size(private)} in {folder / 'tmp'}, removed with their conversations", ())


def _retention() -> StoreFinding:
    text = "nothing is deleted by itself; `understudy conversations delete ID` forgets one, `understudy backup FILE` copies all"
    return ("retention", "info", text, ())


def _folder_size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total


def _size(number: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1024 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError
