"""Describes this process so that others on the same machine can tell whether it still lives.

They then need not wait for the lease of a process that was killed.
"""

import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def host_name(folder: Path) -> str:
    """The host name when the state folder was first used with a database. It is kept, because a container gets a new name each time
    that it is made, but its folder's conversations stay its own.
    """
    path = folder / "host.name"
    with suppress(OSError, UnicodeDecodeError):
        if written := path.read_text("ascii").strip():
            return written
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in socket.gethostname())
    name = name[:63] or "localhost"
    with suppress(OSError):  # if it cannot be kept, it stays the same at least while the system's name does
        made = path.with_name(f"host.name.{os.getpid()}")
        made.write_text(name + "\n", "ascii")
        made.replace(path)
    return name


@cache
def _machine() -> str | None:
    """This boot of this machine, and its PID namespace. None if the system does not tell."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return None


def identity() -> str:
    machine = _machine()
    return "" if machine is None else f"{machine} {os.getpid()} {_started(os.getpid())}"


def has_ended(process: str | None) -> bool:
    """True only if it is certain: it ran on this machine and is gone."""
    machine = _machine()
    if not process or machine is None or not process.startswith(machine + " "):
        return False
    pid, _, started = process.removeprefix(machine + " ").partition(" ")
    return pid.isdecimal() and _started(int(pid)) != started


def is_here(process: str | None) -> bool:
    """Whether its process id means the same here."""
    machine = _machine()
    return bool(process) and machine is not None and str(process).startswith(machine + " ")


def _started(pid: int) -> str:
    """When it began, in the kernel's clock ticks; empty if it has ended, or if the system is none that we can ask."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
