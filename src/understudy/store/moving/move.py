"""Moves all conversations of one store into another, empty one. From then on the source refuses writes."""

from collections.abc import Callable, Iterator

import msgspec

from understudy.errors import StoreError
from understudy.store.chain import Seals
from understudy.store.log import Audited
from understudy.store.moving.ends import End, Moved

MOST_NAMED = 5


class Report(msgspec.Struct, frozen=True):
    conversations: int
    records: int
    broken: tuple[str, ...]  # conversations that were damaged at the source; they were copied byte for byte


def move(source: End, target: End, seals: Seals, told: Callable[[int, int], None] | None = None) -> Report:
    """`told` is called now and then with how many were moved, of how many. Raises `StoreError`; then nothing has changed."""
    was = source.moved_to()
    if was not in (None, target.place):
        raise StoreError(f"the conversations of {source.place} have moved to {was} already")
    if (there := target.moved_to()) is not None:
        raise StoreError(
            f"{target.place} holds conversations that have moved to {there}: have them in an empty store, and put this one aside"
        )
    if target.count():
        if was is not None:
            raise StoreError(f"the conversations of {source.place} have moved to {target.place} already")
        raise StoreError(f"{target.place} has conversations already: they can move into an empty store only")
    _refuse_held(source)
    source.mark(target.place)
    try:
        _refuse_held(source)  # a process may have claimed one just before the mark; none can from now on
        carried = _Carried(source, seals, told)
        target.put_all(carried.all(), source.spending())
        carried.compare(target)
    except BaseException:
        if not target.count():
            source.unmark()
        raise
    return Report(len(carried.audits), carried.records, tuple(carried.broken))


def _refuse_held(source: End) -> None:
    held = source.held()
    if held:
        some = ", ".join(held[:MOST_NAMED]) + (", …" if len(held) > MOST_NAMED else "")
        raise StoreError(f"{len(held)} conversations of {source.place} are in use ({some}): stop the servers that have them first")


class _Carried:
    def __init__(self, source: End, seals: Seals, told: Callable[[int, int], None] | None) -> None:
        self._source = source
        self._seals = seals
        self._told = told
        self.audits: dict[str, Audited] = {}
        self.broken: list[str] = []
        self.records = 0

    def all(self) -> Iterator[Moved]:
        names = self._source.names()
        for name in names:
            one = self._source.take(name)
            audited = self.audits[name] = one.audit(self._seals)
            if audited.broken is not None:
                self.broken.append(f"{name}: {audited.broken.text}")
            self.records += len(one.records)
            yield one
            if self._told is not None:
                self._told(len(self.audits), len(names))

    def compare(self, target: End) -> None:
        """Read back what arrived and check its chain: it has to end as at the source."""
        for name, audited in self.audits.items():
            if target.take(name).audit(self._seals) != audited:
                raise StoreError(f"conversation {name} is not the same in {target.place}: nobody should use that store")
