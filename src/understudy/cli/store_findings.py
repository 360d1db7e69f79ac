"""What `doctor` looks at in the store of conversations."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from understudy.cli.finding import Finding
from understudy.cli.waiting import wait_for
from understudy.config.home import state_dir
from understudy.errors import StoreError
from understudy.store.log import Store
from understudy.store.opening import is_file, open_store, open_to_others, store_exists, store_place
from understudy.store.place import refuse_network_file_system

SECTION = "Conversations"
LITTLE_ROOM = 200 * 1024 * 1024
NO_ROOM = 8 * 1024 * 1024
LITTLE_NODES = 1000
SAMPLE = 20_000  # records that are read unless all are to be


def examine_store(home: Path, *, full: bool) -> Iterator[Finding]:
    """A store that is not there yet is not made."""
    folder = state_dir(home)
    if not is_file(home):
        yield from wait_for(lambda: _read(home, folder, full=full))
        return
    yield from _place(folder)
    if not store_exists(home):
        yield Finding(SECTION, "store", "info", f"{store_place(home)}, which is made with the first conversation")
        yield _retention()
        return
    yield from _permissions(home, folder)
    yield from wait_for(lambda: _read(home, folder, full=full))


async def _read(home: Path, folder: Path, *, full: bool) -> list[Finding]:
    found: list[Finding] = []
    try:
        log = open_store(home, asyncio.get_running_loop())
    except StoreError as error:
        return [Finding(SECTION, "store", "broken", str(error))]
    try:
        async for finding in _content(log, folder, full=full):
            found.append(finding)  # noqa: PERF401  # those that come before a failure count
    except StoreError as error:
        found.append(Finding(SECTION, "store", "broken", str(error)))
    finally:
        log.close()
    return [*found, _retention()]


def _place(folder: Path) -> Iterator[Finding]:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        refuse_network_file_system(there)
    except StoreError as error:
        yield Finding(SECTION, "file system", "broken", str(error))
    if not os.access(there, os.W_OK):
        yield Finding(SECTION, "folder", "broken", f"{there} cannot be written to; set CODEX_HOME to a folder of your own")
    space = os.statvfs(there)
    free = space.f_bavail * space.f_frsize
    if free < LITTLE_ROOM:
        text = f"only {_size(free)} are free where conversations are kept ({there}): make room there"
        yield Finding(SECTION, "disk", "broken" if free < NO_ROOM else "warning", text)
    if space.f_files and space.f_favail < LITTLE_NODES:
        yield Finding(SECTION, "disk", "warning", f"only {space.f_favail} files can still be made in {there}: remove some there")


def _permissions(home: Path, folder: Path) -> Iterator[Finding]:
    exposed = open_to_others(home)
    if exposed:
        text = f"others may read conversations: chmod -R go= {folder}"
        yield Finding(SECTION, "permissions", "warning", text, exposed)
    else:
        yield Finding(SECTION, "permissions", "ok", "readable by you only")
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        yield Finding(SECTION, "owner", "warning", f"{folder} belongs to user {owner}, and you are {os.geteuid()}")


async def _content(log: Store, folder: Path, *, full: bool) -> AsyncIterator[Finding]:
    count = await log.count()
    size = f"{count} conversation{'' if count == 1 else 's'}, {_size(await log.size())} in {log.place}"
    yield Finding(SECTION, "store", "ok", size)
    damage = await log.check()
    if damage == "ok":
        yield Finding(SECTION, "integrity", "ok", "checked, no damage")
    else:
        text = "damaged; put a backup in its place, or export what can still be read"
        yield Finding(SECTION, "integrity", "broken", text, tuple(damage.split("\n")))
    yield await _records(log, full=full)
    private = sum(_folder_size(path) for path in (folder / "tmp").glob("*"))
    if private:
        yield Finding(SECTION, "temporary files", "info", f"{_size(private)} in {folder / 'tmp'}, removed with their conversations")


async def _records(log: Store, *, full: bool) -> Finding:
    verified = await log.verify(None if full else SAMPLE)
    if verified.problems:
        text = (
            f"damage in {verified.damaged} conversation{'' if verified.damaged == 1 else 's'}; put a backup in the place of "
            f"{log.place} while no server runs, or `understudy conversations delete` what is damaged"
        )
        return Finding(SECTION, "records", "broken", text, verified.problems)
    if verified.records < verified.total:
        text = f"{verified.records} of {verified.total} read, no damage; `understudy doctor --full` reads all"
        return Finding(SECTION, "records", "ok", text)
    return Finding(SECTION, "records", "ok", f"all {verified.total} read, no damage")


def _retention() -> Finding:
    text = "nothing is deleted automatically; `understudy conversations delete ID` forgets one, `understudy backup FILE` copies all"
    return Finding(SECTION, "retention", "info", text)


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
