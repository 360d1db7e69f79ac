"""Which ways to contain a command work on this machine, which one is used, and what each of them leaves open.

Tried in this order: full, landlock, bubblewrap. If none works, commands are refused, never run without containment.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from understudy.errors import SandboxError
from understudy.sandbox.helper import probe_helper
from understudy.sandbox.spec import RungName

FORCED_BY = "UNDERSTUDY_SANDBOX_RUNG"
_WITH_MOVES, _WITH_TRUNCATION, _WITH_SCOPES, _NEWEST = 2, 3, 6, 7  # versions of Landlock

_WEAKER: dict[RungName, tuple[str, ...]] = {
    "full": (),
    "landlock": (
        "protected names such as .git can be changed inside writable roots, and roots inside others moved or removed",
        "nothing can be made, moved or removed in a folder of a writable root that holds a masked path",
        "modes and times of files outside the writable roots can be changed (their content cannot)",
        "/tmp is not private: TMPDIR points to a folder of the conversation and /tmp is read-only",
        "/dev/shm is read-only, so named semaphores and Python's multiprocessing locks fail",
        'network mode "loopback" is treated as "off"',
        "other processes are visible in /proc, and their priority can be changed",
    ),
    "bubblewrap": (
        "there is no Landlock beneath the mounts",
        "links to protected names in writable roots can be replaced (a command that does it is ended)",
        "named pipes outside the writable roots can be written to",
    ),
    "seatbelt": ("written for macOS from its documentation and not proven there",),
}
_INSTALL: dict[RungName, str] = {
    "full": "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns; in a container: a seccomp profile that permits unshare and mount) "
    "on Linux 5.13 or newer with Landlock",
    "landlock": "run Linux 5.13 or newer with Landlock enabled (lsm=landlock,… on the kernel command line)",
    "bubblewrap": "install the package bubblewrap",
    "seatbelt": "run on macOS, where /usr/bin/sandbox-exec is part of the system",
}


@dataclass(frozen=True)
class Rung:
    """One way to contain commands: whether it works here, if not why, what it leaves open, and what would make it work."""

    name: RungName
    available: bool
    reason: str
    weaker: tuple[str, ...]
    install: str


def make_rung(name: RungName, reason: str, *, also_weaker: tuple[str, ...] = ()) -> Rung:
    return Rung(name, not reason, reason, (*_WEAKER[name], *also_weaker), _INSTALL[name] if reason else "")


def rungs_from(probed: Mapping[str, str], bubblewrap: str) -> tuple[Rung, ...]:
    """`probed`: what the helper found; `bubblewrap`: why that does not work, or empty."""
    notes = probed["notes"]
    shared = ("processes of the surrounding container are visible in /proc",) if "shared proc" in notes else ()
    return (
        make_rung("full", probed["full"], also_weaker=shared),
        make_rung("landlock", probed["landlock"], also_weaker=(*_of_root(), *_missing_scopes(notes))),
        make_rung("bubblewrap", bubblewrap),
    )


def _of_root() -> tuple[str, ...]:
    """What a server run by root cannot do without user namespaces."""
    if os.geteuid() != 0:
        return ()
    return ("commands in a folder that belongs to root are refused, because they would run as root",)


def _missing_scopes(notes: str) -> tuple[str, ...]:
    """What the kernel's version of Landlock cannot do yet."""
    word = notes.rpartition("landlock ")[2]
    version = int(word) if word.isdigit() else _NEWEST
    missing: list[str] = []
    if version < _WITH_MOVES:
        missing.append("files cannot be moved between folders (Linux 5.19 mends this)")
    if version < _WITH_TRUNCATION:
        missing.append("files outside the writable roots can be emptied (Linux 6.2 closes this)")
    if version < _WITH_SCOPES:
        missing.append("other processes of the same user can be signalled (Linux 6.12 closes this)")
    return tuple(missing)


def choose(rungs: tuple[Rung, ...], forced: str | None) -> Rung:
    """The strongest rung that works, or the forced one. Raises SandboxError if that is none."""
    if forced is not None and forced not in {rung.name for rung in rungs}:
        raise SandboxError(f"{FORCED_BY} is {forced!r}; it can be {', '.join(rung.name for rung in rungs)}")
    candidates = [rung for rung in rungs if forced is None or rung.name == forced]
    for rung in candidates:
        if rung.available:
            return rung
    if not candidates:
        raise SandboxError(
            "commands cannot be contained on this platform, so they are not run; danger-full-access runs them as they are"
        )
    tried = "; ".join(f"{rung.name}: {rung.reason} (to change that, {rung.install})" for rung in candidates)
    raise SandboxError(
        "commands cannot be contained on this machine, so they are not run. "
        f"{tried}. Or choose danger-full-access if the machine itself is the sandbox."
    )


def find_bubblewrap() -> str | None:
    import shutil  # slow to load and rarely needed

    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")


def try_bubblewrap() -> str:
    """Why bubblewrap does not work here, or empty. Takes some milliseconds."""
    program = find_bubblewrap()
    if program is None:
        return "bwrap is not installed"
    trial = [program, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    try:
        done = subprocess.run(
            trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False, env={"PATH": os.defpath}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not work: {error}"
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or f"bwrap exits with {done.returncode}"


def describe_rungs() -> tuple[Rung, ...]:
    """Try every rung of this platform now. Blocks for some tens of milliseconds: for `doctor`, not for the server."""
    if sys.platform == "darwin":
        return (make_rung("seatbelt", "" if os.path.exists("/usr/bin/sandbox-exec") else "there is no /usr/bin/sandbox-exec"),)
    if sys.platform != "linux":
        return ()

    try:
        probed = probe_helper()
    except OSError as error:
        probed = {"full": str(error), "landlock": str(error), "notes": ""}
    return rungs_from(probed, try_bubblewrap())


def forced_rung() -> str | None:
    return os.environ.get(FORCED_BY) or None
