"""The helper's forks: a process for one command, or a cell that waits for the next."""

import _socket
import io
import marshal
import os
import select
from collections.abc import Callable

from . import confine, identity, kernel
from .inside import NOT_RUN, Cell, HelperState, describe, report
from .kept_rules import Need
from .plan import FULL, Kind, Plan

_NAMESPACES = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC  # mount namespaces come later: see `Cell`


class Started:
    """A process with a command, or one that waits for it."""

    def __init__(self, pid: int, pidfd: int, kind: "Kind | None", ledger: int) -> None:
        """`kind`: of a cell, None for other ways to run; `ledger`: see `Cell`, -1 for other ways to run."""
        self.pid = pid
        self.pidfd = pidfd
        self.kind = kind
        self.ledger = ledger
        self.need: Need | None = None  # the ruleset that it had to make itself; known once its placeholders were asked for

    @property
    def used(self) -> bool:
        """Whether a cell was given a command."""
        poll = select.poll()
        poll.register(self.ledger, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    def covers(self) -> "list[bytes] | None":
        """The placeholders that a cell has made, None if it was not used. Ask only once its command is over."""
        written = b""
        try:
            while self.ledger >= 0 and (block := os.read(self.ledger, 1 << 16)):
                written += block
        except BlockingIOError:
            pass  # it cannot even be killed
        if not written:
            return None
        paths, self.need = _read(written[1:])
        return paths

    def close(self) -> None:
        os.close(self.pidfd)
        if self.ledger >= 0:
            os.close(self.ledger)


def _read(ledger: bytes) -> "tuple[list[bytes], Need | None]":
    """The placeholders and the ruleset that the cell reported; either may be missing."""
    paths: list[bytes] = []
    need: Need | None = None
    stream = io.BytesIO(ledger)
    while stream.tell() < len(ledger):
        try:
            told: list[bytes] | Need = marshal.load(stream)
        except (EOFError, ValueError):
            break  # the pipe was full, or the cell was killed while it wrote
        if isinstance(told, tuple):
            need = told
        else:
            paths += told
    return paths, need


def start(plan: Plan, descriptors: "list[int]", around: HelperState) -> Started:
    """Fork the process that sets up, watches and ends the command. `descriptors`: stdout, stderr, status, then the command's
    own."""
    if plan.shape != FULL:
        return Started(*_fork(around, None, lambda cell: cell.run(plan, descriptors), descriptors[2]), None, -1)
    confine.filter_program(plan.network, own_namespaces=True, unix_sockets=plan.unix_sockets)
    with _Ledger() as ledger:
        pid, pidfd = _fork(around, plan.kind, lambda cell: cell.run(plan, descriptors, ledger.writer), descriptors[2])
        return Started(pid, pidfd, plan.kind, ledger.keep())


def prepare(kind: Kind, around: HelperState) -> "tuple[Started, _socket.socket]":
    """Fork a process that waits for a command, which is sent over the returned socket. Closing the socket ends the process.

    A command that finds such a process takes 10.5 ms instead of 13.9, including the model's two answers.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        with _Ledger() as ledger:
            pid, pidfd = _fork(around, kind, lambda cell: cell.wait(kind, theirs, ledger.writer), -1)
            return Started(pid, pidfd, kind, ledger.keep()), ours
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()


class _Ledger:
    """A pipe from a cell to the helper, which reads it only when it has to."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)

    def __enter__(self) -> "_Ledger":
        return self

    def keep(self) -> int:
        reader, self._reader = self._reader, -1
        return reader

    def __exit__(self, *_: object) -> None:
        os.close(self.writer)
        if self._reader >= 0:
            os.close(self._reader)


def _fork(around: HelperState, kind: "Kind | None", live: "Callable[[Cell], None]", status: int) -> "tuple[int, int]":
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
        except BaseException as error:  # no error may reach the helper's own loop
            report(cell.status, (b"lost " if cell.begun else b"failed ") + describe(error))
        finally:
            os._exit(code)
    if owner is not None:
        os.close(gate)
        try:  # only root outside may map another user
            uid, gid = owner
            identity.write_maps(b"%d" % pid, (uid, uid), (gid, gid), privileged=True)
            os.write(opener, b"1")
        except OSError as error:
            report(status, b"failed " + describe(error))  # the child reads end-of-file and ends
        finally:
            os.close(opener)
    return pid, pidfd
