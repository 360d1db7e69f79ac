"""Following a conversation: what every front end does alike, whatever it shows.

A cursor into the log, catching up by pages, falling behind a slow client, where the viewer's message went, which questions are put
and closed, the end of its turn, and a turn that this process takes over. What is made of it is the viewer's part.
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
        """`after`: the record after which it begins; what has been shown so far is left out unless it is given."""
        self.name = name  # of whoever watches, for the others who do
        self._tail = conversation.tail
        self._broadcast = self._tail.broadcast
        self.cursor = self._broadcast.published if after is None else after
        self.turn: str | None = None  # the turn whose end is waited for, once it is known
        self.leads = False  # that turn was begun by the viewer's message, or was taken over here for it
        self.message_id = ""
        self.live = False  # it is among those who are shown what happens
        self._conversation = conversation
        self._viewer: Viewer = viewer
        self._outlet = outlet
        self._only_its_turn = only_its_turn
        self._hides_reasoning = hides_reasoning
        self._may_approve = may_answer
        self._may_raise = may_raise  # and so may answer the question whether more may be used
        self._stands_in = False  # it joined a turn, and is asked because nobody else can be
        self._recorded = False  # the message is in the log
        self._read = False  # the model has been given it
        self._behind = False
        self._given = GivenText()
        self._shown_to: int | None = None  # of a viewer that came back, while it catches up: the last record it had been shown

    # -- beginning and ending

    def go_live(self) -> None:
        """From here on the viewer is shown everything after the cursor, as it happens."""
        if self._viewer is _NOBODY:
            return  # it was stopped while something was read for it
        self.live = True
        self._broadcast.followers.append(self)
        self._conversation.on_watch_needed(self._conversation)  # what other processes do is to be seen here
        if not self.caught_up:
            self._behind = True
            self._catch_up()

    async def go_live_from_cursor(self) -> None:
        """Like `go_live`, for a viewer that has not read up to what is published: it is shown that first."""
        while not self.caught_up:
            page = await self.read_page()
            if not page:
                break
            for live in page:
                self._pass_on(live)
        self.go_live()

    async def resume(self, message_id: str, *, leads: bool, shown_to: int, given: Mapping[str, int]) -> None:
        """Follow a message that was sent earlier, by a viewer that is gone; or, where none is named, everything. It had been shown
        all up to record `shown_to`, and of unfinished text what `given` says (`given_marks`). It begins after the cursor; the
        viewer leaves out what was shown.
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
                    return  # it has come to the end of its turn
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
        """Like `go_live`, for a viewer that only watches and comes back: of the texts that were not finished at its cursor it has
        been given what `given` says (`given_marks`), and is given the rest.
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
        """Somebody waits for the end of a turn: should its process die, it is taken over here."""
        if self not in self._conversation.waiting and self._viewer is not _NOBODY:
            self._conversation.waiting.append(self)

    def stop(self) -> None:
        """The viewer is not called any more."""
        if self._viewer is _NOBODY:
            return
        self._viewer = _NOBODY  # breaks a reference cycle, so that both are freed at once
        if self.live:
            self.live = False
            followers = self._broadcast.followers
            if self in followers:  # else the broadcast has dropped it, because of a bug
                followers.remove(self)
        if self in self._conversation.waiting:
            self._conversation.waiting.remove(self)
        if self._may_answer and self._tail.state.questions:
            self.cannot_answer()

    def cannot_answer(self) -> None:
        """The viewer has left, or its client has. Where nobody else can answer an open question, those who wait are asked again
        what becomes of it: a call denies it, and the others let it wait. In a later step, for all may be leaving.
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
        """To be called in the step that took the message. Questions open by then are not shown again: they are put here."""
        self.message_id, self.turn = accepted.message_id, accepted.turn
        self.leads = not (accepted.joined or accepted.held)  # which of the held ones begins a turn, the log tells
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
        """The turn that is under way, here or in another process."""
        self.turn = turn
        self._recorded = self._read = True
        self.wait()

    def taken_over(self) -> None:
        """The process that ran the turn is gone, and it continues here: its questions are put here."""
        self.leads = True
        if self.message_id and not self.turn:
            self.turn = self._tail.state.turn  # as far as we know its message is for this one, whose text it is to have whole
        self.put_open_questions()

    def put_open_questions(self) -> None:
        """Those from before a restart, or of a turn that runs elsewhere. One on its way to the disk is put once it is there."""
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
            return  # the viewer has it from elsewhere (another process may be ahead of this one), or reads it from the log
        outlet = self._outlet
        if outlet is None or not outlet.congested or not self._fall_behind(outlet):
            self._pass_on(live)

    def show_delta(self, live: LiveDelta) -> None:
        if live.after < self.cursor or (self._hides_reasoning and type(live.delta) is ReasoningDelta):
            return
        if self._behind or (self._outlet is not None and self._outlet.congested and self._fall_behind(self._outlet)):
            return
        self._given.add(live.delta)
        if not self._only_its_turn or (self.leads and (live.turn == self.turn or type(live.delta) is OutputDelta)):
            self._viewer.delta(live)  # what a command of an earlier turn prints is shown too

    def fail(self, error: AgentError) -> None:
        viewer = self._viewer
        self.stop()
        viewer.failed(error)

    # -- entries

    def _pass_on(self, live: LiveEntry) -> None:
        """The next entry, live or read again."""
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
        if not self.message_id:  # it only watches: where it was given nothing of a text, the record says it all
            return type(entry.record) is TurnEnded or self._given.length(TEXT) > 0
        return entry.seq > self._shown_to

    def _show_rest(self, entry: Entry) -> None:
        """Of a text that is over, to a viewer that was behind: of an answer that was cut off only the end of the turn has it."""
        text, given = said_in(entry.record), self._given.length(TEXT)
        longest = UNFINISHED_CHARACTERS if type(entry.record) is TurnEnded else len(text)
        lacks_some = given < min(len(text), longest)  # after that many the record has a mark instead of text
        if lacks_some and (not self._only_its_turn or (self.leads and entry.turn == self.turn)):
            rest = TextDelta(text[given:])
            self._given.add(rest)
            self._viewer.delta(LiveDelta(rest, entry.turn, entry.parent))

    def _locate_message(self, entry: Entry) -> None:
        """Where the message is: nearly always in the turn it was sent to, but another process may have ended that meanwhile."""
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
                if self._read or (self._recorded and ended.reason != "completed"):  # else the message goes to the turn after it
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
        """The next entries after the cursor, for viewers who have not gone live; none once they have seen all that is published.

        In a step of the event loop that has room for it.
        """
        return await self._conversation.pages.after(self.cursor, self._broadcast.published)

    @property
    def caught_up(self) -> bool:
        return self.cursor >= self._broadcast.published

    def take_unfinished(self) -> list[LiveDelta]:
        """The text so far of unfinished items, for a viewer who is about to go live: it is not shown again."""
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
        """Pages of what was missed; where the client may be slow, each in a step of its own, once there is room for it."""
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
        """What is left of the page is read again later: a client that does not read must not have it kept in memory."""
        for live in page:
            if self._outlet is not None and self._outlet.congested:
                return
            if self.live:
                self._pass_on(live)

    def _show_missing(self) -> None:
        """Of unfinished texts what the viewer was not given."""
        turn = self.turn or self._tail.state.turn or ""  # the end of it may be on its way to the disk already
        for delta in self._given.missing(self._broadcast.text):
            self.show_delta(LiveDelta(delta, turn, self.cursor))


def _is_of_session(record: Record) -> bool:
    """The end of a command that an earlier turn began."""
    return isinstance(record, CommandEnded) and record.started is not None


def is_reasoning(record: Record) -> bool:
    return isinstance(record, ItemReceived) and isinstance(record.item, Reasoning)
