"""Applies changes to files, all of them or none.

New content is first written to a file beside each place. Then each new file is renamed over the old one, which keeps a hidden
second name until all are in place; any failure before that restores what was. Data reaches the disk before the rename, so a power
cut leaves the old file or the new one, never an empty one. The directories are not flushed: that would double the cost and only
protect the rename itself. If the process is killed between two renames, the earlier files stay changed: the log then says that the
patch began, but not that it ended.

Only what a command could change is changed: a read-only file is not replaced either. A file that may be written, but would lose its
owner when replaced, or whose directory accepts no new names, is written in place.
"""

import errno
import logging
import os
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress

import msgspec

from understudy.errors import PatchError
from understudy.places.placeholders import is_placeholder
from understudy.places.places import Places

from .door import Door, FileState, NotPlain, act_in, identity_of
from .paths import PatchSpot, os_text

logger = logging.getLogger(__name__)

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
_CHANGED = "it has changed since the patch was checked"
_KEPT_FREE = "a command that another server runs in the sandbox is kept from making it: try again when that has ended"


class Change(msgspec.Struct, frozen=True):
    """One path: what it contained when the patch was checked, and what it should contain."""

    spot: PatchSpot
    before: FileState | None
    after: bytes | None
    like: str | None = None  # real path of the file whose permissions it gets; None for a new file
    moved: bool = False  # its content goes to another file
    mode: int | None = None  # permission bits of a new file; None: the process's defaults

    @property
    def failure(self) -> str:
        if self.after is not None:
            return f"Failed to write file {self.spot.written}"
        return f"Failed to {'remove original' if self.moved else 'delete file'} {self.spot.written}"


def commit_changes(changes: Sequence[Change], places: Places | None = None) -> tuple[str, ...]:
    """Returns the directories that it made. Raises `PatchError` with the reason on one line; then nothing has changed."""

    def commit() -> tuple[str, ...]:
        with Door(places) as door:
            return _commit(changes, _Transaction(door, keeps_special_bits=places is None or places.doer is None))

    try:
        return act_in(places, commit)
    except PermissionError as error:
        raise PatchError(os_text(error)) from error


def _commit(changes: Sequence[Change], work: "_Transaction") -> tuple[str, ...]:
    try:
        for change in changes:
            work.stage(change)
        work.swap_in()
        work.remove()
        work.check_untouched()
    except BaseException as error:
        unrestored = work.roll_back()
        if unrestored:
            raise PatchError(f"{error}; this could not be undone: {', '.join(unrestored)}") from error
        raise
    work.clear_away()
    return tuple(work.made)


def remove_empty_folders(folders: Iterable[str], places: Places | None = None) -> None:
    """Those that are not empty, or no longer folders, stay."""

    def remove() -> None:
        with Door(places) as door:
            for folder in folders:
                with suppress(OSError, PatchError):
                    directory, name = door.parent(folder)
                    os.rmdir(name, dir_fd=directory)

    with suppress(PermissionError):
        act_in(places, remove)


class _Staged(msgspec.Struct, frozen=True):
    change: Change
    temporary: str  # hidden name of the new content, beside its place; empty: it is written in place


class _Backup(msgspec.Struct, frozen=True):
    change: Change
    name: str  # hidden name of the old content, beside its place
    identity: tuple[int, int, int, int]


class _Transaction:
    def __init__(self, door: Door, *, keeps_special_bits: bool) -> None:
        """`keeps_special_bits`: a set-user-id file stays one; when a command writes to it, it does not."""
        self._door = door
        self._keeps_special_bits = keeps_special_bits
        self._undo: list[tuple[str, Callable[[], None]]] = []  # names of changes that may have to be undone, and how
        self._staged: list[_Staged] = []
        self._removals: list[Change] = []
        self._identities: dict[str, tuple[int, int, int, int]] = {}
        self._backups: list[_Backup] = []
        self.made: list[str] = []  # directories

    def stage(self, change: Change) -> None:
        """Check that the place is unchanged, and write the new content beside it."""
        if change.after is None:
            self._check(change)
            self._removals.append(change)
            return
        with _reported_as(f"Failed to create parent directories for {change.spot.written}"):
            directory, _ = self._door.parent(change.spot.real, on_created=self._created)
        self._check(change)
        with _reported_as(change.failure):
            if change.before is not None:
                os.close(self._open_to_write(change))
            try:
                self._write_beside(change, directory)
            except PermissionError:
                if change.before is None or change.before.data is None:
                    raise
                self._staged.append(_Staged(change, ""))

    def _write_beside(self, change: Change, directory: int) -> None:
        assert change.after is not None
        temporary = _hidden_name()
        plain = change.like is None and change.mode is None
        descriptor = os.open(temporary, _WRITE_NEW, 0o666 if plain else 0o600, dir_fd=directory)
        self._undo.append((temporary, lambda: self._unlink(change, temporary)))
        try:
            _write_all(descriptor, change.after)
            if change.like is not None:
                self._copy_permissions(change.like, descriptor, keeps_owner=change.like == change.spot.real)
            elif change.mode is not None:
                os.fchmod(descriptor, change.mode & 0o777)  # never set-user-id, because it may have been another user's file
            _flush(descriptor)
        except PermissionError:
            self._undo.pop()
            self._unlink(change, temporary)
            raise
        finally:
            os.close(descriptor)
        self._staged.append(_Staged(change, temporary))

    def swap_in(self) -> None:
        for staged in self._staged:
            change = staged.change
            with _reported_as(change.failure):
                if change.before is None:
                    self._put_new(change, staged.temporary)
                elif not staged.temporary:
                    self._write_over(change)
                else:
                    self._keep_old(change)
                    directory, name = self._door.parent(change.spot.real)
                    os.rename(staged.temporary, name, src_dir_fd=directory, dst_dir_fd=directory)

    def _open_to_write(self, change: Change) -> int:
        """Raises OSError if a command could not write to it. A program that is running cannot be written, but can be replaced."""
        directory, name = self._door.parent(change.spot.real)
        try:
            return os.open(name, _WRITE_OLD, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _write_over(self, change: Change) -> None:
        """Write in place; anyone who reads it meanwhile may see half of each version."""
        before, after = change.before and change.before.data, change.after
        assert before is not None
        assert after is not None
        descriptor = self._open_to_write(change)
        try:
            if identity_of(os.fstat(descriptor)) != self._identities[change.spot.real]:
                raise PatchError(f"{change.failure}: {_CHANGED}")
            self._undo.append((change.spot.real, lambda: self._write_back(change, before)))
            _rewrite(descriptor, after)
        finally:
            os.close(descriptor)

    def _write_back(self, change: Change, before: bytes) -> None:
        descriptor = self._open_to_write(change)
        try:
            _rewrite(descriptor, before)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        for change in self._removals:
            with _reported_as(change.failure):
                self._keep_old(change, away=True)

    def check_untouched(self) -> None:
        """A program that had the file open may have written to it while it was replaced."""
        for backup in self._backups:
            directory, _ = self._door.parent(backup.change.spot.real)
            with _reported_as(backup.change.failure):
                if identity_of(os.stat(backup.name, dir_fd=directory, follow_symlinks=False)) != backup.identity:
                    raise PatchError(f"{backup.change.failure}: {_CHANGED}")

    def clear_away(self) -> None:
        for backup in self._backups:
            try:
                self._unlink(backup.change, backup.name)
            except OSError as error:
                logger.warning("a patch is applied, but %s remains beside %s: %s", backup.name, backup.change.spot.real, error)

    def roll_back(self) -> list[str]:
        """Undo in reverse order. Returns what could not be undone, in words for people."""
        unrestored: list[str] = []
        while self._undo:
            subject, step = self._undo.pop()
            try:
                step()
            except (OSError, PatchError) as error:
                unrestored.append(f"{subject} ({error})")
        return unrestored

    def _check(self, change: Change) -> None:
        try:
            with _reported_as(change.failure):
                now = self._door.read(change.spot.real)
        except NotPlain as error:
            raise PatchError(f"{change.failure}: {error}") from None
        if now is None or change.before is None:
            unchanged = now is None and change.before is None
        else:
            unchanged = change.before.same_content(now)
            self._identities[change.spot.real] = now.identity
        if not unchanged:
            raise PatchError(f"{change.failure}: {_CHANGED}")

    def _put_new(self, change: Change, temporary: str) -> None:
        directory, name = self._door.parent(change.spot.real)
        own = os.stat(temporary, dir_fd=directory, follow_symlinks=False).st_ino
        try:
            # Unlike a rename, this never replaces a file that has just appeared.
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            reason = _KEPT_FREE if is_placeholder(name, directory) else _CHANGED
            raise PatchError(f"{change.failure}: {reason}") from None
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            if self._door.read(change.spot.real) is not None:
                raise PatchError(f"{change.failure}: {_CHANGED}") from None
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        self._undo.append((change.spot.real, lambda: self._take_back(change, own)))
        self._unlink(change, temporary)

    def _keep_old(self, change: Change, *, away: bool = False) -> None:
        """Give the old file a second, hidden name (with `away`, only that one), and check that it is the file that was checked."""
        directory, name = self._door.parent(change.spot.real)
        backup = _hidden_name()
        self._undo.append((change.spot.real, lambda: self._restore(change, backup)))
        try:
            if away:
                os.rename(name, backup, src_dir_fd=directory, dst_dir_fd=directory)
            else:
                os.link(name, backup, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if away or error.errno not in _NO_HARD_LINKS:
                raise
            os.rename(name, backup, src_dir_fd=directory, dst_dir_fd=directory)
        identity = identity_of(os.stat(backup, dir_fd=directory, follow_symlinks=False))
        if identity != self._identities[change.spot.real]:
            raise PatchError(f"{change.failure}: {_CHANGED}")
        self._backups.append(_Backup(change, backup, identity))

    def _restore(self, change: Change, backup: str) -> None:
        directory, name = self._door.parent(change.spot.real)
        with suppress(FileNotFoundError):
            os.rename(backup, name, src_dir_fd=directory, dst_dir_fd=directory)
            # If both are names of the same file, rename does nothing and keeps the second name.
            os.unlink(backup, dir_fd=directory)

    def _take_back(self, change: Change, own: int) -> None:
        directory, name = self._door.parent(change.spot.real)
        with suppress(FileNotFoundError):
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino == own:
                os.unlink(name, dir_fd=directory)

    def _unlink(self, change: Change, name: str) -> None:
        directory, _ = self._door.parent(change.spot.real)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)

    def _created(self, path: str) -> None:
        self.made.append(path)
        self._undo.append((path, lambda: self._remove_directory(path)))

    def _remove_directory(self, path: str) -> None:
        directory, name = self._door.parent(path)
        with suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=directory)

    def _copy_permissions(self, like: str, descriptor: int, *, keeps_owner: bool) -> None:
        source = self._door.open_file(like)
        try:
            info, own = os.fstat(source), os.fstat(descriptor)
            mode = stat.S_IMODE(info.st_mode)
            if not self._keeps_special_bits:
                mode &= ~_SPECIAL_BITS
            if (info.st_uid, info.st_gid) != (own.st_uid, own.st_gid):
                _copy_owner(info, descriptor, all_of_it=keeps_owner or bool(mode & _SPECIAL_BITS))
            os.fchmod(descriptor, mode)  # after the owner, because changing the owner clears bits
            _copy_attributes(source, descriptor)
        finally:
            os.close(source)


def _copy_owner(info: os.stat_result, descriptor: int, *, all_of_it: bool) -> None:
    try:
        os.fchown(descriptor, info.st_uid, info.st_gid)
    except PermissionError:
        if all_of_it:  # or it would run with the rights of another user than before
            raise
        with suppress(PermissionError):
            os.fchown(descriptor, -1, info.st_gid)


def _copy_attributes(source: int, descriptor: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        names = os.listxattr(source)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        return
    for name in names:
        if name.startswith("user.") or name == "system.posix_acl_access":
            os.setxattr(descriptor, name, os.getxattr(source, name))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _rewrite(descriptor: int, data: bytes) -> None:
    _write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    _flush(descriptor)


def _flush(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _hidden_name() -> str:
    return f".understudy-{os.urandom(8).hex()}.tmp"


@contextmanager
def _reported_as(failure: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise PatchError(f"{failure}: {os_text(error)}") from error
