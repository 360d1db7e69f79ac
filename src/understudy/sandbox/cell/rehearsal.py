"""Going through a command's steps with nothing in hand, while there is time.

Whatever a forked process touches for the first time, the kernel copies for it, page by page. A waiting cell that has been
through the same code once has that behind it when its command comes. No call here can change anything: each is given
a descriptor or a name that cannot be.
"""

import _socket
import os
import sys
from collections.abc import Callable

from understudy.places.walking import real_paths

from . import confine, kernel, landlock, placeholder, supervise
from .guards import Guards
from .inside import Surroundings, is_missing, receive
from .mounts import View
from .orders import Orders
from .plan import FULL, Plan

_NOTHING = b""
_NO_FOLDER = b"/proc/self/nothing"


def rehearse(around: Surroundings, is_time: Callable[[], bool]) -> None:
    """`is_time`: the command has come, and the rest is better done for it than in vain."""
    plan = _order()
    for step in (_view, _fail, _confine, _watch):
        if is_time():
            return
        step(around, plan)


def _view(around: Surroundings, plan: Plan) -> None:
    View(plan, around.machine, outer_root=False)
    real_paths([os.fsdecode(_NO_FOLDER)], set())


def _fail(around: Surroundings, plan: Plan) -> None:
    for attempt in _vain_attempts():
        try:
            attempt()
        except OSError:
            pass


def _confine(around: Surroundings, plan: Plan) -> None:
    confine.limit_open_files(plan)
    rules = landlock.Ruleset(around.abi, reading=landlock.READ_FILE, tcp=True)
    rules.allow(b"/dev", landlock.DEVICE)
    rules.allow_reading(b"/dev", [b"null"])
    rules.close()
    is_missing(_NO_FOLDER)


def _watch(around: Surroundings, plan: Plan) -> None:
    guards = Guards(plan, own_proc=True, count_processes=False, private_tmp=b"")
    orders = Orders(around.alive, around.alive, around.recall)
    orders.wait(0)
    supervise.Watch(-1, supervise.Namespace(), guards, orders).run()


def _order() -> Plan:
    """A command that is sent to ourselves and received."""
    plan = Plan(shape=FULL, argv=[b"true"], environment={}, cwd=b"/", roots=[_NO_FOLDER], masked=[_NO_FOLDER], disk_free_mb=1)
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    rights = ours.fileno().to_bytes(4, sys.byteorder)
    ours.sendmsg([plan.pack()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    message, descriptors = receive(theirs, 1)
    ours.close()
    theirs.close()
    for descriptor in descriptors:
        os.close(descriptor)
    return Plan.unpack(message)


def _vain_attempts() -> "tuple[Callable[[], object], ...]":
    return (
        lambda: kernel.mount(_NOTHING, _NOTHING, _NOTHING, 0),
        lambda: kernel.open_tree(_NOTHING, directory=-1),
        lambda: kernel.attach(-1, _NOTHING, directory=-1),
        lambda: kernel.set_mount(_NOTHING, 0, directory=-1),
        lambda: os.mkdir(_NOTHING, 0o755),
        lambda: os.mknod(_NOTHING, 0o100666),
        lambda: os.symlink(_NOTHING, _NOTHING),
        lambda: os.open(_NOTHING, os.O_RDONLY | os.O_CLOEXEC),
        lambda: os.chdir(_NOTHING),
        lambda: placeholder.remove(_NO_FOLDER),
    )
