"""What both viewers of `exec` do: send the message, end the turn when asked, and turn its end into an exit code."""

import asyncio
import sys

from understudy.cli.tell.watched_end import COMPLETED, FAILED, WatchedEnd
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.turn.turn_budget import UNTIL_CALL
from understudy.engine.viewers.following import Following
from understudy.engine.viewers.viewer import Outlet
from understudy.errors import AgentError
from understudy.protocol.items import Message
from understudy.protocol.ops import Cancel
from understudy.protocol.records import CommandEnded, Overrides, Question, Terms, TurnEnded

PATIENCE = 8.0  # seconds for a turn to end when told to


class ExecViewer(WatchedEnd):
    """Follows one message to the end of its turn."""

    can_answer = False
    nobody = "nobody can be asked: `exec` has no terminal to put a question to"

    def __init__(self, handle: Handle, *, created: bool, hides_reasoning: bool, outlet: Outlet | None = None) -> None:
        super().__init__()
        self.handle = handle
        self.final_message: str | None = None  # of a completed turn
        self.following: Following = handle.follow(
            self, after=0 if created else None, outlet=outlet, only_its_turn=True, hides_reasoning=hides_reasoning
        )
        self.following.leads = created
        self.told_to_end = False
        self.until_held = False  # whether the command of `--until` succeeded the last time
        self.output_lost = False  # some of it could not be written

    async def send(self, message: Message, overrides: Overrides | None, terms: Terms | None) -> None:
        """Raises `AgentError` if it is not accepted."""
        await self.following.go_live_from_cursor()
        self.following.wait()
        await self.handle.submit(self.handle.message(message, overrides, terms=terms), self.following)

    # -- ending before its time

    def interrupt(self) -> None:
        """End the turn that the message began; a turn that it only joined is left alone. The second call does not wait."""
        if self.told_to_end:
            self._stop_watching()
            return
        self.told_to_end = True
        if self.following.turn and not self.following.leads:
            self._stop_watching()
            return
        asyncio.get_running_loop().call_later(PATIENCE, self._stop_watching)
        self.handle.tasks.run(self._cancel())

    def give_up(self) -> None:
        """Called before anything was sent, so there is nothing to end."""
        self.told_to_end = True
        self._stop_watching()

    async def _cancel(self) -> None:
        try:
            accepted = await self.handle.submit(Cancel(self.following.message_id, self.following.turn or ""))
        except AgentError as error:
            self.failed(error)
            return
        if not accepted.effective:
            self._stop_watching()

    def _stop_watching(self) -> None:
        if not self.exit_code.done():
            self.following.stop()
            self._safely(self.show_interrupted)
            self._end(FAILED)

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        self._safely(lambda: self.show(live))
        record = live.entry.record
        if type(record) is CommandEnded and record.call_id.startswith(UNTIL_CALL):
            self._tell_try(record)

    def _tell_try(self, ended: CommandEnded) -> None:
        self.until_held = ended.exit_code == 0 and not ended.timed_out
        number = ended.call_id.rpartition("-")[2]
        said = "holds" if self.until_held else f"does not hold: exit code {ended.exit_code}"
        sys.stderr.write(f"understudy: --until, try {number}: {said}\n")
        sys.stderr.flush()

    def delta(self, live: LiveDelta) -> None:
        self._safely(lambda: self.show_delta(live))

    def question(self, question: Question, turn: str) -> None:
        if self.handle.asks_for_turn and not self.handle.can_be_answered():  # another process may have somebody to ask
            if self.handle.questions_wait:
                from understudy.cli.tell.viewing import say_that_it_waits  # few turns ask anything

                self._safely(lambda: say_that_it_waits(question.call_id))
            self.handle.deny_unasked(question.call_id, self.nobody, turn)

    def question_closed(self, call_id: str, turn: str) -> None:
        """Nothing to do: `exec` never asks."""

    def ended(self, ended: TurnEnded) -> None:
        if ended.reason == "completed":
            self.final_message = ended.message
        self._end(COMPLETED if ended.reason == "completed" else FAILED)

    # -- for subclasses

    def show(self, live: LiveEntry) -> None:
        raise NotImplementedError

    def show_delta(self, live: LiveDelta) -> None:
        raise NotImplementedError

    def show_interrupted(self) -> None:
        raise NotImplementedError
