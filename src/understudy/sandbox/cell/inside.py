"""The forked process, from its first step to the command's end.

Namespaces and ids do not depend on the command, so a cell can set them up ahead and wait. What depends on files, mounts or the
command is done once the command is known.
"""

import _socket
import fcntl
import marshal
import os
import select
import sys
from collections.abc import Callable

from . import confine, identity, kernel, landlock, supervise
from .covering import Covered
from .exposure import MountWatch, NameWatch
from .guards import LimitGuards
from .kept_rules import KeptRules, Need
from .mounts import Machine, View
from .orders import BEGIN, Orders
from .plan import BUBBLEWRAP, FULL, LANDLOCK, PLAIN, Kind, Plan
from .programs import Terminal, execute
from .roots import open_pins
from .supervise import CommandWatch, Descendants, Namespace

NOT_RUN = 125
_ESTALE = 116
_SIOCSIFFLAGS = 0x8914
_STREAMS = 3  # stdout, stderr, status
_RECEIVE = 1 << 16
_USED = b"\0"
_MOST_TOLD = 1 << 15  # less than a pipe holds, because nobody reads the ledger before the end


class HelperState:
    """What the helper has open and knows; shared by all its children."""

    def __init__(self, *, alive: int, recall: int) -> None:
        self.alive = alive  # becomes readable when the helper is gone
        self.recall = recall  # becomes readable when the helper wants everything to end
        self.abi = landlock.version()
        self.machine = Machine()
        self.kept_rules = KeptRules(self.abi, self.machine.covered)


def describe(error: BaseException) -> bytes:
    text = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        text += f": {os.fsencode(error.filename).decode(errors='backslashreplace')}"
    return text.encode(errors="backslashreplace").replace(b"\n", b" ")[:1000]


def report(status: int, text: bytes) -> None:
    try:
        os.write(status, text + b"\n")
    except OSError:
        pass


class Cell:
    """The process above one command. If it raises anything, the command was not run.

    A full cell has a ledger, a pipe that tells the helper four things: that there is a command, which placeholders were made for
    it, which rules the cell had to make itself, and, by being closed, that the server has been told of the end.
    """

    _plan: Plan

    def __init__(self, around: HelperState, ids: "tuple[int, int]", gate: int) -> None:
        """`ids`: user and group of the helper; `gate`: becomes readable when the helper has mapped the workspace's owner, or -1."""
        self._around = around
        self._ids = ids
        self._gate = gate
        self._out = self._err = self.status = -1
        self._kept: list[int] = []
        self._input = -1
        self._ledger = -1
        self._view: View | None = None
        self._need: Need | None = None
        self._terminal: Terminal | None = None
        self._names: MountWatch | NameWatch = NameWatch([])
        self._covered = Covered([], None)
        self._running = 0
        self.begun = False  # whether the command is running, so that a later failure does not mean that it was not run

    def run(self, plan: Plan, descriptors: "list[int]", ledger: int = -1) -> None:
        self._shed({*descriptors, ledger}, in_cell=plan.shape == FULL)
        self._take(plan, descriptors, ledger)
        if plan.shape == FULL:
            self._move_in()
            self._live()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            self._covered = Covered(plan.covered, plan.owner)
            try:
                self._run_outside()
            finally:
                self._covered.remove()

    def _run_outside(self) -> None:
        plan, covered = self._plan, self._covered
        if plan.shape == BUBBLEWRAP:  # it is given paths
            for descriptor in open_pins(plan).values():
                os.close(descriptor)
        if covered.shown:
            # the server removes them if we are killed
            report(self.status, b"\n".join([b"stray " + path.hex().encode() for path in covered.shown]))
            plan.argv[plan.covered_at : plan.covered_at] = covered.words
        self._watch(self._spawn_plain if plan.shape == PLAIN else self._fork_restricted, Descendants())

    def wait(self, kind: Kind, orders: _socket.socket, ledger: int) -> None:
        """Prepare, then run the command that comes over `orders`, if one comes."""
        self._shed({orders.fileno(), ledger}, in_cell=True)
        failure: OSError | None = None
        try:
            self._move_in()
        except OSError as error:
            failure = error  # reported to the command that would have used this cell
        if not self._is_wanted(orders):
            return
        message, descriptors = receive(orders, _STREAMS)
        if len(descriptors) < _STREAMS:
            return  # the server is gone, or does not need us
        self._take(Plan.unpack(message), descriptors, ledger)
        if failure is not None:
            raise failure
        if self._plan.kind != kind:
            raise OSError(22, "this cell is of another kind")
        self._live()

    def _is_wanted(self, orders: _socket.socket) -> bool:
        """True once there is a message, False once the helper is gone."""
        poll = select.poll()
        poll.register(orders.fileno(), select.POLLIN)
        leaving = (self._around.alive, self._around.recall)
        for descriptor in leaving:
            poll.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        return not any(descriptor in ready for descriptor in leaving)

    def _take(self, plan: Plan, descriptors: "list[int]", ledger: int) -> None:
        self._plan = plan
        self._ledger = ledger
        if ledger >= 0:
            os.write(ledger, _USED)
        self._out, self._err, self.status = descriptors[:_STREAMS]
        self._kept = descriptors[_STREAMS:]
        self._input = self._kept.pop() if plan.has_input else -1

    def _shed(self, kept: "set[int]", *, in_cell: bool) -> None:
        supervise.block_signals()
        rules = self._around.kept_rules.descriptors if in_cell else set[int]()
        _close_all_but({*kept, *rules, self._around.alive, self._around.recall, self._gate})

    def _move_in(self) -> None:
        """Take on our user ids in the new namespaces."""
        identity.hide_memory(False)  # otherwise the kernel would not let us write our own id map
        uid, gid = self._ids
        if self._gate >= 0:
            if not os.read(self._gate, 1):
                raise OSError(1, "the helper could not map the workspace's owner")
            os.close(self._gate)
        else:
            inside = (identity.NOBODY, identity.NOBODY) if uid == 0 else self._ids
            identity.write_maps(b"self", (inside[0], uid), (inside[1], gid), privileged=False)
        identity.hide_memory(True)
        kernel.drop_bounding_set()

    def _live(self) -> None:
        """Do all that depends on the command and on the files as they are now."""
        identity.hide_memory(False)  # we need our own entries in /proc
        self._build_view()
        identity.hide_memory(True)
        self._watch(self._spawn_restricted, Namespace())

    def _watch(self, start: "Callable[[], int | None]", everything: "Namespace | Descendants") -> None:
        view = self._view
        own_proc, count = (view.own_proc, view.counts_processes) if view is not None else (False, False)
        private_tmp = self._plan.private_tmp if view is None else b"/tmp" if view.has_private_tmp else b""
        # Before the start, because a command can fill a disk in no time.
        guards = LimitGuards(self._plan, own_proc=own_proc, count_processes=count, private_tmp=private_tmp)
        self._names = NameWatch(self._plan.watched, self._covered.shown) if view is None else view.watch
        if self._plan.terminal:
            self._terminal = Terminal(self.status, self._plan.owner if view is None else None)
            self._plan.own_terminal = self._terminal.path
        command = start()
        if command is None:
            return
        self.begun = True
        for descriptor in {self._out, self._err, *self._kept, self._input} - {-1}:
            os.close(descriptor)
        watch = CommandWatch(command, everything, guards, self._names, self._orders(), self._plan.grace_seconds)
        ended = watch.run()
        if view is not None:
            view.release()
        self._covered.remove()
        report(self.status, ended)
        if self._ledger >= 0:
            self._tell_need()
            os.close(self._ledger)

    def _build_view(self) -> None:
        plan = self._plan
        # Only now: an earlier copy would lack later mounts, and would keep unmounted file systems in use.
        kernel.unshare(kernel.CLONE_NEWNS)
        if plan.processes and not self._around.machine.counts_per_namespace:
            self._running = confine.processes_of(os.geteuid())
        view = View(plan, self._around.machine, outer_root=self._ids[0] == 0 and plan.owner is None)
        view.open_private()
        if plan.owner is not None:
            identity.become(*plan.owner)
        self._view = view
        try:
            view.build()
        finally:
            self._tell_placeholders(view.placeholders())
        if not view.own_proc:
            report(self.status, b"note shared proc")
        plan.roots = view.roots
        if plan.network == "loopback":
            _raise_loopback()

    def _tell_placeholders(self, paths: "list[bytes]") -> None:
        """Tell the helper, which removes them after us; if it is gone, or if they are too many to tell, the server removes them."""
        if not paths:
            return
        told = marshal.dumps(paths)
        word = b"cover " if len(told) < _MOST_TOLD else b"stray "
        if len(told) < _MOST_TOLD:
            os.write(self._ledger, told)
        report(self.status, b"\n".join([word + path.hex().encode() for path in paths]))

    def _tell_need(self) -> None:
        if self._need is not None:
            os.set_blocking(self._ledger, False)  # a user with many pipes gets small ones, and nobody reads before the end
            try:
                os.write(self._ledger, marshal.dumps(self._need))
            except OSError:
                pass  # the helper is gone, or the pipe is full: this message only saves time

    def _orders(self) -> Orders:
        orders = Orders(self.status, self._around.alive, self._around.recall)
        self._names.hints.wake(orders)
        return orders

    # Three ways from here to the command

    def _spawn_restricted(self) -> int | None:
        """In a PID namespace we can take on the command's restrictions, too: nobody inside can end or inspect process 1."""
        if not self._change_folder():
            return None
        confine.limit(self._plan, running=self._running)
        confine.limit_open_files(self._plan)
        self._need = confine.restrict(self._plan, self._around.abi, self._around.kept_rules)
        return self._spawn() if self._may_begin() else None

    def _spawn_plain(self) -> int | None:
        if not self._change_folder():
            return None
        confine.limit_open_files(self._plan)
        return self._spawn() if self._may_begin() else None

    def _fork_restricted(self) -> int | None:
        """Without a PID namespace the command could kill us if we had its restrictions, so only the child takes them on."""
        owner = self._plan.owner
        if self._plan.processes:
            self._running = confine.processes_of(owner[0] if owner else os.geteuid())
        if not self._may_begin():
            return None
        command = os.fork()
        if command:
            return command
        code = NOT_RUN
        try:
            os.setsid()
            if owner is not None:
                identity.become(*owner)
            kernel.prctl(kernel.PR_SET_PDEATHSIG, supervise.KILL)
            if not self._change_folder():
                return None
            self._arrange_descriptors()
            if self._terminal is not None and self._plan.shape != BUBBLEWRAP:  # inside bubblewrap another process does it
                self._terminal.take()
            confine.limit(self._plan, running=self._running)
            confine.limit_open_files(self._plan)
            supervise.unblock_signals()
            if self._plan.shape == LANDLOCK:
                confine.restrict(self._plan, self._around.abi, self._around.kept_rules)
            if self._plan.argv:
                error = execute(self._plan, lambda program, argv: os.execve(program, argv, self._plan.environment))
                report(self.status, b"exec %d" % error)
            code = 0
        except BaseException as error:
            report(self.status, b"failed " + describe(error))
        finally:
            os._exit(code)

    def _may_begin(self) -> bool:
        """If the plan says so, wait until we may begin. False if the command should not begin after all."""
        held, orders = self._plan.held, self._orders()
        self._check_names()  # changes before there was a watch were not reported
        order = orders.wait(None if held else 0)
        while order in (None, BEGIN) and self._names.hints.given(orders.ready):  # also a hint that comes with the order
            self._check_names()
            if order is None:
                order = orders.wait(None if held else 0)
            else:
                break
        if order == (BEGIN if held else None):
            return True
        if self._view is not None:
            self._view.release()
        report(self.status, b"signal %d" % supervise.KILL)
        return False

    def _check_names(self) -> None:
        if (path := self._names.exposed()) is not None:
            raise OSError(_ESTALE, "another program replaced it just now", path)

    def _change_folder(self) -> bool:
        try:
            os.chdir(self._plan.cwd)
        except OSError as error:
            report(self.status, b"chdir %d" % (error.errno or 0))
            return False
        if self._plan.folder is not None:
            here = os.stat(b".")
            if (here.st_dev, here.st_ino) != self._plan.folder:
                report(self.status, b"failed another folder stands there now")
                return False
        return True

    def _arrange_descriptors(self) -> None:
        """Put stdout, stderr and the status pipe, which closes on exec, on 1 to 3, then the command's own. 0 is already
        /dev/null."""
        outputs = (self._out, self._err)
        if self._terminal is not None:
            outputs = (self._terminal.descriptor, self._terminal.descriptor)
            os.dup2(self._terminal.descriptor, 0)
            self._terminal.descriptor = 0
        if self._input >= 0:
            os.dup2(self._input, 0)
        wanted = [*outputs, self.status, *self._kept]
        if min(wanted) <= len(wanted):
            wanted = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in wanted]
        for target, source in enumerate(wanted, 1):
            os.dup2(source, target, inheritable=target != 3)
        self.status = 3
        kernel.close_range(len(wanted) + 1)

    def _spawn(self) -> int | None:
        """Start the command without another copy of ourselves."""
        if not self._plan.argv:
            report(self.status, b"exit 0")
            return None
        actions: list[tuple[int, int, bytes, int, int] | tuple[int, int, int]]
        actions = [(os.POSIX_SPAWN_DUP2, self._out, 1), (os.POSIX_SPAWN_DUP2, self._err, 2)]
        if self._terminal is not None:
            actions = self._terminal.open_in_child()
        actions += [(os.POSIX_SPAWN_DUP2, source, 3 + index) for index, source in enumerate(self._kept)]
        if self._input >= 0:
            actions.append((os.POSIX_SPAWN_DUP2, self._input, 0))
        pids: list[int] = []

        def spawn(program: bytes, argv: "list[bytes]") -> None:
            environment = self._plan.environment
            options = supervise.ALL
            pids.append(
                os.posix_spawn(program, argv, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=options)
            )

        error = execute(self._plan, spawn)
        if pids:
            return pids[0]
        report(self.status, b"exec %d" % error)
        return None


def _close_all_but(kept: "set[int]") -> None:
    below = 2  # 0 to 2 are /dev/null in the helper
    for descriptor in sorted(descriptor for descriptor in kept if descriptor > 2):
        if descriptor > below + 1:
            kernel.close_range(below + 1, descriptor - 1)
        below = descriptor
    kernel.close_range(below + 1)


def _raise_loopback() -> None:
    endpoint = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    up_and_running = 0x1 | 0x40
    fcntl.ioctl(endpoint.fileno(), _SIOCSIFFLAGS, b"lo".ljust(16, b"\0") + up_and_running.to_bytes(2, "little") + bytes(22))
    endpoint.close()


def receive(endpoint: _socket.socket, most: int) -> "tuple[bytes, list[int]]":
    """Receive one message and its descriptors; empty once the other side is gone."""
    message, ancillary, _, _ = endpoint.recvmsg(_RECEIVE, _socket.CMSG_SPACE(4 * most), _socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
    return message, descriptors
