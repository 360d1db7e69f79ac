"""Keeps Landlock rulesets for masked paths, so that similar commands can share them.

Such a ruleset has a rule for every name beside each masked path and the folders above it, perhaps hundreds. So the helper makes one
after the second similar command, and later cells inherit it. Each cell adds its own rules, for its roots and new mounts. A ruleset
is valid only until something moves in those folders: the kernel reports that before whoever moved it can ask for a command.
"""

import os
import select

from understudy.places.file_systems import FileSystems

from . import kernel, landlock
from .plan import Plan
from .roots import beneath_any

_MOST_KEPT = 4
_MOST_NEEDED = 8  # if commands of more conversations than this take turns, none is made, because it would not be used
_MOST_USES = 200  # each cell adds rules, which the next ones inherit
_MOVES = kernel.IN_CREATE | kernel.IN_DELETE | kernel.IN_MOVED_FROM | kernel.IN_MOVED_TO
_OWN = (b"/dev", b"/proc")  # the folders that every cell covers

# What a ruleset depends on. Only commands with the same roots may share one.
Need = tuple[bytes, ...]


def ways_to(hidden: "list[bytes]") -> "list[bytes]":
    """Every folder above these paths that is not itself inside one of them, the shortest first."""
    ways = {b"/"}
    for path in hidden:
        parent = os.path.dirname(path)
        while parent not in ways:
            ways.add(parent)
            parent = os.path.dirname(parent)
    return sorted([way for way in ways if not beneath_any(way, hidden)], key=len)


def allow_reading_beside(rules: landlock.Ruleset, hidden: "list[bytes]", own: "list[bytes] | None" = None) -> None:
    """Grant reading of everything beside hidden paths: Landlock can grant rights, but not take them back further down.

    Skips `own`, which is different in every cell.
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
    """In the helper: the rulesets that it has made. In a cell: those that existed when it was forked."""

    def __init__(self, abi: int, covered: "list[bytes]") -> None:
        self._abi = abi
        self.covered = covered  # folders whose content is hidden in a cell
        self.own = [*_OWN, *covered]  # and those whose content differs between cells
        self._file_systems = FileSystems()
        self._stale = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # becomes readable when something was mounted or unmounted
        self._kept: list[_Kept] = []  # the newest last
        self._needed: list[Need] = []  # needed by the latest commands, but missing

    @property
    def table(self) -> int:
        """Signals `POLLPRI` when `mounts_changed` must be called; -1 if there is no such signal."""
        return self._file_systems.table

    @property
    def descriptors(self) -> "set[int]":
        """Descriptors of them that a cell needs."""
        return {self._stale, *(each for kept in self._kept for each in (kept.rules.descriptor, kept.watcher))}

    # In a cell

    def need_of(self, plan: Plan, hidden: "list[bytes]") -> "Need | None":
        """None if no ruleset can be kept: a masked path is inside a folder that differs between cells, or contains one."""
        own = self.own
        if not hidden or any(beneath_any(path, own) for path in hidden) or any(beneath_any(path, hidden) for path in own):
            return None
        roots = [b"%s %d %d" % (path, *pin) for path, pin in sorted(plan.pins.items())]
        return (plan.network.encode(), plan.workspace, plan.private_tmp, *sorted(plan.roots), *roots, b"", *sorted(hidden))

    def take(self, need: "Need | None") -> "landlock.Ruleset | None":
        """A valid ruleset that this cell may complete and enforce, if there is one."""
        found = next((kept for kept in self._kept if kept.need == need), None)
        if found is None:
            return None
        poll = select.poll()
        poll.register(self._stale, select.POLLIN)
        poll.register(found.watcher, select.POLLIN)
        if poll.poll(0):
            return None
        self._kept.remove(found)  # enforcing closes it
        os.close(found.watcher)
        return found.rules

    def leave(self) -> None:
        """Close what the cell does not need."""
        self._let_go(self._kept)
        os.close(self._stale)

    # In the helper

    def mounts_changed(self) -> None:
        """Something was mounted or unmounted on the machine."""
        self._file_systems.forget()
        os.eventfd_write(self._stale, 1)  # for waiting cells, which have inherited rulesets
        os.close(self._stale)
        self._stale = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._let_go(self._kept)

    def used(self, need: "Need | None") -> None:
        """A command has ended, and a similar one is likely. `need`: the ruleset that it had to make itself."""
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
            return  # without it, each cell makes its own
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
        """Watch the folders before anything is read there. A missing folder would appear in one that is watched."""
        for way in ways:
            if not os.path.isdir(way):
                continue
            if not self._file_systems.is_local(way):
                return False
            kernel.watch_folder(watcher, way, _MOVES)
        return True
