"""Which process this is, in words by which another one on the same machine can tell whether it still lives.

So nobody there waits for the lease of a process that was killed.
"""

import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def host_name(folder: Path) -> str:
    """As the system called this machine when the state folder was first used with a database: containers are called otherwise each
    time that they are made, and what is in their folders stays theirs.
    """
    path = folder / "host.name"
    with suppress(OSError, UnicodeDecodeError):
        if written := path.read_text("ascii").strip():
            return written
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in socket.gethostname())
    name = name[:63] or "localhost"
    with suppress(OSError):  # it is called so, at least for as long as the system does
        made = path.with_name(f"host.name.{os.getpid()}")
        made.write_text(name + "\n", "ascii")
        made.replace(path)
    return name


@cache
def _machine() -> str | None:
    """This boot of this machine, and the space in which process ids mean the same. None where the system does not tell."""
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
    """True only where that is certain: it ran on this machine, and does not any more."""
    machine = _machine()
    if not process or machine is None or not process.startswith(machine + " "):
        return False
    pid, _, started = process.removeprefix(machine + " ").partition(" ")
    return pid.isdecimal() and _started(int(pid)) != started


def is_here(process: str | None) -> bool:
    """Whether its number means the same process to those who are told it here."""
    machine = _machine()
    return bool(process) and machine is not None and str(process).startswith(machine + " ")


def _started(pid: int) -> str:
    """When it began, in the kernel's own count; nothing for one that has ended, also where nobody has asked how yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
