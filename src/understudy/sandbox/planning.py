"""Turns a command into the helper's plan: whose rights, which environment, which limits."""

import hashlib
import os
import pwd
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from understudy.errors import SandboxError
from understudy.places.doer import owner_of
from understudy.places.masks import INSTRUCTIONS, START_UP
from understudy.places.resolving import Place, is_within, resolve_places
from understudy.places.walking import real_paths
from understudy.sandbox.cell import trees
from understudy.sandbox.cell.plan import BUBBLEWRAP, FULL, LANDLOCK, PLAIN, Plan
from understudy.sandbox.spec import Command, Containment, RungName, Temporary

_FALLBACK = "/tmp/understudy-"
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_KEPT = frozenset(map(os.fsencode, (*INSTRUCTIONS, *START_UP)))


def is_contained(command: Command) -> bool:
    return command.containment is not None and command.containment.mode != "danger-full-access"


def time_limit(command: Command) -> float | None:
    """The shorter of the command's own limit and the configured one."""
    configured = command.containment.limits.seconds if command.containment is not None else None
    limits = [seconds for seconds in (command.timeout, configured) if seconds is not None]
    return min(limits) if limits else None


def impossible(command: Command) -> str | None:
    """Why no system could execute this command, in whatever sandbox."""
    if not command.argv or not command.argv[0]:
        return "the command is empty"
    if not os.path.isabs(command.cwd):
        return "the folder is not an absolute path"
    return _unspeakable((*command.argv, command.cwd)) or _environments.problem(command.env)


def _unspeakable(texts: Iterable[str]) -> str | None:
    """Why these texts cannot be passed to the system."""
    for text in texts:
        if "\0" in text:
            return "an argument contains a NUL character"
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            return "an argument contains half a character"
    return None


class _Environments:
    """Keeps the latest environment, checked and encoded: consecutive commands usually have the same."""

    def __init__(self) -> None:
        self._checked: dict[str, str] = {}
        self._problem: str | None = None
        self._given: dict[str, str] = {}
        self._encoded: dict[bytes, bytes] = {}

    def problem(self, env: dict[str, str]) -> str | None:
        if env != self._checked:
            self._checked, self._problem = dict(env), _unspeakable((*env, *env.values()))
        return self._problem

    def encode(self, env: dict[str, str]) -> dict[bytes, bytes]:
        if env != self._given:
            self._given = dict(env)
            self._encoded = {os.fsencode(name): os.fsencode(value) for name, value in env.items() if name and "=" not in name}
        return self._encoded


_environments = _Environments()


def plain_plan(command: Command, open_files: int) -> Plan:
    return Plan(
        shape=PLAIN,
        argv=_encode(command.argv),
        environment=_environments.encode(command.env),
        cwd=os.fsencode(command.cwd),
        folder=command.folder,
        open_files=open_files,
        terminal=command.on_terminal,
        has_input=command.input is not None,
        grace_seconds=command.grace_seconds,
    )


def contained_plan(command: Command, containment: Containment, shape: str, open_files: int) -> Plan:
    """Raises SandboxError if the command would have the rights of the machine's root."""
    for path in (*containment.writable_roots, *containment.masked, containment.private_tmp or "/"):
        if not os.path.isabs(path):
            raise SandboxError(f"{path!r} is to be contained by its absolute path")
    places = {place.spelled: place for place in places_of(command, containment)}
    workspace = _real(workspace_of(command, containment), places)
    owner = owner_of(workspace)
    if shape == LANDLOCK and owner is None and os.geteuid() == 0:
        raise SandboxError(
            "without user namespaces commands would run as root here, so they are not run: start the server as another user, "
            "give the workspace to another user, or allow user namespaces"
        )
    private_tmp = containment.private_tmp
    kept = _KEPT.union(_encode_once(containment.kept)) if containment.kept else _KEPT
    if private_tmp is not None and owner is not None:
        private_tmp = temporary_folder_for(owner, private_tmp, shape)
    limits = containment.limits
    network = containment.network
    if shape == LANDLOCK and network == "loopback":
        network = "off"  # without a network namespace there is no separate loopback
    return Plan(
        shape=shape,
        argv=_encode(command.argv),
        environment=_environments.encode(environment_for(command.env, private_tmp, shape, owner)),
        cwd=os.fsencode(_real(command.cwd, places)),
        workspace=os.fsencode(workspace),
        roots=_encode(_roots(containment, places)),
        pins={os.fsencode(place.path): (place.device, place.inode) for place in places.values()},
        private_tmp=os.fsencode(private_tmp or ""),
        masked=_encode_once(containment.masked),
        protected=[name for name in _encode_once(containment.protected) if name not in kept],
        kept=[name for name in _encode_once(containment.protected) if name in kept],
        watched=_encode(tuple(_missing_masked(containment, places))) if shape == LANDLOCK else [],
        network=network,
        unix_sockets=containment.unix_sockets,
        owner=owner,
        processes=limits.processes or 0,
        memory_mb=limits.memory_mb or 0,
        file_mb=limits.file_mb or 0,
        shared_memory_mb=limits.memory_mb or 1024,
        tmp_mb=limits.tmp_mb or 0,
        tmp_files=limits.tmp_files or 0,
        disk_free_mb=limits.disk_free_mb or 0,
        open_files=open_files,
        terminal=command.on_terminal,
        has_input=command.input is not None,
        grace_seconds=command.grace_seconds,
    )


def wrapped_plan(command: Command, containment: Containment, program: str, open_files: int) -> Plan:
    """The plan for bubblewrap, which reads its filter from descriptor 4 and does the rest itself."""
    from understudy.sandbox.wrapping import command_line, kept_names  # imported here because few machines need it

    plan = contained_plan(command, containment, BUBBLEWRAP, open_files)
    roots = tuple(os.fsdecode(root) for root in plan.roots)
    names = kept_names(containment, roots, frozenset(map(os.fsdecode, plan.kept)))
    words, plan.covered_at = command_line(
        program,
        replace(command, cwd=os.fsdecode(plan.cwd)),
        containment,
        roots=roots,
        names=names,
        workspace=os.fsdecode(plan.workspace),
        private_tmp=os.fsdecode(plan.private_tmp) or None,
        as_root=os.geteuid() == 0 and plan.owner is None,
        seccomp=4,
    )
    plan.covered = _encode(tuple(names.missing))
    plan.watched = _encode(tuple(names.watched))
    plan.argv = _encode(words)
    plan.cwd = b"/"  # bubblewrap changes to the command's folder itself
    return plan


def writable_roots(containment: Containment) -> tuple[str, ...]:
    return containment.writable_roots if containment.mode == "workspace-write" else ()


def real_roots(command: Command, containment: Containment) -> tuple[str, ...]:
    """The writable roots as they were pinned, including those inside others."""
    return _roots(containment, {place.spelled: place for place in places_of(command, containment)})


def _roots(containment: Containment, places: dict[str, Place]) -> tuple[str, ...]:
    """Leaves out roots that are protected or inside a protected path: neither commands nor patches may write there."""
    roots = dict.fromkeys(_real(root, places) for root in writable_roots(containment))
    if not roots:
        return ()
    named = [name for name in containment.protected if name.startswith("/")]
    kept = {*map(os.path.normpath, named), *real_paths(named)}
    return tuple(root for root in roots if not any(is_within(root, path) for path in kept))


def _missing_masked(containment: Containment, places: dict[str, Place]) -> list[str]:
    """Masked paths that do not exist, so that Landlock cannot refuse them."""
    return [path for path in _masked_in(containment, _roots(containment, places)) if not os.path.lexists(path)]


def _masked_in(containment: Containment, roots: tuple[str, ...]) -> list[str]:
    return [path for path in real_paths(containment.masked) if any(is_within(path, root) for root in roots)]


def places_of(command: Command, containment: Containment) -> list[Place]:
    """The folders in which the command works: as pinned by the conversation, or as they are now if it has not pinned them."""
    return resolve_places((workspace_of(command, containment), *writable_roots(containment)), containment.pinned)


def _real(path: str, places: dict[str, Place]) -> str:
    normal = os.path.normpath(path)
    return places[normal].path if normal in places else path


def workspace_of(command: Command, containment: Containment) -> str:
    if containment.workspace is not None:
        return containment.workspace
    return containment.writable_roots[0] if containment.writable_roots else command.cwd


def environment_for(env: dict[str, str], private_tmp: str | None, shape: str, owner: tuple[int, int] | None) -> dict[str, str]:
    """Adapt the environment to the command's own temporary folder, and to the home of the user whose rights it has."""
    changed = dict(env)
    if shape == LANDLOCK and private_tmp is not None:
        changed.update(dict.fromkeys(_TEMPORARY, private_tmp))
    elif shape in (FULL, BUBBLEWRAP):
        changed.update(dict.fromkeys((name for name in _TEMPORARY if name in env), "/tmp"))
    if owner is not None:
        try:
            entry = pwd.getpwuid(owner[0])
        except KeyError:
            home, name = "/tmp", str(owner[0])
        else:
            home, name = entry.pw_dir, entry.pw_name
        values = {"HOME": home, "USER": name, "LOGNAME": name}
        changed.update({key: value for key, value in values.items() if key in env})
    return changed


def temporary_folder_for(owner: tuple[int, int], folder: str, shape: str) -> str:
    """Give the folder that root made to `owner`, or another one if `owner` could not reach it.

    The full rung opens the folder while it is still root. The other rungs cannot, and the folder is usually below root's home.
    """
    if shape != FULL and not _can_reach(owner[0], folder):
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        folder = f"{_FALLBACK}{owner[0]}-{name}"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if os.path.islink(folder) or os.stat(folder).st_uid not in (0, owner[0]):
                raise SandboxError(f"{folder} belongs to somebody else") from None
    if os.stat(folder).st_uid != owner[0]:
        os.chown(folder, *owner, follow_symlinks=False)
    return folder


def temporary_of(containment: Containment, cwd: str, rung: RungName) -> Temporary:
    """For a containment that has such a folder, which must exist. Raises SandboxError."""
    command = Command((), cwd, {}, containment=containment)
    places = {place.spelled: place for place in places_of(command, containment)}
    workspace = _real(workspace_of(command, containment), places)
    owner, folder = owner_of(workspace), containment.private_tmp or ""
    if rung == "seatbelt":
        return Temporary(folder, os.path.realpath(folder))
    if owner is not None:
        folder = temporary_folder_for(owner, folder, rung)
    if rung == LANDLOCK:
        return Temporary(folder, folder)
    machine_tmp = os.path.realpath("/tmp")
    return Temporary(folder, None if machine_tmp in (*_roots(containment, places), workspace) else "/tmp")


def remove_fallbacks(folders: Iterable[str]) -> None:
    """Remove the folders that replaced unreachable ones."""
    for folder in folders:
        if folder.startswith(_FALLBACK):
            trees.remove(folder)


def _can_reach(uid: int, folder: str) -> bool:
    """Whether `uid` may pass every folder on the way. Groups do not count, because commands have none."""
    for parent in Path(os.path.realpath(folder)).parents:
        entry = os.stat(parent)
        if not entry.st_mode & (0o100 if entry.st_uid == uid else 0o001):
            return False
    return True


@lru_cache(16)
def _encode_once(words: tuple[str, ...]) -> list[bytes]:
    """Encode words that consecutive commands share only once (30 µs each). Nobody may change the list."""
    return _encode(words)


def _encode(words: tuple[str, ...]) -> list[bytes]:
    return [os.fsencode(word) for word in words]
