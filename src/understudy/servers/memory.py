"""Keeps other programs of the same user out of this process: its environment and memory hold keys."""

import sys

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """From here on nobody but root can read our environment, memory or descriptors, or trace us; nor is a core written."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, AttributeError, OSError):
        pass  # an interpreter without it works as well, but for this
