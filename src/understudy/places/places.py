"""The places of one conversation: its roots, and what is masked and protected in them, pinned when it begins.

All code that touches files for a model uses this: the sandbox, the patch door, the reader of AGENTS.md, `workdir`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

from understudy.places.doer import Doer, doer_in
from understudy.places.masks import Masks, MaskWatch
from understudy.places.reading import KERNEL, ReadLimits, Unreadable, open_for_model
from understudy.places.resolving import Place, is_within, look, resolve_places
from understudy.places.walking import FOLDER, open_pinned
from understudy.protocol.records import Pin, Pins

if TYPE_CHECKING:
    from understudy.places.judging import Judge

T = TypeVar("T")

_BOOT = "/proc/sys/kernel/random/boot_id"


class Places:
    """`pinned`: the places where a conversation may write, by device and inode; a folder that has replaced one is refused."""

    def __init__(
        self, pinned: Sequence[Place], *, masked: Iterable[str] = (), protected: Iterable[str] = (), contained: bool = False
    ) -> None:
        """`pinned`: the working directory first, then the other writable roots; `contained`: whether commands are."""
        self.pinned = tuple(pinned)
        self._contained = contained
        self.protected = tuple(protected)
        self._masked = tuple(masked)

    def with_protected(self, protected: Iterable[str]) -> "Places":
        return Places(self.pinned, masked=self._masked, protected=protected, contained=self._contained)

    @cached_property
    def masks(self) -> Masks:
        return Masks(self._masked)

    @cached_property
    def judge(self) -> "Judge":
        """Ask for it before `act`, because it reads places that the doer may not reach."""
        from understudy.places.judging import Judge  # slow to import, and only tools need it

        return Judge(self.roots, self.protected, self._masked)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Their real paths."""
        return tuple(dict.fromkeys(place.path for place in self.pinned))

    @property
    def doer(self) -> Doer | None:
        """Whose rights a command has here; None: the same as this process."""
        return doer_in(self.pinned[0].path) if self._contained else None

    def act(self, work: Callable[[], T]) -> T:
        """Run `work`, which opens, makes, renames or deletes files for a model, with the rights that a command has here.

        Raises what `work` raises, and PermissionError if these rights cannot be taken on. `work` must not import anything.
        """
        doer = self.doer
        if doer is not None:
            self.masks.note()  # beforehand, because the doer may not be able to look at them
        return _as(doer, work)

    def real(self, path: str) -> str:
        """The real path of a pinned place, if the user spelled it like this; otherwise the path itself."""
        return next((place.path for place in self.pinned if place.spelled == path), path)

    def complaint(self) -> str | None:
        """Says which place is not the pinned one any more; None if all are. A missing place does no harm."""
        for place in self.pinned:
            try:
                os.close(open_pinned(place.path, place.device, place.inode))
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                return error.strerror
        return None

    def watch_masks(self) -> MaskWatch:
        """To use while a command runs."""
        return MaskWatch(path for path in self.masks.paths if any(is_within(path, root) for root in self.roots))

    def open_for_model(self, path: str, *hidden: str, base: str = "/", follow: bool = True) -> int:
        """Open a regular file whose content the model will be given; see `reading`. All reading for models should begin here.

        `hidden`: further folders that it must not see, except for the roots in them. `base`: a folder of our own, opened with our
        own rights. `follow` links, or raise `LeadsElsewhere`.
        """
        doer = self.doer
        pins = {place.path: (place.device, place.inode) for place in self.pinned}
        masked = None if doer is None else self.masks.note()
        unreadable = Unreadable((*KERNEL, *hidden), self.roots)
        limits = ReadLimits(self.masks, unreadable, pins, hidden=masked, follow=follow)
        opened = None if base == "/" else os.open(base, FOLDER)
        try:
            return _as(doer, lambda: open_for_model(path, limits, base=base, opened_base=opened))
        finally:
            if opened is not None:
                os.close(opened)

    def pins(self) -> Pins:
        """The pins, for the log. A path that cannot be stored in a log is pinned only for this process."""
        kept = [Pin(each.spelled, each.path, each.device, each.inode) for each in self.pinned if _is_text(each)]
        return Pins(_boot(), tuple(kept))


def _as(doer: Doer | None, work: Callable[[], T]) -> T:
    return work() if doer is None else doer.act(work)


def pin_places(
    cwd: str,
    roots: Iterable[str],
    *,
    masked: Iterable[str] = (),
    protected: Iterable[str] = (),
    contained: bool = False,
    known: Pins | None = None,
) -> Places:
    """Pin the places that a user named: as `known` from before, or else as they are now."""
    before = () if known is None else [_known(pin, same_boot=known.boot == _boot()) for pin in known.places]
    return Places(resolve_places((cwd, *roots), before), masked=masked, protected=protected, contained=contained)


def _known(pin: Pin, *, same_boot: bool) -> Place:
    if same_boot:
        return Place(pin.spelled, pin.path, pin.device, pin.inode)
    now = look(pin.spelled, pin.path)  # many devices get new numbers when a machine starts
    return Place(pin.spelled, pin.path, now.device if now.inode == pin.inode else 0, pin.inode)


def _is_text(place: Place) -> bool:
    try:
        f"{place.spelled}{place.path}".encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _boot() -> str:
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
