"""The helper's forks: a process for one command, or one that waits for the next."""

import _socket
import marshal
import os
import select
from collections.abc import Callable

from . import confine, identity, kernel
from .inside import NOT_RUN, Cell, Surroundings, describe, report
from .plan import FULL, Kind, Plan

_NAMESPACES = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC  # of mounts: see `Cell`

Claims = tuple[list[bytes], list[bytes]]  # a command's roots and the names protected in them


class Started:
    """A process with a command of its own. `kind` is of a cell, None for other ways to run."""

    def __init__(self, pid: int, pidfd: int, kind: "Kind | None", claims: Claims) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.kind = kind
        self._claims = claims

    @property
    def used(self) -> bool:
        return True

    def claims(self) -> Claims:
        """Where its command may have left placeholders; to be asked when it is over."""
        return self._claims

    def close(self) -> None:
        os.close(self.pidfd)


class Spare(Started):
    """A process that waits for a command, which the server gives it."""

    def __init__(self, pid: int, pidfd: int, kind: Kind, ledger: int) -> None:
        super().__init__(pid, pidfd, kind, ([], []))
        self._ledger = ledger

    @property
    def used(self) -> bool:
        poll = select.poll()
        poll.register(self._ledger, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def claims(self) -> Claims:
        return marshal.loads(os.read(self._ledger, 1 << 16)) if self.used else self._claims

    def close(self) -> None:
        os.close(self._ledger)
        super().close()


def start(plan: Plan, descriptors: "list[int]", around: Surroundings) -> Started:
    """Fork the process that sets up, watches and ends the command. `descriptors`: stdout, stderr, status, then what to keep."""
    kind = None
    if plan.shape == FULL:
        kind = plan.kind
        confine.filter_program(plan.network, own_namespaces=True)
    claims = (plan.roots, plan.protected)
    pid, pidfd = _fork(around, kind, lambda cell: cell.run(plan, descriptors), descriptors[2])
    return Started(pid, pidfd, kind, claims)


def prepare(kind: Kind, around: Surroundings) -> "tuple[Spare, _socket.socket]":
    """Fork a process that waits for a command; the socket is where to send that. Closing that sends it away."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    try:
        pid, pidfd = _fork(around, kind, lambda cell: cell.wait(theirs, writer), -1)
    except OSError:
        ours.close()
        os.close(reader)
        raise
    finally:
        theirs.close()
        os.close(writer)
    return Spare(pid, pidfd, kind, reader), ours


def _fork(around: Surroundings, kind: "Kind | None", live: "Callable[[Cell], None]", status: int) -> "tuple[int, int]":
    own_network, owner = kind or (False, None)
    flags = _NAMESPACES if kind is not None else 0
    if own_network:
        flags |= kernel.CLONE_NEWNET
    gate, opener = os.pipe() if owner is not None else (-1, -1)
    cell = Cell(around, (os.geteuid(), os.getegid()), gate)
    pid, pidfd = kernel.clone(flags)
    if pid == 0:
        code = NOT_RUN
        try:
            live(cell)
            code = 0
        except BaseException as error:  # nothing may escape into the helper's own loop
            report(cell.status, b"failed " + describe(error))
        finally:
            os._exit(code)
    if owner is not None:
        os.close(gate)
        try:  # only root outside may map a user other than itself
            uid, gid = owner
            identity.write_maps(b"%d" % pid, (uid, uid), (gid, gid), privileged=True)
            os.write(opener, b"1")
        except OSError as error:
            report(status, b"failed " + describe(error))  # the child reads end-of-file and gives up
        finally:
            os.close(opener)
    return pid, pidfd
