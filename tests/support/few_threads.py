"""Executes a command that gets few processes and threads: `python few_threads.py NUMBER COMMAND…`.

Root has no such limit, so the command gets another real user, of whom there are no other processes, and keeps root's files.
"""

import ctypes
import os
import resource
import sys

_CAPBSET_DROP, _SYS_ADMIN, _SYS_RESOURCE = 24, 21, 24
_FIRST = 1 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[1]), int(sys.argv[1])))
    for capability in (_SYS_ADMIN, _SYS_RESOURCE):
        if ctypes.CDLL(None).prctl(_CAPBSET_DROP, capability, 0, 0, 0):
            sys.exit("wants root")
    os.setresuid(_FIRST + os.getpid(), 0, 0)
    os.execv(sys.argv[2], sys.argv[2:])


main()
