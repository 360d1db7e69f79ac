"""Keeps a turn's context within its model's window. What is done when it is too long is in `compactor`, which few turns need."""

from typing import TYPE_CHECKING

from understudy.engine.compaction.limits import Prefix, tokens_if_due
from understudy.engine.log.fold import State
from understudy.engine.log.tail import Tail
from understudy.engine.setup.turn_setup import TurnSetup
from understudy.errors import ContextFull, ModelError
from understudy.models.failures import with_hint
from understudy.protocol.records import Noticed

if TYPE_CHECKING:
    from understudy.engine.compaction.compactor import AsksModel, Compactor


class ContextKeeper:
    """The context of one turn."""

    def __init__(self, tail: Tail, setup: TurnSetup) -> None:
        self.asked = False  # somebody asked for a summary while the turn runs
        self._tail = tail
        self._setup = setup
        self._prefix = Prefix(setup.instructions, setup.offered, setup.preamble)
        self._compactor: Compactor | None = None

    def use(self, setup: TurnSetup) -> None:
        """From here on the model is offered other tools."""
        self._setup = setup
        self._prefix = Prefix(setup.instructions, setup.offered, setup.preamble)
        self._compactor = None

    def is_due(self, state: State) -> bool:
        """Whether to make room before the next request."""
        return self.asked or tokens_if_due(state, self._setup.limits, self._prefix) is not None

    def note_answer(self) -> None:
        """After the model has answered, ask its provider for the window: the first request did not wait for that."""
        if (provider := self._setup.limits.provider) is not None:
            provider.look()

    async def before_request(self, turn: "AsksModel") -> None:
        if self.asked:
            await self.when_asked(turn)
            return
        state = self._tail.state
        used = tokens_if_due(state, self._setup.limits, self._prefix)
        if used is not None:
            await self._made(turn).before_request(state, used)
            self._tail.measure()

    async def when_asked(self, turn: "AsksModel") -> None:
        """Make a summary between two requests, or at the end of a turn. If it fails, the turn does not."""
        self.asked = False
        if self._tail.state.history.can_be_summed_up:
            try:
                await self.sum_up(turn)
            except ModelError as error:
                turn.record(Noticed(str(error)))

    async def sum_up(self, turn: "AsksModel") -> None:
        """Raises `ModelError`."""
        await self._made(turn).when_asked(self._tail.state)
        self._tail.measure()

    async def when_full(self, turn: "AsksModel") -> bool:
        """Make room after the provider refused a request for its length. False if nothing can be left out."""
        made_room = await self._made(turn).when_full(self._tail.state)
        self._tail.measure()
        return made_room

    def leave_out_images(self, turn: "AsksModel", why: ModelError) -> bool:
        """Leave out images after the provider refused a request for one. False if there are none."""
        return self._made(turn).leave_out_images(self._tail.state, str(why))

    def still_full(self, error: ContextFull) -> ContextFull:
        """The error with advice for a person: nothing more can be left out."""
        from understudy.engine.compaction.compactor import hint_when_full

        hint = hint_when_full(self._tail.state, self._prefix)
        full = ContextFull(with_hint(str(error), hint), codes=error.codes)
        return full.with_status(error.status, with_hint(error.words, hint))

    def _made(self, turn: "AsksModel") -> "Compactor":
        if self._compactor is None:
            from understudy.engine.compaction.compactor import Compactor  # most turns are short enough

            self._compactor = Compactor(turn, self._setup, self._prefix, self._tail.conversation_id)
        return self._compactor
