"""Makes room in a model's context: drops old outputs, and if that is not enough, has the model summarise the earlier history.

Nothing is lost: the log keeps every record, and a summary that fails or is interrupted leaves the history as it was.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from understudy.engine.compaction.limits import BYTES_PER_TOKEN, Prefix, all_tokens
from understudy.engine.compaction.plan import (
    CLEAR,
    NOT_SUMMED_UP,
    REFUSED,
    SUMMED_UP,
    Remainder,
    TokenShares,
    compacted,
    note_of,
    plan_refused,
    plan_remainder,
    plan_trim,
)
from understudy.engine.log.fold import State
from understudy.engine.log.history import shortened, shortened_text
from understudy.errors import ContextFull, ModelError, ModelUnavailable, StreamLost
from understudy.models.model import Answer, Completed, ItemDone, ModelEvent, Prompt
from understudy.protocol.items import FunctionCallOutput, InputText, Item, Message, Usage
from understudy.protocol.records import Compacted, CompactionStarted, Noticed, Record, Shortened

if TYPE_CHECKING:
    from understudy.engine.setup.turn_setup import TurnSetup

# if a context stays above its limit, the next summary in the same turn waits until it has grown by this fraction of the limit
GROWTH = 8
SMALLER_TRIES = 3  # attempts if the request for a summary does not fit either
MOST_RATIO = 3.0  # highest ratio of the provider's count to our estimate


Reason = Literal["limit", "full", "asked"]


def hint_when_full(state: State, prefix: Prefix) -> str:
    """What a person can do if the provider takes no request of this length, although everything possible was left out."""
    messages, before = all_tokens(state.items), prefix.tokens()
    by_messages = "Send a shorter message, have the agent read long material from a file, or choose a model with a larger window."
    by_model = "Choose a model with a larger context window, or give its server a larger one."
    remedy = by_messages if messages > before else by_model
    return (
        f"The model's context is full, and nothing more can be left out of it: about {messages} tokens of messages, after about "
        f"{before} of instructions and tools. {remedy} Your message is kept in the conversation."
    )


@cache
def _default_prompt() -> str:
    return Path(__file__).with_name("compact_prompt.md").read_text(encoding="utf-8").strip()


class SummaryFailed(Exception):
    """Carries a reason for people."""


class AsksModel(Protocol):
    """What the compactor needs of its turn."""

    def record(self, *records: Record) -> None: ...

    async def committed(self) -> None: ...

    async def may_compact(self, trigger: str) -> str | None:
        """Why no summary may be made now; None if one may."""
        ...

    def count(self, usage: Usage) -> None: ...

    async def listen(self, answer: Answer) -> list[ModelEvent]: ...

    async def pause_before_retry(self, error: StreamLost | ModelUnavailable, attempt: int) -> None:
        """Raises the error after enough attempts."""
        ...


class Compactor:
    """Makes room for one turn."""

    def __init__(self, turn: AsksModel, setup: "TurnSetup", prefix: Prefix, conversation_id: str) -> None:
        self._turn = turn
        self._setup = setup
        self._prefix = prefix
        self._conversation_id = conversation_id
        self._summed_up_at = 0  # tokens in use when this turn last asked for a summary

    async def before_request(self, state: State, used: int) -> None:
        """Make room, because the next request would be too long by the count of the last one."""
        limit = self._setup.limits.limit
        shares = self._shares(state, used)
        images, images_saved = plan_trim(state, shares, only_images=True)
        dropped, saved = plan_trim(state, shares)
        for enough, less in ((images, images_saved), (dropped, saved)):  # old images first: they take most and say least
            if enough and used - less <= limit * CLEAR:
                self._trim(state, enough, used, less)
                return
        if self._summed_up_at and used < self._summed_up_at + limit // GROWTH:
            return  # the last summary did not help or failed, and the next would be no better
        self._summed_up_at = used
        try:
            summary = await self._summarise(state, "limit", used, (list(state.items), self._without_outputs(state)))
        except SummaryFailed as failure:
            self._turn.record(Noticed(f"the conversation could not be summed up: {failure}; it goes on as it is"))
            if dropped:
                self._trim(state, dropped, used, saved)
        else:
            self._shorten(state, shares, summary, used)

    async def when_full(self, state: State) -> bool:
        """Make room after the provider refused a request for its length. False if nothing can be left out."""
        used = max(state.context_tokens or 0, self._prefix.tokens() + all_tokens(state.items))
        shares = self._shares(state, used, full=True)
        kept = plan_remainder(state, shares)
        if len(kept.sources) == len(set(state.history.sources)) and not kept.shortened:
            return False
        self._summed_up_at = used
        try:
            summary = await self._summarise(state, "full", used, self._smaller_and_smaller(state))
        except SummaryFailed as failure:
            told = f"the context is full, and could not be summed up: {failure}; the oldest part of it is left out"
            self._turn.record(Noticed(told))
            earlier = state.history.summary
            note = note_of(state, SUMMED_UP if earlier else NOT_SUMMED_UP)
            self._turn.record(compacted("trimmed", state, kept, earlier, note, used, self._prefix.tokens()))
        else:
            self._shorten(state, shares, summary, used)
        return True

    def leave_out_images(self, state: State, why: str) -> bool:
        """Leave out images that the provider refuses, because it would refuse every request with them. False if there are none."""
        dropped = plan_refused(state)
        if dropped:
            self._turn.record(Noticed(f"an image is no longer sent, because the provider refused it: {why.partition(chr(10))[0]}"))
            used = state.context_tokens or self._prefix.tokens() + all_tokens(state.items)
            self._turn.record(Compacted("trimmed", used, used, note=REFUSED, shortened=dropped, total=state.usage))
        return bool(dropped)

    async def when_asked(self, state: State) -> None:
        """Make a summary because somebody wants one. Raises `ModelError`."""
        used = state.context_tokens or self._prefix.tokens() + all_tokens(state.items)
        try:
            summary = await self._summarise(state, "asked", used, (list(state.items), *self._smaller_and_smaller(state)))
        except SummaryFailed as failure:
            raise ModelError(f"the conversation could not be summed up: {failure}") from None
        self._shorten(state, self._shares(state, used), summary, used)

    # -- choosing what to leave out

    def _shares(self, state: State, used: int, *, full: bool = False) -> TokenShares:
        prefix = self._prefix.tokens()
        guess = prefix + all_tokens(state.items)
        limit = self._setup.limits.limit
        capacity = min(limit, guess) if full else limit  # a full window has proved smaller than assumed
        return TokenShares.of(capacity, prefix, min(max(used / max(guess, 1), 1.0), MOST_RATIO))

    def _trim(self, state: State, dropped: tuple[Shortened, ...], used: int, saved: int) -> None:
        self._turn.record(Compacted("trimmed", used, max(used - saved, 0), shortened=dropped, total=state.usage))

    def _shorten(self, state: State, shares: TokenShares, summary: str, used: int) -> None:
        kept: Remainder = plan_remainder(state, shares)
        words = shortened_text(summary, shares.summary * BYTES_PER_TOKEN, "summary")
        note = note_of(state, SUMMED_UP)
        self._turn.record(compacted("summary", state, kept, words, note, used, self._prefix.tokens()))

    def _without_outputs(self, state: State) -> list[Item]:
        """The items without their outputs, which a summary can best do without."""
        return [shortened(item, 0) if isinstance(item, FunctionCallOutput) else item for item in state.items]

    def _smaller_and_smaller(self, state: State) -> tuple[list[Item], ...]:
        """Histories to try if even the request for a summary is too long: without outputs, then only ever shorter ends."""
        history = state.history
        without = self._without_outputs(state)
        starts = [i for i, step in enumerate(history.steps) if i == 0 or step != history.steps[i - 1]]
        tries = [without]
        for part in range(1, SMALLER_TRIES):
            start = starts[len(starts) - max(len(starts) >> part, 1)] if starts else 0
            tries.append(without[start:])
        return tuple(tries)

    # -- the summary

    async def _summarise(self, state: State, reason: Reason, used: int, tries: tuple[list[Item], ...]) -> str:
        """Summarise the first of these histories that fits. Raises `SummaryFailed`."""
        if (why := await self._turn.may_compact("manual" if reason == "asked" else "auto")) is not None:
            raise SummaryFailed(why)
        for items in tries:
            try:
                return await self._ask(state, reason, used, items)
            except ContextFull:
                continue
            except ModelError as error:
                raise SummaryFailed(str(error).partition("\n")[0]) from None
        raise SummaryFailed("the provider takes no request of this length")

    async def _ask(self, state: State, reason: Reason, used: int, items: list[Item]) -> str:
        attempt = 0
        while True:
            self._turn.record(CompactionStarted(reason, used))
            await self._turn.committed()  # a summary takes long: the prompt that waits for it must survive a crash in that time
            question = Message("user", (InputText(self._setup.limits.prompt or _default_prompt()),))
            sent = (*(state.history.prefix or self._setup.preamble), *items, question)
            asked = (self._setup.instructions, sent, self._setup.offered, self._conversation_id, state.requests - 1)
            prompt = Prompt(*asked, may_call=False)
            try:
                said = await self._read(prompt)
            except (StreamLost, ModelUnavailable) as error:
                attempt += 1
                await self._turn.pause_before_retry(error, attempt)
                continue
            if not said.strip():
                raise SummaryFailed("the model answered with nothing")
            return said.strip()

    async def _read(self, prompt: Prompt) -> str:
        said: list[str] = []
        async with self._setup.model.stream(prompt) as answer:
            while events := await self._turn.listen(answer):
                for event in events:
                    match event:
                        case ItemDone(item=Message() as message):
                            said.append(message.text())
                        case Completed(usage=usage):
                            if usage is not None:
                                self._turn.count(usage)
                            return "\n\n".join(said)
                        case _:
                            pass  # deltas of items that also come whole, and calls, which were not asked for
        raise StreamLost("stream disconnected before completion: stream closed before response.completed")
