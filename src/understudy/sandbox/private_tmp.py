"""A conversation's own /tmp: its limits, checked after each command, and its removal.

While a command runs, its watcher checks the same limits, but a command can be quicker. A folder over its limits is cleared here,
because it would stop every later command, too.
"""

import asyncio
import logging
import os

from understudy.sandbox.cell import trees
from understudy.sandbox.cell.guards import Room, is_below, room, wanted_room
from understudy.sandbox.cell.plan import Plan

logger = logging.getLogger(__name__)

_MEGABYTE = 1 << 20
_FRACTION = 16  # of a limit: how much may be added before the folder is measured
_FEW_FILES = 4096  # files counted after every command; more only if the disk has less free space than before
_VERY_FEW_FILES = 16  # files counted without a thread, which would take longer to start
_MOST_KNOWN = 4096
_PATIENCE = 2.0  # seconds that a caller waits for files to be removed
_UNKNOWN: Room = (1 << 62, 1 << 62)


_removals: set[asyncio.Task[bool]] = set()  # keeps the tasks from being garbage-collected before they end


async def remove_folder(path: str) -> None:
    """Remove the folder of a deleted conversation. It vanishes at once; removing its content may take longer."""
    folder = os.path.dirname(path)
    await asyncio.to_thread(trees.set_aside, path)
    task = asyncio.ensure_future(asyncio.to_thread(trees.remove_set_aside, folder))
    _removals.add(task)
    task.add_done_callback(_note_removal)
    await asyncio.wait([task], timeout=_PATIENCE)


def _note_removal(task: asyncio.Task[bool]) -> None:
    _removals.discard(task)
    if not task.cancelled() and not task.result():
        logger.warning("some files of a deleted conversation could not be removed")


class PrivateFolders:
    """Remembers by how much the disk of each folder has shrunk since the folder was measured. Measuring takes time."""

    def __init__(self) -> None:
        self._added: dict[bytes, Room] = {}

    def before(self, plan: Plan) -> Room | None:
        """Call it before a command starts. None if the command has no such folder."""
        path = plan.private_tmp
        if not path or not (plan.tmp_mb or plan.tmp_files or plan.disk_free_mb):
            return None
        if path not in self._added:
            if len(self._added) >= _MOST_KNOWN:
                self._added.clear()
            self._added[path] = (0, 0) if _is_empty(path) else _UNKNOWN
        return room(path)

    async def after(self, plan: Plan, before: Room | None) -> str | None:
        """Call it once the command has ended. Returns why the folder was cleared, if it was."""
        if before is None:
            return None
        if _is_empty(plan.private_tmp):
            self._added[plan.private_tmp] = (0, 0)
            return None
        if self._may_be_over(plan, before):
            return await asyncio.to_thread(self._judge, plan, _limits(plan)[1])
        if self._is_small(plan):
            return None
        return await asyncio.to_thread(self._judge, plan, _FEW_FILES)

    def _is_small(self, plan: Plan) -> bool:
        """Whether the folder has very few files and is within its limits. It is after most commands."""
        path, most = plan.private_tmp, _limits(plan)
        try:
            used = trees.measure(path, most_bytes=most[0], most_files=_VERY_FEW_FILES, open_all=True)
        except OSError:
            return False
        if used[0] > most[0] or used[1] > min(most[1], _VERY_FEW_FILES):
            return False
        self._added[path] = (0, 0)
        return True

    def _may_be_over(self, plan: Plan, before: Room) -> bool:
        """Judged by the disk's free space. May be wrong either way, because others use the disk, too."""
        path = plan.private_tmp
        now, added = room(path), self._added.get(path, _UNKNOWN)
        added = (added[0] + max(0, before[0] - now[0]), added[1] + max(0, before[1] - now[1]))
        self._added[path] = added
        most = _limits(plan)
        return added[0] > most[0] // _FRACTION or added[1] > most[1] // _FRACTION or _is_short(plan)

    def _judge(self, plan: Plan, most_files: int) -> str | None:
        path, most = plan.private_tmp, _limits(plan)
        try:
            used = trees.measure(path, most_bytes=most[0], most_files=min(most[1], most_files), open_all=True)
        except OSError:
            return None
        if used[0] <= most[0] and most_files < used[1] <= most[1]:
            return None  # not all was counted
        self._added[path] = (0, 0)
        if used[0] > most[0]:
            reason = f"it held more than {plan.tmp_mb} MB"
        elif used[1] > most[1]:
            reason = f"it held more than {plan.tmp_files} files"
        elif _is_short(plan) and is_below(room(path), used):
            reason = "its disk had too little room left"
        else:
            return None
        if not trees.empty(path):
            logger.warning("some of %s could not be removed", os.fsdecode(path))
        return reason


def _limits(plan: Plan) -> Room:
    return (plan.tmp_mb * _MEGABYTE or 1 << 62, plan.tmp_files or 1 << 62)


def _is_short(plan: Plan) -> bool:
    return plan.disk_free_mb > 0 and is_below(room(plan.private_tmp), wanted_room(plan.private_tmp, plan.disk_free_mb))


def _is_empty(path: bytes) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return True
