"""Runs commands, contained or not: the rest of the program uses only this.

Also tells which running commands a change of a file would set free. A mount covers each protected name in a command's roots, and
the kernel drops it when the name is replaced or removed. So before we change such a name ourselves, we end the command. When others
change one, the process above the command notices (`cell/exposure.py`).
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from understudy.errors import SandboxError
from understudy.places.placeholders import is_placeholder
from understudy.places.walking import beneath
from understudy.sandbox import direct
from understudy.sandbox.cell import seccomp, syscalls
from understudy.sandbox.cell.guards import Room
from understudy.sandbox.cell.plan import BUBBLEWRAP, FULL, Plan
from understudy.sandbox.direct import run_directly
from understudy.sandbox.helper import Helper, HelperDied, as_file, raise_open_files
from understudy.sandbox.planning import (
    contained_plan,
    impossible,
    is_contained,
    plain_plan,
    real_roots,
    remove_fallbacks,
    temporary_of,
    time_limit,
    wrapped_plan,
)
from understudy.sandbox.private_tmp import PrivateFolders
from understudy.sandbox.probe import Rung, choose, describe_rungs, find_bubblewrap, forced_rung, rungs_from, try_bubblewrap
from understudy.sandbox.running import OnOutput, RunningCommand
from understudy.sandbox.spec import NOT_RUN, Command, CommandResult, Containment, RungName, Temporary


def covers(plan: Plan, path: bytes) -> bool:
    """Whether creating, replacing or removing `path` (real and absolute) would uncover something for the command."""
    if plan.shape not in (FULL, BUBBLEWRAP):
        return False  # nothing is mounted
    return any(path == kept or beneath(kept, path) or (beneath(path, kept) and is_placeholder(kept)) for kept in _kept(plan))


def _kept(plan: Plan) -> Iterator[bytes]:
    """Every path with a mount on it, by its name and by its real path."""
    for path in _named(plan):
        if any(beneath(path, root) and path != root for root in plan.roots) and os.path.lexists(path):
            yield path


def _named(plan: Plan) -> Iterator[bytes]:
    for name in (*plan.protected, *plan.kept):
        for spelled in [name] if name.startswith(b"/") else [os.path.join(root, name) for root in plan.roots]:
            yield from dict.fromkeys((os.path.normpath(spelled), os.path.realpath(spelled)))


logger = logging.getLogger(__name__)


class Sandbox:
    """Runs commands through one helper process, started at the first use, and again if it dies."""

    def __init__(self, *, rung: RungName | None = None) -> None:
        """`rung` forces one way to contain commands, as the environment variable UNDERSTUDY_SANDBOX_RUNG does."""
        self._forced = rung or forced_rung()
        self._helper: Helper | None = None
        self._held: float | None = None
        self._rung: Rung | None = None
        self._open_files = 0
        self._fallbacks: set[str] = set()
        self._private_folders = PrivateFolders()
        self._clearing: set[asyncio.Task[str | None]] = set()

    def warm(self) -> None:
        """Start the helper if it is not running. Returns at once; needs a running event loop."""
        if sys.platform == "linux":
            self._ready()

    def hold(self, until: float) -> None:
        """All commands end at that time (of the monotonic clock) unless a later time is set before. The helper ends them, so it
        happens even while this process is suspended.
        """
        self._held = until
        if self._helper is not None and not self._helper.dead:
            self._helper.hold(until)

    @property
    def rung(self) -> Rung:
        """How commands are contained here. Raises SandboxError if they cannot be. The first call may block briefly."""
        if self._rung is None:
            self._rung = choose(describe_rungs(), self._forced)
        return self._rung

    @property
    def helper_pid(self) -> int | None:
        """The helper process, for diagnosis; None if there is none."""
        return None if self._helper is None or self._helper.dead else self._helper.pid

    @property
    def spares(self) -> tuple[int, ...]:
        """The processes that wait for the next commands, for diagnosis; the last one is used first."""
        return () if self._helper is None else self._helper.spares

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Run a command to its end. However this call is left, nothing that the command started still runs.

        A command that cannot be contained is not run; the result says so. `on_output` gets the output as it is read; an error that
        it raises ends the command and is raised here.
        """
        if (reason := impossible(command)) is not None:
            return CommandResult(NOT_RUN, 0.0, spawn_error=reason)
        if sys.platform != "linux":
            return await self._run_elsewhere(command, on_output)
        try:
            plan = await self._plan(command)
            if plan.shape != FULL:  # in a cell placeholders are covered, but other commands would stumble over them
                await self.tidied()
            room = self._private_folders.before(plan)
            # A cell is set up while the intent goes to disk. Other rungs need no preparation.
            plan.held = command.clearance is not None and plan.shape == FULL
            running = self._start(plan, command, on_output) if plan.held else None
        except (SandboxError, HelperDied, OSError) as error:
            return CommandResult(NOT_RUN, 0.0, setup_error=str(error))
        if command.clearance is not None:
            await _clear(command.clearance, running)
        try:
            running = running or self._start(plan, command, on_output)
        except (SandboxError, OSError) as error:
            return CommandResult(NOT_RUN, 0.0, setup_error=str(error))
        seconds = time_limit(command)
        if seconds is not None:
            running.limit(seconds)
        try:
            result = await asyncio.shield(running.done)
            cleared = await self._private_folders.after(plan, room)
            return result if cleared is None else replace(result, cleared=cleared)
        except BaseException:
            await _end(running)
            self._judge_later(plan, room)
            raise

    def _judge_later(self, plan: Plan, room: Room | None) -> None:
        """Clear an overfull private /tmp, although nobody waits for the result any more."""
        task = asyncio.ensure_future(self._private_folders.after(plan, room))
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def temporary(self, containment: Containment, cwd: str) -> Temporary:
        """Where a command's private folder is, and what the command calls it. The folder must exist.

        Raises SandboxError and OSError.
        """
        try:
            rung = await self._contained_by()
        except HelperDied as error:
            raise SandboxError(str(error)) from error
        found = temporary_of(containment, cwd, rung.name)
        if found.folder != containment.private_tmp:
            self._fallbacks.add(found.folder)
        return found

    def covering(self, paths: Iterable[str]) -> tuple[RunningCommand, ...]:
        """The commands that a change at one of these paths would set free."""
        running = () if self._helper is None else self._helper.under_way
        changed = list(map(os.fsencode, paths)) if running else []
        return tuple(each for each in running if any(covers(each.plan, path) for path in changed))

    async def end_covering(self, paths: Sequence[str], why: str) -> None:
        """End these commands, and wait until nothing is left of them."""
        while found := self.covering(paths):
            for running in found:
                running.end_for(why)
            await asyncio.wait([running.done for running in found])
            await self.tidied()

    async def tidied(self) -> None:
        """Wait until ended commands are cleaned up, which takes at most a moment after their results."""
        if self._helper is not None:
            await self._helper.tidied()

    async def close(self) -> None:
        """End every command and the helper."""
        if self._helper is not None:
            helper, self._helper = self._helper, None
            await helper.close()
        if self._clearing:
            await asyncio.wait(self._clearing)
        remove_fallbacks(self._fallbacks)
        self._fallbacks.clear()

    async def _plan(self, command: Command) -> Plan:
        self._ready()
        containment = command.containment
        if containment is None or not is_contained(command):
            return plain_plan(command, self._open_files)
        rung = await self._contained_by()
        if rung.name == "bubblewrap":
            program = find_bubblewrap()
            if program is None:
                raise SandboxError("bubblewrap is no longer installed")
            plan = wrapped_plan(command, containment, program, self._open_files)
        else:
            plan = contained_plan(command, containment, rung.name, self._open_files)
        folder = os.fsdecode(plan.private_tmp)
        if folder != (containment.private_tmp or ""):
            self._fallbacks.add(folder)
        return plan

    def _start(self, plan: Plan, command: Command, on_output: OnOutput) -> RunningCommand:
        running = self._begin(plan, command, on_output)
        running.argv, running.owner = command.argv, command.owner
        return running

    def _begin(self, plan: Plan, command: Command, on_output: OnOutput) -> RunningCommand:
        helper = self._ready()  # the helper may have died meanwhile
        taken = () if command.input is None else (os.dup(command.input),)
        if plan.shape != BUBBLEWRAP or command.containment is None:
            return helper.start(plan, on_output, taken, control=command.control)
        code = seccomp.program(syscalls.machine(), network=plan.network, own_namespaces=True, unix_sockets=plan.unix_sockets)
        descriptor = as_file(code)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return helper.start(plan, on_output, (descriptor, *taken), control=command.control)

    def _ready(self) -> Helper:
        is_over = self._held is not None and self._held <= time.monotonic()
        if self._helper is not None and is_over:
            self._helper.leave()  # it is about to end by itself anyway
            self._held = None
        if self._helper is None or self._helper.dead:
            self._open_files = self._open_files or raise_open_files()
            self._helper = Helper(asyncio.get_running_loop())
            if self._held is not None and not is_over:
                self._helper.hold(self._held)
        return self._helper

    async def _contained_by(self) -> Rung:
        """Raises SandboxError."""
        if self._rung is None and sys.platform != "linux":
            self._rung = choose(await asyncio.to_thread(describe_rungs), self._forced)
        elif self._rung is None:
            helper = self._ready()
            probed = await asyncio.shield(helper.probed)
            rungs = rungs_from(probed, "not tried")
            if self._forced == "bubblewrap" or not any(rung.available for rung in rungs):
                rungs = rungs_from(probed, await asyncio.to_thread(try_bubblewrap))
            self._rung = choose(rungs, self._forced)
            logger.info("commands are contained by: %s", self._rung.name)
        return self._rung

    async def _run_elsewhere(self, command: Command, on_output: OnOutput) -> CommandResult:
        argv = command.argv
        if command.containment is not None and is_contained(command):
            try:
                await self._contained_by()
            except SandboxError as error:
                return CommandResult(NOT_RUN, 0.0, setup_error=str(error))
            argv = direct.command_line(argv, command.containment, real_roots(command, command.containment))
        if command.clearance is not None:
            await command.clearance()
        return await run_directly(
            argv,
            cwd=command.cwd,
            env=command.env,
            timeout=time_limit(command),
            on_output=on_output,
            control=command.control,
            source=command.input,
        )


async def _clear(clearance: Callable[[], Awaitable[None]], held: RunningCommand | None) -> None:
    try:
        await clearance()
    except BaseException:
        if held is not None:
            await _end(held)
        raise
    if held is not None:
        held.release()


async def _end(running: RunningCommand) -> None:
    running.kill()
    await asyncio.wait([running.done])  # a second cancellation ends only this wait
