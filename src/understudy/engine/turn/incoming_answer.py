"""The answer that a model is giving: shows text and reasoning as they come, records finished items, and runs calls."""

import asyncio
from typing import Protocol

from understudy.engine.log.tail import Tail
from understudy.engine.log.unfinished_text import ShownText, cut_off
from understudy.engine.turn.tool_calls import ToolCalls
from understudy.errors import StreamLost
from understudy.models.model import Answer, Completed, Counted, ItemDone, ModelEvent
from understudy.protocol.encodable import encode
from understudy.protocol.items import FunctionCall, Message, Reasoning, Usage
from understudy.protocol.records import ItemReceived, Noticed, ReasoningDelta, Record, TextDelta
from understudy.tools.host import ToolHost

AT_ONCE = 128  # events of a model handled before others get their turn; fewer if there are many viewers
MERGED_CHARACTERS = 4096  # pieces that arrived together are joined until the text has this length
ANEW = Noticed("the model began its answer anew; the whole text follows when it is complete", withdraws=True)
TAKEN_BACK = Noticed("the model took back what it had begun to say", withdraws=True)


class Takes(ToolHost, Protocol):
    """What the answer needs of its turn."""

    async def listen(self, answer: Answer) -> list[ModelEvent]: ...

    @property
    def calls(self) -> ToolCalls: ...

    def count(self, usage: Usage, *, cut: bool = False) -> None: ...

    def note_uncounted(self) -> None:
        """The answer is complete, but the provider did not report its tokens."""
        ...


class IncomingAnswer:
    """One per turn: if an answer broke off and is asked for again, only what goes beyond the text already shown is shown."""

    def __init__(self, tail: Tail, turn_id: str, *, show_raw_reasoning: bool) -> None:
        self._tail = tail
        self._turn_id = turn_id
        self._show_raw_reasoning = show_raw_reasoning
        self._text = ShownText()
        self._thoughts: tuple[ShownText, ShownText] | None = None  # reasoning and raw reasoning, if any has come

    @property
    def unfinished(self) -> str:
        """What the model has said of an answer that is not complete."""
        return cut_off(self._text.shown)

    def begin_again(self) -> None:
        """The answer broke off and is asked for again."""
        for text in (self._text, *(self._thoughts or ())):
            text.begin_again()

    async def read(self, answer: Answer, turn: Takes) -> None:
        """Read to the end. Raises `StreamLost` if the answer breaks off."""
        while events := await turn.listen(answer):
            number = len(events)
            if number > AT_ONCE:
                events = _merged(events)
                number = len(events)
            at_once = AT_ONCE // (len(self._tail.broadcast.followers) or 1) or 1
            for start in range(0, number, at_once):
                if start:
                    await asyncio.sleep(0)  # thousands may come at once; this lets a ping be answered between them
                texts: list[TextDelta] = []
                for event in events[start : start + at_once]:
                    if type(event) is TextDelta:  # nearly all events: those in a row are shown together
                        if event.text:
                            texts.append(event)
                        continue
                    if texts:
                        self._hear_texts(texts)
                        texts = []
                    try:
                        if await self._hear(event, turn):
                            return
                    except BaseException:
                        unheard = events[next(at for at, each in enumerate(events) if each is event) :]
                        await self._count_unheard(unheard, answer, turn)
                        raise
                if texts:
                    self._hear_texts(texts)
        raise StreamLost("stream disconnected before completion: stream closed before response.completed")

    async def _count_unheard(self, events: list[ModelEvent], answer: Answer, turn: Takes) -> None:
        """The turn ends while a call of the answer runs. If the answer's end has already arrived, count its tokens: they are paid
        for.
        """
        for event in (*events, *await answer.arrived()):
            if isinstance(event, Completed | Counted) and event.usage is not None and not self._tail.failure:
                turn.count(event.usage, cut=True)

    async def _hear(self, event: ModelEvent, turn: Takes) -> bool:
        """True when the answer is complete."""
        match event:
            case ReasoningDelta(text=text, raw=raw):
                self._hear_reasoning(text, raw)
            case ItemDone(item=item):
                await self._take(item, turn)
            case Completed(usage=usage):
                if turn.calls.reads:
                    await turn.calls.finish_reads()
                self._withdraw_unfinished()
                if usage is None:
                    turn.note_uncounted()
                else:
                    turn.count(usage)
                return True
            case Counted(usage=usage):
                await turn.calls.finish_reads()
                turn.count(usage)
            case TextDelta():
                self._hear_texts([event])
        return False

    def _hear_texts(self, deltas: list[TextDelta]) -> None:
        if self._text.is_all_new:  # nearly always
            self._text.hear("".join([delta.text for delta in deltas]))
            self._tail.emit_all(deltas, self._turn_id)
        else:
            for delta in deltas:
                self._hear_again(delta.text)

    def _hear_again(self, piece: str) -> None:
        """Hear a piece that may have come before."""
        if more := self._text.hear(piece):
            self._tail.emit(TextDelta(more), self._turn_id)
        elif self._text.strayed_now:
            self._record(ANEW)

    def _hear_reasoning(self, text: str, raw: bool) -> None:
        if raw and not self._show_raw_reasoning:
            return
        if self._thoughts is None:
            self._thoughts = ShownText(), ShownText()
        more = self._thoughts[int(raw)].hear(text)
        if more:
            self._tail.emit(ReasoningDelta(more, raw), self._turn_id)

    async def _take(self, item: Message | Reasoning | FunctionCall, turn: Takes) -> None:
        calls = turn.calls
        if not isinstance(item, FunctionCall) and calls.reads:
            await calls.finish_reads()
        match item:
            case FunctionCall():
                call, _ = encode(item)  # as the log will have it: its id names the question, the command and the answer
                await calls.make_way(call)
                self._record(ItemReceived(call))
                await calls.run(call, turn)
            case Message():
                if self._text.falls_short:
                    self._record(ANEW)
                self._record(ItemReceived(item))
                self._text.finish()
            case Reasoning():
                self._record(ItemReceived(item, self._show_raw_reasoning))
                for thought in self._thoughts or ():
                    thought.finish()

    def _withdraw_unfinished(self) -> None:
        """Withdraw text that was shown before a retry and is missing from the complete answer."""
        texts = (self._text, *(self._thoughts or ()))
        left = [text for text in texts if not text.untouched]
        if left and any(text.shown for text in left):
            self._record(TAKEN_BACK)
        for text in left:
            text.finish()

    def _record(self, record: Record) -> None:
        self._tail.append(record, turn=self._turn_id)


def _merged(events: list[ModelEvent]) -> list[ModelEvent]:
    """The same events with fewer pieces of text, because each piece is sent to every viewer."""
    merged: list[ModelEvent] = []
    pieces: list[str] = []
    size = 0
    for event in events:
        if pieces and (type(event) is not TextDelta or size >= MERGED_CHARACTERS):
            merged.append(TextDelta("".join(pieces)))
            pieces, size = [], 0
        if type(event) is TextDelta:
            pieces.append(event.text)
            size += len(event.text)
        else:
            merged.append(event)
    if pieces:
        merged.append(TextDelta("".join(pieces)))
    return merged
