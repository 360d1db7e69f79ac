"""Faults that are put into the engine by hand, to show that the rules notice them: each takes one promise of it away.

A fault changes a class or module of the engine for the rest of the process, so that it is played in a process of its own:
`python -m tests.simulation --fault forget-a-letter`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from understudy.engine.conversation import our_claim
from understudy.engine.conversation.beginning import Beginning
from understudy.engine.conversation.elsewhere import Elsewhere
from understudy.engine.conversation.letters import HeldMessages, Letters
from understudy.engine.conversation.our_claim import OurClaim
from understudy.engine.conversation.running import Running
from understudy.engine.log import recovery
from understudy.engine.log.broadcast import Broadcast, LiveDelta, LiveEntry
from understudy.engine.log.tail import Tail
from understudy.engine.ops import interrupting
from understudy.engine.turn.approvals import Approvals
from understudy.engine.viewers.following import Following
from understudy.protocol.records import CommandEnded, CommandStarted, PatchStarted, Record, ToolAnswered, TurnEnded, UserMessage

EVERY = 5  # where a fault would be too coarse if it happened each time


def _appends(change: Callable[[tuple[Record, ...]], tuple[Record, ...]]) -> None:
    """The records of each append are changed on their way."""
    append = Tail.append

    def changed(self: Tail, *records: Record, turn: str) -> None:
        if kept := change(records):
            append(self, *kept, turn=turn)

    _put(Tail, "append", changed)


def _put(where: object, name: str, changed: Callable[..., Any]) -> None:
    assert hasattr(where, name), f"{where} has no {name} any more"
    setattr(where, name, changed)


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _leave_out(*kinds: type[Any]) -> None:
    _appends(lambda records: tuple(record for record in records if not isinstance(record, kinds)))


def _twice(kind: type[Any]) -> None:
    _appends(lambda records: tuple(again for each in records for again in ((each, each) if type(each) is kind else (each,))))


def drop_an_append() -> None:
    _leave_out(CommandEnded)


def drop_the_intent() -> None:
    _leave_out(CommandStarted, PatchStarted)


def answer_a_call_twice() -> None:
    _appends(
        lambda records: tuple(again for each in records for again in ((each, each) if type(each) is ToolAnswered else (each,)))
    )


def end_a_turn_twice() -> None:
    _twice(TurnEnded)


def record_a_message_twice() -> None:
    _twice(UserMessage)


def act_before_the_intent_is_on_disk() -> None:
    async def at_once(self: Tail) -> None:
        self.flush()

    _put(Tail, "committed", at_once)


def acknowledge_before_it_is_on_disk() -> None:
    def at_once(self: Tail, callback: Callable[[Any], None]) -> None:
        self.flush_soon()
        callback(None)

    _put(Tail, "when_durable", at_once)


def show_before_the_commit() -> None:
    add = Broadcast.add

    def shown(self: Broadcast, entries: Sequence[Any]) -> None:
        add(self, entries)
        self.publish(entries[-1].seq)

    _put(Broadcast, "add", shown)


def show_a_delta_too_early() -> None:
    def early(self: Broadcast, lives: Sequence[LiveDelta]) -> None:
        self._show_deltas(lives)  # pyright: ignore[reportPrivateUsage]

    _put(Broadcast, "add_deltas", early)


def leave_a_record_out_of_what_is_shown() -> None:
    show = Broadcast._show  # pyright: ignore[reportPrivateUsage]

    def leaves_out(self: Broadcast, live: LiveEntry) -> None:
        if live.entry.seq % EVERY:
            show(self, live)

    _put(Broadcast, "_show", leaves_out)


def show_a_record_twice() -> None:
    show = Following.show

    def twice(self: Following, live: Any) -> None:
        show(self, live)
        if live.entry.seq % EVERY == 0:
            self._viewer.entry(live)  # pyright: ignore[reportPrivateUsage]

    _put(Following, "show", twice)


def hide_what_other_processes_wrote() -> None:
    _put(Broadcast, "publish_foreign", _nothing)


def forget_a_letter() -> None:
    waiting = Letters.waiting

    async def fewer(self: Letters) -> list[Any]:
        letters = await waiting(self)
        if letters:
            self.note_read(letters[0])
        return letters[1:]

    _put(Letters, "waiting", fewer)


def read_a_letter_twice() -> None:
    _put(Tail, "take_letters", _nothing)


def release_a_claim_early() -> None:
    start = Running.start

    def released(self: Running, turn: Any, by: str) -> None:
        start(self, turn, by)
        claims[id(self._tail)].release()  # pyright: ignore[reportPrivateUsage]

    claims: dict[int, OurClaim] = {}
    begin = OurClaim.__init__

    def noted(self: OurClaim, conversation_id: Any, log: Any, tail: Tail, *others: Any) -> None:
        begin(self, conversation_id, log, tail, *others)
        claims[id(tail)] = self

    _put(OurClaim, "__init__", noted)
    _put(Running, "start", released)


def never_release_a_claim() -> None:
    _put(OurClaim, "release", _nothing)


def believe_that_nobody_else_has_written() -> None:
    def always(*_: Any) -> bool:
        return True

    _put(our_claim, "_is_at", always)


def say_that_nothing_runs() -> None:
    async def nothing(*_: Any) -> None:
        return None

    _put(interrupting, "end_turn", nothing)


def let_an_interrupt_do_nothing() -> None:
    _put(Running, "interrupt", _nothing)


def forget_a_held_message() -> None:
    take_all = HeldMessages.take_all

    def fewer(self: HeldMessages) -> list[Any]:
        return take_all(self)[1:]

    _put(HeldMessages, "take_all", fewer)


def count_every_answer() -> None:
    record = Approvals._record  # pyright: ignore[reportPrivateUsage]

    def counted(self: Approvals, op: Any, turn: str, *, counts: bool, key: str | None) -> None:
        record(self, op, turn, counts=True, key=key)

    _put(Approvals, "_record", counted)


def leave_a_cut_turn_open() -> None:
    async def left(self: Beginning, *, may_resume: bool = True) -> None:
        return None

    _put(Beginning, "settle_cut_turn", left)


def leave_calls_open() -> None:
    def none(_: Any) -> list[Record]:
        return []

    _put(recovery, "close_open_calls", none)


def go_on_after_a_failed_commit() -> None:
    on_batch = Tail._on_batch  # pyright: ignore[reportPrivateUsage]

    def went_well(self: Tail, last: int, generation: int, _: BaseException | None) -> None:
        on_batch(self, last, generation, None)

    _put(Tail, "_on_batch", went_well)


def look_at_no_letter_of_another_process() -> None:
    async def none(self: Elsewhere, letters: Sequence[Any]) -> None:
        return None

    _put(Elsewhere, "_take_letters", none)


FAULTS: dict[str, Callable[[], None]] = {
    put.__name__.replace("_", "-"): put
    for put in (
        drop_an_append,
        drop_the_intent,
        answer_a_call_twice,
        end_a_turn_twice,
        record_a_message_twice,
        act_before_the_intent_is_on_disk,
        acknowledge_before_it_is_on_disk,
        show_before_the_commit,
        show_a_delta_too_early,
        leave_a_record_out_of_what_is_shown,
        show_a_record_twice,
        hide_what_other_processes_wrote,
        forget_a_letter,
        read_a_letter_twice,
        release_a_claim_early,
        never_release_a_claim,
        believe_that_nobody_else_has_written,
        say_that_nothing_runs,
        let_an_interrupt_do_nothing,
        forget_a_held_message,
        count_every_answer,
        leave_a_cut_turn_open,
        leave_calls_open,
        go_on_after_a_failed_commit,
        look_at_no_letter_of_another_process,
    )
}
