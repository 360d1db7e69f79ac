"""What may be read beside masked paths, put into one ruleset of Landlock for commands that are alike.

It takes a rule for each name beside each way to a masked path, which can be hundreds. So the helper makes them once, after the
second such command, and the cells of later ones inherit the ruleset. Each adds what is its own: the roots, and what is mounted
anew for it. A ruleset holds only as long as nothing has moved in the folders on those ways: the kernel tells of that before
whoever moved it can ask for a command.
"""

import os
import select

from understudy.places.file_systems import FileSystems

from . import kernel, landlock
from .plan import Plan
from .roots import beneath_any

_MOST_KEPT = 4
_MOST_NEEDED = 8  # where commands of more conversations than that take turns, none is made in vain
_MOST_USES = 200  # each cell adds rules, which the next ones inherit
_MOVES = kernel.IN_CREATE | kernel.IN_DELETE | kernel.IN_MOVED_FROM | kernel.IN_MOVED_TO
_OWN = (b"/dev", b"/proc")  # and the folders that every cell covers

# Of a command: what a ruleset for it depends on. Only commands with the same roots may have one in common.
Need = tuple[bytes, ...]


def ways_to(hidden: "list[bytes]") -> "list[bytes]":
    """Every folder above these paths that does not itself lie in one of them, the shortest first."""
    ways = {b"/"}
    for path in hidden:
        parent = os.path.dirname(path)
        while parent not in ways:
            ways.add(parent)
            parent = os.path.dirname(parent)
    return sorted([way for way in ways if not beneath_any(way, hidden)], key=len)


def allow_reading_beside(rules: landlock.Ruleset, hidden: "list[bytes]", own: "list[bytes] | None" = None) -> None:
    """Grant reading of everything beside the ways to hidden paths: a right can be granted, never taken back below.

    But for those of `own`, which look different in every cell.
    """
    ways = ways_to(hidden)
    kept = {*ways, *hidden, *(own or ())}
    for folder in ways:
        prefix = folder.rstrip(b"/") + b"/"
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if prefix + entry.name not in kept and not entry.is_symlink()]
        except OSError:
            continue
        rules.allow_reading(folder, names)


class _Kept:
    def __init__(self, need: Need, rules: landlock.Ruleset, watcher: int) -> None:
        self.need = need
        self.rules = rules
        self.watcher = watcher
        self.uses = 0

    def is_over(self) -> bool:
        poll = select.poll()
        poll.register(self.watcher, select.POLLIN)
        return self.uses >= _MOST_USES or bool(poll.poll(0))

    def close(self) -> None:
        self.rules.close()
        os.close(self.watcher)


class KeptRules:
    """In the helper those that it has made; in a cell those that there were when it was forked."""

    def __init__(self, abi: int, covered: "list[bytes]") -> None:
        self._abi = abi
        self.covered = covered  # folders whose content is out of sight in a cell
        self.own = [*_OWN, *covered]  # and those that look different in each
        self._file_systems = FileSystems()
        self._stale = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # can be read once something was mounted or unmounted
        self._kept: list[_Kept] = []  # the newest last
        self._needed: list[Need] = []  # by the last commands for which there was none

    @property
    def table(self) -> int:
        """Wakes with `POLLPRI` when `note_mounts` is to be called; -1 where nothing tells."""
        return self._file_systems.table

    @property
    def descriptors(self) -> "set[int]":
        """What a cell needs of them."""
        return {self._stale, *(each for kept in self._kept for each in (kept.rules.descriptor, kept.watcher))}

    # In a cell

    def need_of(self, plan: Plan, hidden: "list[bytes]") -> "Need | None":
        """None where no ruleset can be kept: something is masked in what looks different in each cell, or the other way round."""
        own = self.own
        if not hidden or any(beneath_any(path, own) for path in hidden) or any(beneath_any(path, hidden) for path in own):
            return None
        roots = [b"%s %d %d" % (path, *pin) for path, pin in sorted(plan.pins.items())]
        return (plan.network.encode(), plan.workspace, plan.private_tmp, *sorted(plan.roots), *roots, b"", *sorted(hidden))

    def take(self, need: "Need | None") -> "landlock.Ruleset | None":
        """A ruleset that this cell may complete and enforce, if there is one that still holds."""
        found = next((kept for kept in self._kept if kept.need == need), None)
        if found is None:
            return None
        poll = select.poll()
        poll.register(self._stale, select.POLLIN)
        poll.register(found.watcher, select.POLLIN)
        if poll.poll(0):
            return None
        self._kept.remove(found)  # it is closed by being enforced
        os.close(found.watcher)
        return found.rules

    def leave(self) -> None:
        """Close what is not needed."""
        self._let_go(self._kept)
        os.close(self._stale)

    # In the helper

    def mounts_changed(self) -> None:
        """Something was mounted or unmounted on the machine."""
        self._file_systems.forget()
        os.eventfd_write(self._stale, 1)  # for the cells that wait with what they have inherited
        os.close(self._stale)
        self._stale = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._let_go(self._kept)

    def used(self, need: "Need | None") -> None:
        """A command has ended, and another like it is likely. `need`: what it had to make for itself."""
        if self._file_systems.have_changed():
            self.mounts_changed()
        for kept in self._kept:
            kept.uses += 1
        self._let_go([kept for kept in self._kept if kept.is_over()])
        if need is None or any(kept.need == need for kept in self._kept):
            return
        if need in self._needed:
            self._keep(need)
        self._needed = [*self._needed, need][-_MOST_NEEDED:]

    def _keep(self, need: Need) -> None:
        try:
            made = self._make(need)
        except OSError:
            return  # each cell makes its own then
        if made is not None:
            self._kept.append(made)
            self._let_go(self._kept[:-_MOST_KEPT])

    def _let_go(self, gone: "list[_Kept]") -> None:
        for kept in list(gone):
            kept.close()
            self._kept.remove(kept)

    def _make(self, need: Need) -> "_Kept | None":
        hidden = list(need[len(need) - need[::-1].index(b"") :])
        ways = ways_to(hidden)
        watcher = kernel.folder_watcher()
        try:
            if self.table < 0 or not self._watch(watcher, ways):
                os.close(watcher)
                return None
            rules = landlock.Ruleset(self._abi, reading=landlock.READ_FILE, tcp=need[0] == b"off")
        except OSError:
            os.close(watcher)
            raise
        allow_reading_beside(rules, hidden, self.own)
        return _Kept(need, rules, watcher)

    def _watch(self, watcher: int, ways: "list[bytes]") -> bool:
        """Before anything is looked at there. A folder that is missing would appear in one that is watched."""
        for way in ways:
            if not os.path.isdir(way):
                continue
            if not self._file_systems.is_local(way):
                return False
            kernel.watch_folder(watcher, way, _MOVES)
        return True
