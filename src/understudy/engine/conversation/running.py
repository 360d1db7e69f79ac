"""The turn that runs here, if any. It is begun, can be told to end, and its end is recorded exactly once, however it ends."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import LEAVING, RUNNING, Given, Standing
from understudy.engine.log import recovery
from understudy.engine.log.tail import Tail
from understudy.engine.turn.turn import Turn, TurnAborted
from understudy.errors import AgentError, ModelError, report_bug
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.records import Failure, Record, TurnEnded

if TYPE_CHECKING:
    from understudy.engine.services.turns_at_work import TurnsAtWork
    from understudy.engine.turn.accounts import Accounts
    from understudy.engine.workspaces.workspaces import Workspaces

logger = logging.getLogger(__name__)


class Running:
    def __init__(self, tail: Tail, loop: asyncio.AbstractEventLoop, standing: Standing) -> None:
        self._standing = standing
        self.turn: Turn | None = None
        self.workspaces: Callable[[], Workspaces] | None = None
        self.by = LOCAL_NAME  # who began it
        self.at_work: TurnsAtWork | None = None  # set if callers have a limit of concurrent turns
        self.accounts: Accounts | None = None  # set if callers have budgets
        self._tail = tail
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._interrupt_asked = False  # somebody has asked to interrupt the running turn

    def __bool__(self) -> bool:
        return self._task is not None

    @property
    def is_ending(self) -> bool:
        """Whether new input is for the next turn, because the running one is ending."""
        return self._standing.phase is not RUNNING

    def check_room(self, name: str) -> None:
        """Check that this caller may begin a turn. Raises `TooManyTurns`."""
        if self.at_work is not None:
            self.at_work.check(name)

    def start(self, turn: Turn, by: str) -> None:
        self._interrupt_asked = False
        self.turn = turn
        self.by = by
        if self.at_work is not None:
            self.at_work.began(by)
        if self.accounts is not None:
            turn.account = self.accounts.find(by)
        self._task = self._loop.create_task(self._run(turn), name=f"turn {turn.turn_id} of {self._tail.conversation_id}")
        self._standing.note(Given.STARTED)

    async def _run(self, turn: Turn) -> None:
        ended = TurnEnded("failed", "internal error")
        name = self._tail.conversation_id
        try:
            if self._tail.state.setup_due:
                from understudy.engine.workspaces.setup_commands import run_setup  # few workspaces need a setup

                await run_setup(turn, turn.turn_id, self._tail.state.overrides.workspace)
            ended = await turn.run()
        except asyncio.CancelledError:
            ended = _interrupted(turn, asked_for=self._interrupt_asked)
        except TurnAborted:
            ended = _interrupted(turn)
        except AgentError as error:
            logger.info("turn %s of %s failed: %s", turn.turn_id, name, error)
            ended = TurnEnded("failed", str(error), turn.unfinished or None, failure=_failure_of(error))
        except Exception as error:  # a bug ends the turn, loudly; the calls that wait for it still get their answer
            ended = TurnEnded("failed", report_bug(logger, error, "in turn %s of %s", turn.turn_id, name))
        finally:
            if not turn.closed:
                self._end()
                if not self._can_go_on_later:
                    self.close(turn.turn_id, ended)
                    turn.notify(ended)
                    self._standing.note(Given.CLOSED)

    @property
    def _can_go_on_later(self) -> bool:
        """The process ends while the turn waits for an answer: its end is not recorded, unless somebody asked for it."""
        return self._standing.phase is LEAVING and not self._interrupt_asked and recovery.can_go_on(self._tail.state)

    def _end(self) -> None:
        self._task = self.turn = None
        self._standing.note(Given.ENDED)
        if self.at_work is not None:
            self.at_work.ended(self.by)

    def close(self, turn_id: str, ended: TurnEnded) -> None:
        """Answer whatever the turn left open, then record its end. Also used for turns that a crash cut off."""
        state = self._tail.state
        open_calls = recovery.close_open_calls(state) if state.calls or state.running else ()
        if state.overrides.workspace is not None and self.workspaces is not None:
            open_calls = (*open_calls, *self._save_workspace(self.workspaces(), turn_id))
        self._tail.append(*open_calls, ended, turn=turn_id)
        self._tail.flush()

    def _save_workspace(self, workspaces: "Workspaces", turn_id: str) -> tuple[Record, ...]:
        """Save the workspace once the end of the turn is in the log."""
        intent = workspaces.at_end(self._tail.state, turn_id)
        if intent:
            tail = self._tail
            tail.when_committed(lambda: None if tail.failure else workspaces.save(tail.conversation_id, turn_id))
        return intent

    def note_told_to_end(self) -> None:
        """A person answered a question by ending the turn."""
        self._standing.note(Given.TOLD_TO_END)

    def interrupt(self) -> None:
        """Only the first interrupt acts: a second one must not cut short the clean-up that the first began."""
        turn, task = self.turn, self._task
        if turn is None or task is None or self.is_ending:
            return
        self._interrupt_asked = True
        self._standing.note(Given.TOLD_TO_END)
        if not turn.listens:
            self._cancel(task)
            return
        self._end()  # suspended in the model's stream; safe to close
        turn.closed = True
        self.close(turn.turn_id, _interrupted(turn, asked_for=True))
        self._standing.note(Given.CLOSED)

        def leave() -> None:  # after the commit: unwinding competes with the writer for the interpreter's lock
            task.cancel()

        self._tail.when_committed(leave)

    def stop_unrecorded(self) -> None:
        """The log cannot be written: stop, because nothing may be done unrecorded."""
        if self._task is not None:
            self._cancel(self._task)

    def _cancel(self, task: "asyncio.Task[None]") -> None:
        """Cancel in the next step: a task that is cancelled before its first step never runs, so nobody would close its turn."""
        self._loop.call_soon(task.cancel)

    async def ended(self) -> None:
        """Wait for the end of the running turn, if there is one."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def leave(self) -> None:
        """The process ends: interrupt the turn. If it waits for an answer, its end is not recorded, so the answer can still be
        given later.
        """
        if self._task is None:
            return
        task = self._task
        self._cancel(task)
        await asyncio.wait([task])


def _interrupted(turn: Turn, *, asked_for: bool = False) -> TurnEnded:
    return TurnEnded("interrupted", recovery.INTERRUPTED, turn.unfinished or None, asked_for=asked_for)


def _failure_of(error: AgentError) -> Failure:
    return Failure(error.kind, error.status, error.words) if isinstance(error, ModelError) else Failure(error.kind)
