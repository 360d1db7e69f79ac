"""Keeps other programs of the same user out of this process: its environment and memory hold keys."""

import sys
from typing import Any

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """From here on nobody but root can read our environment, memory or descriptors, or trace us; nor is a core written.

    By the part of ctypes that is written in C: this is on the way to the first answers, and all of it takes four times as long.
    """
    if sys.platform != "linux":
        return
    try:
        import _ctypes

        whole_program: Any = None
        prctl = _ctypes.dlsym(_ctypes.dlopen(whole_program, 0), "prctl")
        _ctypes.call_function(prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        pass  # an interpreter without it works as well, but for this
