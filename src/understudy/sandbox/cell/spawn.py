"""From the helper's fork to the command's first instruction."""

import _socket
import fcntl
import os
import select
import time

from . import confine, identity, kernel, supervise
from .mounts import View
from .plan import FULL, LANDLOCK, PLAIN, Plan

NOT_RUN = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127

_CONTAINED_NAMESPACES = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC


class Surroundings:
    """What the helper has open and knows, for all its children."""

    def __init__(self, *, null: int, alive: int, unix_table: int, abi: int) -> None:
        self.null = null
        self.alive = alive  # reads end-of-file once the helper is gone
        self.unix_table = unix_table
        self.abi = abi


class Started:
    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd


def start(plan: Plan, descriptors: "list[int]", around: Surroundings) -> Started:
    """Fork the process that sets up, watches and ends the command. `descriptors`: stdout, stderr, status, then what to keep."""
    outer_root = os.geteuid() == 0
    mapped_by_us = outer_root and plan.owner is not None and plan.shape == FULL
    gate, opener = os.pipe() if mapped_by_us else (-1, -1)
    flags = 0
    if plan.shape == FULL:
        flags = _CONTAINED_NAMESPACES | (0 if plan.network == "on" else kernel.CLONE_NEWNET)
        confine.filter_program(plan.network, own_namespaces=True)
    ids = (os.geteuid(), os.getegid())
    pid, pidfd = kernel.clone(flags)
    if pid == 0:
        code = NOT_RUN
        try:
            _Child(plan, descriptors, around, ids, gate).run()
            code = 0
        except BaseException as error:  # nothing may escape into the helper's own loop
            _report(descriptors[2], b"failed " + _describe(error))
        finally:
            os._exit(code)
    if mapped_by_us and plan.owner is not None:
        os.close(gate)
        try:
            uid, gid = plan.owner
            identity.write_maps(b"%d" % pid, (uid, uid), (gid, gid), privileged=True)
            os.write(opener, b"1")
        except OSError as error:
            _report(descriptors[2], b"failed " + _describe(error))  # the child reads end-of-file and gives up
        finally:
            os.close(opener)
    return Started(pid, pidfd)


def _describe(error: BaseException) -> bytes:
    text = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        name = error.filename if isinstance(error.filename, bytes) else os.fsencode(str(error.filename))
        text += f": {name.decode(errors='backslashreplace')}"
    return text.encode(errors="backslashreplace").replace(b"\n", b" ")[:1000]


def _report(status: int, text: bytes) -> None:
    try:
        os.write(status, text + b"\n")
    except OSError:
        pass


class _Child:
    """Runs in the forked process; anything it raises means that the command was not run."""

    def __init__(self, plan: Plan, descriptors: "list[int]", around: Surroundings, ids: "tuple[int, int]", gate: int) -> None:
        self._plan = plan
        self._out, self._err, self._status = descriptors[:3]
        self._kept = descriptors[3:]
        self._around = around
        self._ids = ids
        self._gate = gate
        self._view: View | None = None
        self._running = 0

    def run(self) -> None:
        plan = self._plan
        supervise.block_signals()
        _close_all_but(
            {
                self._out,
                self._err,
                self._status,
                *self._kept,
                self._around.null,
                self._around.alive,
                self._around.unix_table,
                self._gate,
                2,
            }
        )
        identity.hide_memory(False)
        identity.prefer_for_oom()
        if plan.shape == FULL:
            self._enter_namespaces()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            if plan.shape == LANDLOCK and plan.processes:
                self._running = confine.processes_of(plan.owner[0] if plan.owner else os.geteuid())
        self._die_with_helper()
        identity.hide_memory(True)
        command = os.fork()
        if command == 0:
            self._become_command()
        for descriptor in {self._out, self._err, self._around.null, self._around.unix_table, *self._kept}:
            os.close(descriptor)
        everything = supervise.Namespace() if plan.shape == FULL else supervise.Descendants()
        report = supervise.Watch(command, everything).run()
        if self._view is not None:
            self._view.remove_placeholders()
        _report(self._status, report)

    def _enter_namespaces(self) -> None:
        plan = self._plan
        outer_uid, outer_gid = self._ids
        outer_root = outer_uid == 0
        if self._gate >= 0:
            if not os.read(self._gate, 1):
                raise OSError(1, "the helper could not map the workspace's owner")
            os.close(self._gate)
        else:
            inner = (identity.NOBODY, identity.NOBODY) if outer_root else self._ids
            identity.write_maps(b"self", (inner[0], outer_uid), (inner[1], outer_gid), privileged=False)
        view = View(plan, outer_root=outer_root and plan.owner is None)
        view.open_private()
        if plan.owner is not None:
            identity.become(*plan.owner)
            identity.hide_memory(False)
        sockets = [] if plan.network == "off" else _bound_sockets(self._around.unix_table)
        view.build(sockets)
        plan.roots = view.roots
        if plan.network == "loopback":
            _raise_loopback()
        self._view = view

    def _die_with_helper(self) -> None:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, supervise.ORPHANED)
        poll = select.poll()
        poll.register(self._around.alive, select.POLLIN)
        if poll.poll(0):
            raise OSError(3, "the helper is gone")
        os.close(self._around.alive)

    def _become_command(self) -> None:
        """Never returns: executes the command, or reports why not and exits."""
        code = NOT_RUN
        try:
            self._confine()
            if not self._plan.argv:
                code = 0
                return
            try:
                os.chdir(self._plan.cwd)
            except OSError as error:
                _report(self._status, b"chdir %d" % (error.errno or 0))
                return
            error = _execute(self._plan.argv, self._plan.environment)
            code = NOT_FOUND if error == 2 else NOT_EXECUTABLE
            _report(self._status, b"exec %d" % error)
        except BaseException as error:
            _report(self._status, b"failed " + _describe(error))
        finally:
            os._exit(code)

    def _confine(self) -> None:
        plan = self._plan
        os.setsid()
        if plan.owner is not None and plan.shape == LANDLOCK:
            identity.become(*plan.owner)
        if plan.shape != FULL:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
        identity.hide_memory(False)
        self._arrange_descriptors()
        if plan.shape != PLAIN:
            confine.limit(plan, running=self._running)
        confine.limit_open_files(plan)
        supervise.unblock_signals()
        if plan.shape != PLAIN:
            confine.restrict(plan, self._around.abi)

    def _arrange_descriptors(self) -> None:
        """0, 1, 2, then the status pipe, which closes itself on exec, then what the command is to keep."""
        wanted = [self._around.null, self._out, self._err, self._status, *self._kept]
        lifted = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64) for descriptor in wanted]
        for target, source in enumerate(lifted):
            os.dup2(source, target, inheritable=target != 3)
        self._status = 3
        kernel.close_from(len(wanted))


def _close_all_but(kept: "set[int]") -> None:
    below = 2  # 0 to 2 are /dev/null in the helper
    for descriptor in sorted(descriptor for descriptor in kept if descriptor > 2):
        if descriptor > below + 1:
            _close_range(below + 1, descriptor - 1)
        below = descriptor
    kernel.close_from(below + 1)


def _close_range(first: int, last: int) -> None:
    try:
        kernel.call("close_range", first, last, 0)
    except OSError:
        os.closerange(first, last + 1)


def _execute(argv: "list[bytes]", environment: "dict[bytes, bytes]") -> int:
    """Returns the error number; as execvp, a text file without #! is given to /bin/sh."""
    program = argv[0]
    if b"/" in program:
        candidates = [program]
    else:
        path = environment.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
        candidates = [os.path.join(folder or b".", program) for folder in path.split(b":")]
    result = 2
    for candidate in candidates:
        try:
            os.execve(candidate, argv, environment)
        except OSError as error:
            number = error.errno or 2
            if number == 8:
                os.execve(b"/bin/sh", [b"sh", candidate, *argv[1:]], environment)
            if number not in (2, 20):
                result = number
    return result


def _bound_sockets(table: int) -> "list[bytes]":
    """Paths of unix sockets that are in use outside, as the kernel lists them."""
    os.lseek(table, 0, 0)
    content = b""
    while block := os.read(table, 65536):
        content += block
    paths: list[bytes] = []
    for line in content.splitlines()[1:]:
        parts = line.split(None, 7)
        if len(parts) == 8 and parts[7].startswith(b"/"):
            paths.append(parts[7])
    return sorted(set(paths))


def _raise_loopback() -> None:
    endpoint = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    request = b"lo".ljust(16, b"\0") + (0x1 | 0x40).to_bytes(2, "little") + bytes(22)
    fcntl.ioctl(endpoint.fileno(), 0x8914, request)
    endpoint.close()


def wait_until_gone(pids: "list[int]", seconds: float) -> None:
    limit = time.monotonic() + seconds
    left = set(pids)
    while left and time.monotonic() < limit:
        for pid in list(left):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    left.discard(pid)
            except ChildProcessError:
                left.discard(pid)
        if left:
            time.sleep(0.002)
