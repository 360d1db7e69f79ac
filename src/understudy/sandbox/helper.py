"""The server's side of the helper process: starts it, sends it commands, reads their output, ends them."""

import asyncio
import logging
import marshal
import os
import resource
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

from understudy.sandbox.cell import placeholder
from understudy.sandbox.cell.plan import FULL, Kind, Plan
from understudy.sandbox.control import Control
from understudy.sandbox.pace import Floods
from understudy.sandbox.running import OnOutput, RunningCommand

logger = logging.getLogger(__name__)

_BOOT = "import sys; sys.path.append(sys.argv[1]); from understudy.sandbox.cell.serve import main; main(int(sys.argv[2]))"
_INLINE = 32768  # longer plans go through a file, because a message must fit into the socket's buffer
_OPEN_FILES = 8192
_CLOSE_SECONDS = 5.0


class HelperDied(Exception):
    pass


class Spare:
    """A cell that waits for its command: the process, and the socket for the command. Closing that socket ends the cell."""

    def __init__(self, kind: Kind, pid: int, pidfd: int, orders: int) -> None:
        self.kind = kind
        self.pid = pid
        self._pidfd = pidfd
        self._orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, orders)  # saves asking for these
        self._orders.setblocking(False)

    def give(self, plan: Plan, running: RunningCommand) -> bool:
        """Give it a command. False if it cannot take the command."""
        if not self._send(plan.pack(), running.writers):
            self.close()
            return False
        self._orders.close()
        for descriptor in running.writers:
            os.close(descriptor)
        running.started(self._pidfd)
        return True

    def _send(self, packed: bytes, descriptors: list[int]) -> bool:
        try:
            return len(packed) <= _INLINE and socket.send_fds(self._orders, [packed], descriptors) > 0
        except OSError:
            return False

    def close(self) -> None:
        self._orders.close()
        os.close(self._pidfd)


class Helper:
    """One helper process and the commands that it runs. Once it is `dead`, its owner has to make another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.dead = False
        self.probed: asyncio.Future[dict[str, str]] = loop.create_future()
        self._next = 1
        self._floods = Floods()
        self._starting: dict[int, RunningCommand] = {}
        self._under_way: set[RunningCommand] = set()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._spares: list[Spare] = []  # the newest is used first
        self._cells: dict[int, RunningCommand] = {}  # by process id, until the helper has cleaned up after them
        self._over: asyncio.Future[None] = loop.create_future()  # done when the helper has cleaned up after the next command
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs:
            self._process = _start_process(theirs)
        self._gone: asyncio.Future[None] = loop.create_future()
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._reap)
        loop.add_reader(self._socket.fileno(), self._receive)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def spares(self) -> tuple[int, ...]:
        return tuple(spare.pid for spare in self._spares)

    def start(
        self, plan: Plan, on_output: OnOutput, extra: tuple[int, ...] = (), *, control: Control | None = None
    ) -> RunningCommand:
        """Start a command. The returned `RunningCommand` tells how it went; failures of the helper are never raised here.

        `extra` are descriptors that the command gets from number 4 on, the last of them as its input if the plan says so; they are
        closed here. A plan that is `held` is set up, but the command begins only after `release`.
        """
        identifier = self._next
        self._next += 1
        running = RunningCommand(self._loop, plan, on_output, control, self._floods)
        self._follow(running)
        if self.dead:
            for descriptor in (*running.writers, *extra):
                os.close(descriptor)
            running.fail("the sandbox helper is not running")
            return running
        if self._give_to_spare(plan, running):
            return running
        self._starting[identifier] = running
        packed = plan.pack()
        descriptors = [*running.writers, *extra]
        if len(packed) > _INLINE:
            descriptors.append(as_file(packed))
            packed = None
        self._unsent.append((marshal.dumps((identifier, packed)), descriptors))
        self._send()
        return running

    def hold(self, until: float) -> None:
        """At that time the helper ends every command and itself, unless it is given a later time before."""
        if not self.dead:
            self._unsent.append((marshal.dumps((0, until)), []))
            self._send()

    def leave(self) -> None:
        """Close our socket: the helper then ends by itself, with every command."""
        self._lose()

    @property
    def under_way(self) -> tuple[RunningCommand, ...]:
        return tuple(self._under_way)

    def _give_to_spare(self, plan: Plan, running: RunningCommand) -> bool:
        if plan.shape != FULL or plan.has_input:  # a waiting cell accepts no further descriptors
            return False
        spare = self._take_spare(plan.kind)
        if spare is None or not spare.give(plan, running):
            return False
        self._cells[spare.pid] = running
        return True

    def _take_spare(self, kind: Kind) -> Spare | None:
        for spare in reversed(self._spares):
            if spare.kind == kind:
                self._spares.remove(spare)
                return spare
        self._send_spares_away()  # waiting cells would keep the kind that is needed now from being made
        return None

    def _send_spares_away(self) -> None:
        while self._spares:
            self._spares.pop().close()

    def _follow(self, running: RunningCommand) -> None:
        self._under_way.add(running)
        running.done.add_done_callback(lambda _: self._leave(running))

    def _leave(self, running: RunningCommand) -> None:
        self._under_way.discard(running)
        if self.dead:  # nobody else will
            placeholder.remove_each(running.covers)

    def _send(self) -> None:
        while self._unsent:
            message, descriptors = self._unsent[0]
            try:
                socket.send_fds(self._socket, [message], descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._socket.fileno(), self._send)
                return
            except OSError:
                self._lose()
                return
            self._unsent.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        while not self.dead:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._socket, 65536, 2, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []
            if not message:
                self._lose()
                return
            identifier, kind, detail = marshal.loads(message)
            if kind == "probed":
                self.probed.set_result(detail)
                continue
            if kind == "over":
                pid, spare = detail
                self._forget(pid)
                if spare is not None:
                    self._keep_spare(spare, descriptors)
                continue
            if kind == "started" and not descriptors:
                logger.error("out of file descriptors: ending every command, because one could not be watched")
                self._lose()
                return
            running = self._starting.pop(identifier)
            if kind == "started":
                if running.plan.shape == FULL:
                    self._cells[detail] = running
                running.started(descriptors[0])
            else:
                running.fail(detail)

    def _forget(self, pid: int) -> None:
        self._cells.pop(pid, None)
        self._over.set_result(None)
        self._over = self._loop.create_future()

    async def tidied(self) -> None:
        """Wait until the helper has cleaned up after every command that has ended."""
        while any(running.done.done() for running in self._cells.values()):
            await asyncio.shield(self._over)

    def _keep_spare(self, detail: tuple[Kind, int], descriptors: list[int]) -> None:
        if len(descriptors) == 2:
            self._spares.append(Spare(*detail, *descriptors))
            return
        for descriptor in descriptors:  # no room for more descriptors
            os.close(descriptor)

    def _lose(self) -> None:
        """The helper is gone. Commands that it had not started never begin; those that it had started die with it."""
        if self.dead:
            return
        self.dead = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._send_spares_away()
        for _, descriptors in self._unsent:
            for descriptor in descriptors:
                os.close(descriptor)
        self._unsent.clear()
        for running in self._cells.values():
            placeholder.remove_each(running.covers)
        self._cells.clear()
        self._over.set_result(None)
        for running in self._starting.values():
            running.lose()
        self._starting.clear()
        if not self.probed.done():
            self.probed.set_exception(HelperDied("the sandbox helper died while starting"))
            self.probed.exception()  # fetched so that an error for which nobody waits is not logged

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self._gone.set_result(None)

    async def close(self) -> None:
        """End every command and the helper, and wait until they are gone."""
        for running in self._under_way:
            running.kill()
        if self._under_way:
            await asyncio.wait([running.done for running in self._under_way], timeout=_CLOSE_SECONDS)
        self._lose()  # the helper ends by itself once our socket is closed
        await asyncio.wait([self._gone], timeout=_CLOSE_SECONDS)
        if not self._gone.done():
            self._process.kill()
            await self._gone


def probe_helper() -> dict[str, str]:
    """Start a helper only to ask what works here. Blocks. Raises OSError if it does not answer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = _start_process(theirs)
        try:
            ours.settimeout(10)
            message = ours.recv(65536)
        finally:
            ours.close()
            process.wait()
    if not message:
        raise OSError("the sandbox helper does not start")
    return marshal.loads(message)[2]


def raise_open_files() -> int:
    """Raise our limit of open descriptors, which many commands need; returns the limit that commands get instead."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft if soft != resource.RLIM_INFINITY else 0


def _start_process(theirs: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-E", "-c", _BOOT, str(Path(__file__).parents[2]), str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
    )


def as_file(content: bytes) -> int:
    descriptor = os.memfd_create("command", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor
