"""The last steps of a command before it is executed: limits, Landlock, no capabilities, seccomp."""

import os
import resource

from understudy.places.walking import beneath

from . import kernel, landlock, seccomp, syscalls
from .kept_rules import KeptRules, Need, allow_reading_beside, ways_to
from .plan import FULL, Plan
from .roots import beneath_any, open_pins

_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"ptmx")
_MEGABYTE = 1 << 20

_programs: dict[tuple[str, bool, bool], bytes] = {}


def filter_program(network: str, *, own_namespaces: bool, unix_sockets: bool = False) -> bytes:
    """The seccomp program, built once per kind, in the helper, so that its children inherit it."""
    key = (network, own_namespaces, unix_sockets)
    if key not in _programs:
        _programs[key] = seccomp.program(
            syscalls.machine(), network=network, own_namespaces=own_namespaces, unix_sockets=unix_sockets
        )
    return _programs[key]


def limit(plan: Plan, *, running: int = 0) -> None:
    """Set the resource limits. `running`: processes that this user already has, where the kernel counts per user."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if plan.processes:
        _lower(resource.RLIMIT_NPROC, plan.processes + running)
    if plan.memory_mb:
        # Not RLIMIT_AS: node, Go and Java reserve far more than they use. This limit counts writable memory.
        _lower(resource.RLIMIT_DATA, plan.memory_mb * _MEGABYTE)
    if plan.file_mb:
        _lower(resource.RLIMIT_FSIZE, plan.file_mb * _MEGABYTE)


def limit_open_files(plan: Plan) -> None:
    if plan.open_files:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = plan.open_files if hard < 0 else min(plan.open_files, hard)
        if wanted != soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard < 0 else min(value, hard)
    resource.setrlimit(kind, (value, value))


def processes_of(uid: int) -> int:
    """How many tasks `uid` has, counted as RLIMIT_NPROC does."""
    count = 0
    for name in os.listdir(b"/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(b"/proc/" + name).st_uid == uid:
                count += max(1, os.stat(b"/proc/" + name + b"/task").st_nlink - 2)
        except OSError:
            pass
    return count


def restrict(plan: Plan, abi: int, kept: KeptRules) -> "Need | None":
    """Give up for good what the plan does not grant. Raises OSError; then nothing may be executed.

    `kept`: rulesets from which a full cell may take one. Returns the ruleset that it had to make, if the next cell could use that.
    """
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    full = plan.shape == FULL
    need: Need | None = None
    if not full:
        _restrict_files_without_mounts(plan, abi)
    elif abi >= landlock.WITH_MOVES:
        need = _restrict_files(plan, abi, kept)
    if not full:  # a full cell did so when it moved in
        kernel.drop_bounding_set()
    kernel.drop_capabilities()
    kernel.install_filter(filter_program(plan.network, own_namespaces=full, unix_sockets=plan.unix_sockets))
    return need


def _restrict_files(plan: Plan, abi: int, kept: KeptRules) -> "Need | None":
    """Refuse reading outside the roots, except beside the masked paths.

    Mounts hide masked paths, but the kernel drops a mount when others replace what it covers, and a missing path cannot be covered.
    Inside a root this rule would keep the command from reading its own new files, so there only mounts and placeholders help.
    """
    hidden = [path for path in plan.masked if not beneath_any(path, [*plan.roots, *kept.covered])]
    reading = landlock.READ_FILE if hidden else 0
    need = kept.need_of(plan, hidden)
    taken = kept.take(need)
    rules = taken or landlock.Ruleset(abi, reading=reading, tcp=plan.network == "off")
    changes = landlock.changes(abi)
    changing = [*plan.roots, b"/tmp", b"/dev/shm"]
    for path in changing:
        rules.allow(path, changes | reading)
    rules.allow(b"/dev", landlock.DEVICE | reading)
    if hidden:
        if plan.workspace not in plan.roots and not beneath_any(plan.workspace, hidden):
            rules.allow(plan.workspace, reading)
        if taken is None:
            allow_reading_beside(rules, hidden)
        else:
            for path in kept.own:  # the only names beside the masked paths that differ between cells
                if path not in (b"/dev", *changing):
                    rules.allow(path, reading, follow=False)
    rules.enforce()
    kept.leave()
    return None if taken is not None else need


def _allow_changing_beside(rules: landlock.Ruleset, root: bytes, hidden: "list[bytes]", rights: int) -> None:
    """Grant changes in a root except to hidden paths and in the folders that hold them. A hidden file that may be moved or linked
    could be read by the next command, under its other name.
    """
    ways = [way for way in ways_to(hidden) if beneath(way, root)]
    for way in ways:
        try:
            with os.scandir(way) as entries:
                paths = [entry.path for entry in entries]
        except OSError:
            continue
        for path in paths:
            if path not in ways and path not in hidden:
                rules.allow(path, rights, follow=False)


def _restrict_files_without_mounts(plan: Plan, abi: int) -> None:
    reading = landlock.READ_FILE | landlock.EXECUTE
    rules = landlock.Ruleset(abi, reading=reading, tcp=plan.network == "off")
    masked = [os.path.realpath(path) for path in plan.masked]
    hidden = [path for path in masked if os.path.lexists(path) or not beneath_any(path, plan.roots)]
    opened = open_pins(plan)
    for path in plan.roots:
        inside = [each for each in hidden if each != path and beneath(each, path)]
        if path not in opened or beneath_any(path, hidden):
            continue
        if inside:
            _allow_changing_beside(rules, path, inside, landlock.changes(abi))
        else:
            rules.allow_opened(opened[path], landlock.changes(abi))
    for descriptor in opened.values():
        os.close(descriptor)
    if plan.private_tmp:  # it is usually inside our own masked state
        rules.allow(plan.private_tmp, landlock.changes(abi) | reading)
    for name in _DEVICES:  # only these: the folder also has this user's terminals
        rules.allow(b"/dev/" + name, landlock.DEVICE | reading)
    if plan.own_terminal:
        rules.allow(plan.own_terminal, landlock.DEVICE | reading)
    allow_reading_beside(rules, [*hidden, b"/dev"])
    rules.enforce()
