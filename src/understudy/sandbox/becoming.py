"""A whole process of ours that becomes the doer, for good: what it executes later has no more rights than it."""

import os

from understudy.places.doer import Doer
from understudy.sandbox.cell import identity, kernel


def become(doer: Doer) -> None:
    """Raises OSError; then nothing may be done. For a process with one thread."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.drop_bounding_set()
    if doer.uid != os.geteuid() or not doer.with_groups:
        identity.become(doer.uid, doer.gid)
    kernel.drop_capabilities()
