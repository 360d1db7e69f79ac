"""Gives a program its terminal if no process of ours does that: inside bubblewrap, and on systems other than Linux."""

import os
import sys

from understudy.errors import SandboxError

_SETSID = ("/usr/bin/setsid", "/bin/setsid")  # of util-linux or BusyBox
_TAKE = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(error, file=sys.stderr, flush=True)
    os._exit(127 if error.errno == 2 else 126)
"""


def in_session_of_its_own() -> tuple[str, ...]:
    """Words to put before a command line inside bubblewrap, so that Ctrl-C reaches only the command and not bubblewrap."""
    program = next((path for path in _SETSID if os.path.exists(path)), None)
    if program is None:  # the workspace's owner may not be able to run our own Python
        raise SandboxError(
            "bubblewrap gives terminals to commands by the program setsid, which is not installed (package util-linux)"
        )
    return (program, "-c")


def at_head_of_session() -> tuple[str, ...]:
    """Words to put before the command line of a process that already leads a session."""
    return (sys.executable, "-I", "-S", "-c", _TAKE)
