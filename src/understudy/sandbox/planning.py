"""Turns a command into the helper's plan: whose rights, which environment, which limits."""

import os
import pwd

from understudy.sandbox.cell.plan import FULL, LANDLOCK, PLAIN, Plan
from understudy.sandbox.spec import Command, Containment, Limits

_TEMPORARY = ("TMPDIR", "TMP", "TEMP")


def is_contained(command: Command) -> bool:
    return command.containment is not None and command.containment.mode != "danger-full-access"


def time_limit(command: Command) -> float | None:
    """The command's own limit or the configured one, whichever is shorter."""
    configured = command.containment.limits.seconds if command.containment is not None else None
    limits = [seconds for seconds in (command.timeout, configured) if seconds is not None]
    return min(limits) if limits else None


def plain_plan(command: Command, open_files: int) -> Plan:
    return Plan(
        shape=PLAIN,
        argv=_encode(command.argv),
        environment=_encode_environment(command.env),
        cwd=os.fsencode(command.cwd),
        open_files=open_files,
    )


def contained_plan(command: Command, containment: Containment, shape: str, open_files: int) -> Plan:
    workspace = workspace_of(command, containment)
    owner = owner_of(workspace)
    if containment.private_tmp is not None and owner is not None:
        _hand_over(containment.private_tmp, owner)
    limits: Limits = containment.limits
    network = containment.network
    if shape == LANDLOCK and network == "loopback":
        network = "off"  # without a network namespace there is no loopback of its own
    return Plan(
        shape=shape,
        argv=_encode(command.argv),
        environment=_encode_environment(environment_for(command.env, containment, shape, owner)),
        cwd=os.fsencode(command.cwd),
        workspace=os.fsencode(workspace),
        roots=_encode(writable_roots(containment)),
        private_tmp=os.fsencode(containment.private_tmp or ""),
        masked=_encode(containment.masked),
        protected=_encode(containment.protected),
        network=network,
        owner=owner,
        processes=limits.processes or 0,
        memory_mb=limits.memory_mb or 0,
        file_mb=limits.file_mb or 0,
        shared_memory_mb=limits.memory_mb or 1024,
        open_files=open_files,
    )


def writable_roots(containment: Containment) -> tuple[str, ...]:
    return containment.writable_roots if containment.mode == "workspace-write" else ()


def workspace_of(command: Command, containment: Containment) -> str:
    if containment.workspace is not None:
        return containment.workspace
    return containment.writable_roots[0] if containment.writable_roots else command.cwd


def owner_of(workspace: str) -> tuple[int, int] | None:
    """Whose rights a command takes when the server is root: those of the workspace's owner, unless that is root too."""
    if os.geteuid() != 0:
        return None
    try:
        entry = os.stat(workspace)
    except OSError:
        return None  # the command itself will find no such folder
    if entry.st_uid == 0:
        return None
    try:
        return entry.st_uid, pwd.getpwuid(entry.st_uid).pw_gid
    except KeyError:
        return entry.st_uid, entry.st_gid


def environment_for(env: dict[str, str], containment: Containment, shape: str, owner: tuple[int, int] | None) -> dict[str, str]:
    """What the command's surroundings make necessary: its own temporary folder, the home of whose rights it has."""
    changed = dict(env)
    if shape == LANDLOCK and containment.private_tmp is not None:
        changed.update(dict.fromkeys(_TEMPORARY, containment.private_tmp))
    elif shape == FULL:
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


def _hand_over(folder: str, owner: tuple[int, int]) -> None:
    """The server made it as root; the command must be able to write there."""
    try:
        if os.stat(folder).st_uid != owner[0]:
            os.chown(folder, *owner)
    except OSError:
        pass  # then the command cannot write to its /tmp, and says so itself


def _encode(words: tuple[str, ...]) -> list[bytes]:
    return [os.fsencode(word) for word in words]


def _encode_environment(env: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
