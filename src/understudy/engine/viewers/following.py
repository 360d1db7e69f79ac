"""Following a conversation: what every front end does alike, whatever it shows.

This covers a cursor into the log, catching up by pages, falling behind a slow client, finding the viewer's message, opening and
closing questions, the end of its turn, and a turn that this process takes over. Display is up to the viewer.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.engine.conversation.letters import CANCELLED_BEFORE
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.unfinished_text import MAY_FINISH_TEXT, TEXT, UNFINISHED_CHARACTERS, GivenText, said_in
from understudy.engine.viewers.viewer import Outlet, QuietViewer, Viewer
from understudy.errors import AgentError, BadRequest, report_bug
from understudy.protocol.items import Reasoning
from understudy.protocol.ops import Accepted
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    Entry,
    HookApprovalAsked,
    ItemReceived,
    Opened,
    OutputDelta,
    PatchApprovalAsked,
    PromptBlocked,
    ReasoningDelta,
    Record,
    RequestSent,
    TextDelta,
    ToolAnswered,
    ToolApprovalAsked,
    TurnDropped,
    TurnEnded,
    TurnStarted,
    UserInputAsked,
    UserMessage,
)

if TYPE_CHECKING:
    from understudy.engine.conversation.conversation import Conversation

logger = logging.getLogger(__name__)

_LOCATES_MESSAGE = frozenset({UserMessage, TurnStarted, RequestSent, PromptBlocked})
_ACTED_UPON = frozenset(
    {
        *(CommandApprovalAsked, PatchApprovalAsked, BudgetAsked, ToolApprovalAsked, HookApprovalAsked, UserInputAsked),
        *(ApprovalDecided, ToolAnswered, TurnEnded),
    }
)
_NOBODY = QuietViewer()


class Following:
    """One viewer's place in a conversation."""

    def __init__(
        self,
        conversation: "Conversation",
        viewer: Viewer,
        *,
        after: int | None = None,
        outlet: Outlet | None = None,
        only_its_turn: bool = False,
        hides_reasoning: bool = False,
        may_answer: bool = True,
        may_raise: bool = True,
        name: str = "",
    ) -> None:
        """`after`: begin after this record; by default, skip what was shown so far."""
        self.name = name  # the watcher's name, shown to other watchers
        self._tail = conversation.tail
        self._broadcast = self._tail.broadcast
        self.cursor = self._broadcast.published if after is None else after
        self.turn: str | None = None  # the turn whose end is waited for, once known
        self.leads = False  # the viewer's message began that turn, or this process took it over for the viewer
        self.message_id = ""
        self.live = False  # it receives events as they happen
        self._conversation = conversation
        self._viewer: Viewer = viewer
        self._outlet = outlet
        self._only_its_turn = only_its_turn
        self._hides_reasoning = hides_reasoning
        self._may_approve = may_answer
        self._may_raise = may_raise  # so may answer the question whether more may be used
        self._stands_in = False  # it joined a turn, and is asked because nobody else can be
        self._recorded = False  # the message is in the log
        self._read = False  # the model has been given the message
        self._behind = False
        self._given = GivenText()
        self._shown_to: int | None = None  # while a viewer that came back catches up: the last record it was shown before

    # -- beginning and ending

    def go_live(self) -> None:
        """From here on the viewer is shown everything after the cursor, as it happens."""
        if self._viewer is _NOBODY:
            return  # it was stopped during a read
        self.live = True
        self._broadcast.followers.append(self)
        self._conversation.on_watch_needed(self._conversation)  # so that other processes' changes are seen here
        if not self.caught_up:
            self._behind = True
            self._catch_up()

    async def go_live_from_cursor(self) -> None:
        """Like `go_live`, but first show the viewer what it has not read yet."""
        while not self.caught_up:
            page = await self.read_page()
            if not page:
                break
            for live in page:
                self._pass_on(live)
        self.go_live()

    async def resume(self, message_id: str, *, leads: bool, shown_to: int, given: Mapping[str, int]) -> None:
        """Follow a message that an earlier viewer sent, or everything if `message_id` is empty. The earlier viewer was shown all up
        to record `shown_to`, and of unfinished text what `given` says (`given_marks`). Reading begins after the cursor; the viewer
        skips what was shown.
        """
        self.message_id, self.leads, self._shown_to = message_id, leads, shown_to
        text = self._broadcast.text
        self._given.restore(given if shown_to <= self.cursor else {}, text)
        while not self.caught_up:
            page = await self.read_page()
            if not page:
                break
            for live in page:
                if self._viewer is _NOBODY:
                    return  # it has reached the end of its turn
                self._pass_on(live)
                if live.entry.seq == shown_to:
                    self._given.restore(given, text)
        self.go_live()
        if message_id:
            self.wait()
        self._shown_to = None
        if not self._behind:
            self._show_missing()

    def rejoin(self, given: Mapping[str, int]) -> None:
        """Like `go_live`, for a viewer that only watches and comes back: of the texts unfinished at its cursor it has what `given`
        says (`given_marks`), and gets the rest.
        """
        self._given.restore(given, self._broadcast.text)
        self._shown_to = self.cursor
        self.go_live()
        if not self._behind:
            self._shown_to = None
            self._show_missing()

    @property
    def given_marks(self) -> dict[str, int]:
        """How much of unfinished texts the viewer was given."""
        return self._given.marks() if self._given.lengths else {}  # a history has thousands of events, and nothing unfinished

    def wait(self) -> None:
        """Somebody waits for the end of a turn: if its process dies, this one takes the turn over."""
        if self not in self._conversation.waiting and self._viewer is not _NOBODY:
            self._conversation.waiting.append(self)

    def stop(self) -> None:
        """Stop calling the viewer."""
        if self._viewer is _NOBODY:
            return
        self._viewer = _NOBODY  # breaks a reference cycle, so that both are freed at once
        if self.live:
            self.live = False
            followers = self._broadcast.followers
            if self in followers:  # otherwise the broadcast dropped it because of a bug
                followers.remove(self)
        if self in self._conversation.waiting:
            self._conversation.waiting.remove(self)
        if self._may_answer and self._tail.state.questions:
            self.cannot_answer()

    def cannot_answer(self) -> None:
        """The viewer or its client has left. If nobody else can answer an open question, the waiting viewers handle it again: a
        call denies it, others let it wait. This happens in a later step, because all viewers may be leaving.
        """
        from understudy.engine.conversation.who_is_asked import put_to_those_left  # most turns ask nothing

        self._conversation.ask_later(put_to_those_left)

    @property
    def _may_answer(self) -> bool:
        if self._may_raise or not self._may_approve:
            return self._may_approve
        return not any(isinstance(question, BudgetAsked) for question in self._tail.state.questions.values())

    @property
    def can_answer(self) -> bool:
        is_asked = self.leads or not self._only_its_turn or self._stands_in
        return self._may_answer and is_asked and self._viewer.can_answer

    def _is_asked(self) -> bool:
        if self.leads or not self._only_its_turn:
            return True
        from understudy.engine.conversation.who_is_asked import is_left_alone

        self._stands_in = self._may_answer and self._viewer.can_answer and is_left_alone(self, self._conversation)
        return self._stands_in

    # -- what is waited for

    def follow_message(self, accepted: Accepted) -> None:
        """Must be called in the step that accepted the message. Questions already open are not shown again by the log, so they are
        put here.
        """
        self.message_id, self.turn = accepted.message_id, accepted.turn
        self.leads = not (accepted.joined or accepted.held)  # the log tells which of the held messages begins a turn
        if not self.live:
            self.go_live()
        self.wait()
        if accepted.held:
            self._conversation.when_durable(lambda error: None if error is None else self.fail(error))
        elif accepted.joined or self._only_its_turn:
            self.put_open_questions()
        else:
            self._tail.when_committed(self.put_open_questions)  # after the message itself has been shown

    def follow_turn(self, turn: str) -> None:
        """Follow the turn that is running, here or in another process."""
        self.turn = turn
        self._recorded = self._read = True
        self.wait()

    def taken_over(self) -> None:
        """The process that ran the turn is gone, and the turn continues here: put its questions here."""
        self.leads = True
        if self.message_id and not self.turn:
            self.turn = self._tail.state.turn  # assume that the message is for this turn, whose text it must get in full
        self.put_open_questions()

    def put_open_questions(self) -> None:
        """Put questions from before a restart or of a turn elsewhere. A question on its way to the disk is put once it is there."""
        state = self._tail.state
        if not state.questions:
            return
        unpublished = [entry.record for entry in self._broadcast.unpublished()]
        for question in tuple(state.questions.values()):
            if question in unpublished:
                continue
            if self._is_asked():
                self._viewer.question(question, state.turn or "")

    # -- called by the broadcast

    def show(self, live: LiveEntry) -> None:
        if live.entry.seq <= self.cursor or self._behind:
            return  # the viewer has it from elsewhere (another process may be ahead), or reads it from the log
        outlet = self._outlet
        if outlet is None or not outlet.congested or not self._fall_behind(outlet):
            self._pass_on(live)

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        if self._behind or lives[0].after < self.cursor:
            return
        if (outlet := self._outlet) is not None and outlet.congested and self._fall_behind(outlet):
            return
        for live in lives:
            delta = live.delta
            if type(delta) is TextDelta:  # nearly all deltas
                lengths = self._given.lengths
                lengths[TEXT] = lengths[TEXT] + len(delta.text) if TEXT in lengths else len(delta.text)
            elif self._hides_reasoning and type(delta) is ReasoningDelta:
                continue
            else:
                self._given.add(delta)
            if not self._only_its_turn or (self.leads and (live.turn == self.turn or type(delta) is OutputDelta)):
                self._viewer.delta(live)  # the output of an earlier turn's command is shown too

    def fail(self, error: AgentError) -> None:
        viewer = self._viewer
        self.stop()
        viewer.failed(error)

    # -- entries

    def _pass_on(self, live: LiveEntry) -> None:
        """Pass on the next entry, live or read again."""
        entry = live.entry
        self.cursor = entry.seq
        kind = type(entry.record)
        if kind in MAY_FINISH_TEXT:
            if self._lacks_text(entry):
                self._show_rest(entry)
            self._given.finish(entry.record)
            if self._hides_reasoning and is_reasoning(entry.record):
                return
        if kind in _LOCATES_MESSAGE:
            self._locate_message(entry)
        elif type(entry.record) is TurnDropped and self._only_its_turn and entry.record.message_id == self.message_id:
            self.fail(BadRequest(entry.record.reason or CANCELLED_BEFORE))
            return
        if self._only_its_turn and entry.turn != self.turn and kind is not Opened and not _is_of_session(entry.record):
            return
        self._viewer.entry(live)
        if kind in _ACTED_UPON:
            self._act_upon(entry)

    def _lacks_text(self, entry: Entry) -> bool:
        """Whether some of the text that the record ends may not have been shown."""
        if self._shown_to is None:
            return type(entry.record) is TurnEnded and bool(entry.record.unfinished)
        if not self.message_id:  # it only watches: if it was given nothing of a text, the record has it all
            return type(entry.record) is TurnEnded or self._given.length(TEXT) > 0
        return entry.seq > self._shown_to

    def _show_rest(self, entry: Entry) -> None:
        """Show a viewer that was behind the rest of a finished text: for an answer that was cut off, only the turn's end has the
        text.
        """
        text, given = said_in(entry.record), self._given.length(TEXT)
        longest = UNFINISHED_CHARACTERS if type(entry.record) is TurnEnded else len(text)
        lacks_some = given < min(len(text), longest)  # beyond that length the record has a mark instead of text
        if lacks_some and (not self._only_its_turn or (self.leads and entry.turn == self.turn)):
            rest = TextDelta(text[given:])
            self._given.add(rest)
            self._viewer.delta(LiveDelta(rest, entry.turn, entry.parent))

    def _locate_message(self, entry: Entry) -> None:
        """Find the message's turn: nearly always the one it was sent to, unless another process ended that meanwhile."""
        record = entry.record
        if type(record) is UserMessage:
            if record.message_id == self.message_id:
                self.turn, self._recorded = entry.turn, True
        elif type(record) is TurnStarted:
            if self.message_id and self._tail.state.turn_messages.get(record.turn_id) == self.message_id:
                self.leads = True
        elif (type(record) is RequestSent and self.message_id in record.consumed) or (
            type(record) is PromptBlocked and self.message_id == record.message_id
        ):
            self.turn, self._read = entry.turn, True

    def _act_upon(self, entry: Entry) -> None:
        match entry.record:
            case TurnEnded() as ended if entry.turn == self.turn:
                if self._read or (self._recorded and ended.reason != "completed"):  # otherwise the message goes to the next turn
                    viewer = self._viewer
                    self.stop()
                    viewer.ended(ended)
            case ToolAnswered(output=output):
                self._viewer.question_closed(output.call_id, entry.turn)
            case (
                CommandApprovalAsked()
                | PatchApprovalAsked()
                | BudgetAsked()
                | ToolApprovalAsked()
                | HookApprovalAsked()
                | UserInputAsked()
            ) as question:
                if self._is_asked():
                    self._viewer.question(question, entry.turn)
            case ApprovalDecided(call_id=call_id, effective=True):
                self._viewer.question_closed(call_id, entry.turn)
            case _:
                pass

    # -- catching up

    async def read_page(self) -> Sequence[LiveEntry]:
        """The next entries after the cursor, for a viewer that is not live; empty once it has seen all that is published.

        Waits for a step of the event loop with enough room.
        """
        return await self._conversation.pages.after(self.cursor, self._broadcast.published)

    @property
    def caught_up(self) -> bool:
        return self.cursor >= self._broadcast.published

    def take_unfinished(self) -> list[LiveDelta]:
        """The text so far of unfinished items, for a viewer that is about to go live: it is not shown again."""
        broadcast = self._broadcast
        if broadcast.published < self.cursor:
            return []
        deltas = [delta for delta in broadcast.text.deltas() if not (self._hides_reasoning and type(delta) is ReasoningDelta)]
        for delta in deltas:
            self._given.add(delta)
        return [LiveDelta(delta, self._tail.state.turn or "", broadcast.published) for delta in deltas]

    def _fall_behind(self, outlet: Outlet) -> bool:
        self._behind = True
        outlet.drained(self._catch_up)
        return True

    def _catch_up(self) -> None:
        if self.live:
            self._conversation.run_beside(self._read_missed())

    async def _read_missed(self) -> None:
        """Read pages of what was missed. If the client may be slow, each page waits for room and gets a step of its own."""
        while True:
            try:
                page = await self.read_page()
            except AgentError as error:
                self.fail(error)
                return
            except Exception as error:
                self.fail(AgentError(report_bug(logger, error, "in reading %s for a viewer", self._conversation.id)))
                return
            self._pass_on_while_there_is_room(page)
            if not self.live:
                return
            if not page or self.caught_up:
                break
            if self._outlet is not None:
                self._outlet.drained(self._catch_up)
                return
        self._behind = False
        if not self.message_id:
            self._shown_to = None
        self._show_missing()

    def _pass_on_while_there_is_room(self, page: Sequence[LiveEntry]) -> None:
        """The rest of the page is read again later, so that it is not kept in memory for a client that does not read."""
        for live in page:
            if self._outlet is not None and self._outlet.congested:
                return
            if self.live:
                self._pass_on(live)

    def _show_missing(self) -> None:
        """Show the viewer what it lacks of unfinished texts."""
        turn = self.turn or self._tail.state.turn or ""  # the record of its end may already be on its way to the disk
        for delta in self._given.missing(self._broadcast.text):
            self.show_deltas((LiveDelta(delta, turn, self.cursor),))


def _is_of_session(record: Record) -> bool:
    """Whether the record ends a command that an earlier turn began."""
    return isinstance(record, CommandEnded) and record.started is not None


def is_reasoning(record: Record) -> bool:
    return isinstance(record, ItemReceived) and isinstance(record.item, Reasoning)
