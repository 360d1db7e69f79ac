"""The helper's loop: takes requests, forks, returns a descriptor of each new process, and cleans up after those that have ended."""

import _socket
import gc
import marshal
import math
import os
import select
import sys
import time

from . import confine, identity, kernel, placeholder, spawn, supervise
from .inside import HelperState, receive
from .kept_rules import Need
from .plan import FULL, LANDLOCK, Kind, Plan

_MOST_DESCRIPTORS = 8
_SWEEPS = 20
# After a result, the server has more urgent work than we, and the model takes its time. If the model answers at once, a command
# takes 9.6 ms with this wait, 10.5 without it, and up to 15 with a wait of 3 ms, which ends just as the next command comes.
_LATER = 0.005
_MOST_SPARES = 2  # if commands come faster than cells are prepared, one takes 4.9 ms with two spares and 5.9 with one


Spare = tuple[Kind, int]  # its kind and process
Prepared = tuple[Kind, spawn.Started, _socket.socket]  # a spare, and the socket for its command
Message = tuple[int, str, "str | int | dict[str, str] | tuple[int, Spare | None]"]


class HelperServer:
    def __init__(self, control: int) -> None:
        self._control = _socket.socket(fileno=control)
        alive = os.pidfd_open(os.getpid())  # not a pipe, whose other end a newly forked cell would hold open
        self._around = HelperState(alive=alive, recall=os.eventfd(0))
        self._running: dict[int, spawn.Started] = {}  # by pidfd, until they are reaped
        self._ledgers: dict[int, spawn.Started] = {}  # by ledger, until the command is over
        self._spares: list[spawn.Started] = []  # the server may have used some of them already
        self._ended: list[tuple[int, Kind, list[bytes]]] = []  # process, kind and placeholders of ended cells that need cleaning up
        self._needs: list[Need | None] = []
        self._due = 0.0
        self._held = math.inf  # the time until which commands may run; the server extends it
        self._poll = select.poll()
        self._poll.register(self._control.fileno(), select.POLLIN)
        if (table := self._around.kept_rules.table) >= 0:
            self._poll.register(table, select.POLLPRI)

    def run(self) -> None:
        """Serve until the server is gone or has been silent for too long; then end everything and leave."""
        try:
            self._send((0, "probed", self._probe()))
            while True:
                for descriptor, _ in self._poll.poll(self._patience()):
                    if descriptor in self._ledgers:
                        self._note_end(self._ledgers[descriptor])
                    elif descriptor in self._running:
                        self._collect(self._running[descriptor])
                    elif descriptor == self._around.kept_rules.table:
                        self._around.kept_rules.mounts_changed()
                    elif descriptor == self._control.fileno() and not self._take():
                        return
                if self._ended and self._due <= time.monotonic():
                    self._clear_up()
                if time.monotonic() >= self._held:
                    return  # the server is suspended, and others may have what it held
        except OSError:
            return  # the server does not read any more
        finally:
            self._end_all()

    def _take(self) -> bool:
        message, descriptors = receive(self._control, _MOST_DESCRIPTORS)
        if not message:
            return False
        identifier, packed = marshal.loads(message)
        if identifier == 0:
            self._held = packed
            return True
        if packed is None:  # too large for one message, so it comes in a file
            packed = _read_all(descriptors.pop())
        try:
            plan = Plan.unpack(packed)
            started = spawn.start(plan, descriptors, self._around)
        except OSError as error:
            self._send((identifier, "failed", f"cannot start a process: {error.strerror}"))
        else:
            self._keep(started)
            self._send((identifier, "started", started.pid), started.pidfd)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _keep(self, started: spawn.Started) -> None:
        self._running[started.pidfd] = started
        self._poll.register(started.pidfd, select.POLLIN)
        if started.ledger >= 0:
            self._ledgers[started.ledger] = started
            self._poll.register(started.ledger, 0)  # only to learn that it was closed

    def _send(self, message: Message, *descriptors: int) -> None:
        rights = []
        if descriptors:
            packed = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in descriptors)
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)]
        self._control.sendmsg([marshal.dumps(message)], rights)

    def _note_end(self, cell: spawn.Started) -> None:
        """The cell's command is over, and the server has its result; the cell itself is about to end."""
        self._poll.unregister(cell.ledger)
        del self._ledgers[cell.ledger]
        if cell in self._spares:
            self._spares.remove(cell)
        covers = cell.covers()
        if covers is None or cell.kind is None:  # the cell was never used
            self._tell_over(cell.pid, None)
            return
        self._needs.append(cell.need)
        self._due = self._due or time.monotonic() + _LATER
        self._ended.append((cell.pid, cell.kind, covers))

    def _patience(self) -> "int | None":
        """Milliseconds until something has to be cleaned up or ended."""
        until = min(self._due, self._held) if self._ended else self._held
        return None if until == math.inf else max(0, math.ceil((until - time.monotonic()) * 1000))

    def _clear_up(self) -> None:
        """Prepare a cell for the next command, and remove what ended cells left."""
        self._due = 0.0
        while self._needs:
            self._around.kept_rules.used(self._needs.pop())
        while self._ended:
            pid, kind, covers = self._ended[0]
            prepared = self._prepare(kind)  # first, because the new cell then works by itself meanwhile
            placeholder.remove_each(covers, kernel.open_plain)
            self._tell_over(pid, prepared)
            del self._ended[0]

    def _collect(self, started: spawn.Started) -> None:
        if started.ledger in self._ledgers:
            self._note_end(started)
        self._poll.unregister(started.pidfd)
        del self._running[started.pidfd]
        started.close()
        if _ended_badly(started.pid):
            self._end_orphans()

    def _prepare(self, kind: Kind) -> "Prepared | None":
        """A command has ended, and a similar one is likely, so fork a cell for it. None if that fails."""
        self._spares = [spare for spare in self._spares if not spare.used]
        if len(self._spares) >= _MOST_SPARES:
            return None
        try:
            spare, orders = spawn.prepare(kind, self._around)
        except OSError:
            return None  # if the reason persists, the next command reports it
        self._spares.append(spare)
        self._keep(spare)
        return kind, spare, orders

    def _tell_over(self, pid: int, prepared: "Prepared | None") -> None:
        """Report that nothing is left of the command in `pid`, and pass on a new spare cell."""
        if prepared is None:
            self._send((0, "over", (pid, None)))
            return
        kind, spare, orders = prepared
        self._send((0, "over", (pid, (kind, spare.pid))), spare.pidfd, orders.fileno())
        orders.close()

    def _end_orphans(self) -> None:
        """If a watching process was killed, its children become ours; end them."""
        for _ in range(_SWEEPS):
            known = {started.pid for started in self._running.values()}
            orphans = [pid for pid in supervise.children_of(os.getpid()) if pid not in known]
            if not orphans:
                return
            for pid in orphans:
                supervise.send(pid, supervise.KILL)
            supervise.wait_until_gone(orphans, 0.5)

    def _end_all(self) -> None:
        left = list(self._running.values())
        os.eventfd_write(self._around.recall, 1)
        supervise.wait_until_gone([started.pid for started in left], 2.0)
        for started in left:
            supervise.send(started.pid, supervise.KILL)
            placeholder.remove_each(started.covers() or [])
        for _, _, covers in self._ended:
            placeholder.remove_each(covers)
        self._running.clear()
        self._end_orphans()

    def _probe(self) -> "dict[str, str]":
        """Try each way to contain a command, by running nothing: why it does not work, or empty. "notes" describe those that
        work."""
        if not kernel.NUMBERS:
            return dict.fromkeys((FULL, LANDLOCK), "this type of machine is not supported") | {"notes": ""}
        if not self._around.abi:
            return dict.fromkeys((FULL, LANDLOCK), "the kernel has no Landlock, or it is not enabled") | {"notes": ""}
        full, notes = self._try(FULL)
        landlock, _ = self._try(LANDLOCK)
        return {FULL: full, LANDLOCK: landlock, "notes": f"{notes} landlock {self._around.abi}"}

    def _try(self, shape: str) -> "tuple[str, str]":
        """Why it does not work here, or empty; and what the attempt noted."""
        reader, writer = os.pipe()
        null = os.open(b"/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        plan = Plan(shape=shape, argv=[], environment={}, cwd=b"/")
        try:
            started = spawn.start(plan, [null, null, writer], self._around)
        except OSError as error:
            os.close(reader)
            return str(error.strerror), ""
        finally:
            os.close(writer)
            os.close(null)
        os.waitpid(started.pid, 0)
        started.close()
        lines = os.read(reader, 4096).decode(errors="replace").splitlines()
        os.close(reader)
        notes = " ".join(line.removeprefix("note ") for line in lines if line.startswith("note "))
        failures = [line.removeprefix("failed ") for line in lines if line.startswith("failed ")]
        return ("" if "exit 0" in lines else failures[0] if failures else "the attempt died"), notes


def _ended_badly(pid: int) -> bool:
    try:
        return os.waitpid(pid, 0)[1] != 0
    except ChildProcessError:
        return False


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    os.close(descriptor)
    return content


def main(control: int) -> None:
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    supervise.leave_interrupts_to_the_kernel()
    identity.prefer_for_oom()  # before we hide our memory, because these files then belong to root
    identity.hide_memory(True)
    helper = HelperServer(control)
    for network in ("off", "loopback"):
        confine.filter_program(network, own_namespaces=True)
    gc.freeze()
    gc.disable()
    helper.run()
