"""Plans, as a pure function of sizes, what to leave out of a history that is too long. `compactor` carries the plan out.

Sizes are estimates (`sizes`). The provider's own count decides whether anything is left out at all.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from understudy.engine.compaction.limits import BYTES_PER_TOKEN, IMAGE_TOKENS, ITEM_TOKENS, text_tokens, tokens_of
from understudy.engine.log.fold import State
from understudy.engine.log.history import images_in
from understudy.protocol.items import FunctionCallOutput, Item, Message
from understudy.protocol.records import CommandStarted, Compacted, Shortened

LEAST_SAVED = 64  # tokens; a shorter output stays
CLEAR = 0.9  # share of the limit: if dropping outputs gets below this, that is enough

NOT_SUMMED_UP = "Earlier parts of this conversation were left out to make room, and could not be summed up."
SUMMED_UP = "Earlier parts of this conversation were left out to make room. This is what you noted down of them before."

REFUSED = "The provider could not use an image that you were to be shown, so it was left out. Do not ask for it again as it is."


class TokenShares(msgspec.Struct, frozen=True):
    """Tokens that may be kept, by our estimate."""

    users: int  # text of people from before the recent part
    exchange: int  # the last exchange, if it can stay whole
    recent: int  # otherwise this much of its end
    summary: int

    @classmethod
    def of(cls, capacity: int, prefix: int, ratio: float) -> "TokenShares":
        """`capacity`: tokens at which compaction begins. `ratio`: of the provider's count to our estimate."""
        free = max(capacity - prefix, capacity // 4) / ratio
        return cls(
            users=_share(free, 0.20, 20_000),
            exchange=_share(free, 0.40, 40_000),
            recent=_share(free, 0.25, 20_000),
            summary=_share(free, 0.15, 8_000),
        )


def _share(free: float, part: float, most: int, least: int = 1_500) -> int:
    return max(min(int(free * part), most), least)


class Remainder(msgspec.Struct, frozen=True):
    """What stays of a history: the records it came from, where the recent part begins, and which items are shortened."""

    sources: tuple[int, ...]
    recent: int
    shortened: tuple[Shortened, ...]
    tokens: int


def plan_trim(state: State, shares: TokenShares, *, only_images: bool = False) -> tuple[tuple[Shortened, ...], int]:
    """The images and outputs before the recent part, and the tokens saved by leaving them out."""
    history = state.history
    start = _recent_start(state, shares)
    dropped: list[Shortened] = []
    saved = 0
    for item, source in zip(history.items[:start], history.sources, strict=False):
        if not only_images and isinstance(item, FunctionCallOutput) and (tokens := tokens_of(item)) >= LEAST_SAVED:
            dropped.append(Shortened(source, 0))
            saved += tokens - 2 * ITEM_TOKENS - ITEM_TOKENS
        elif images := images_in(item):
            dropped.append(Shortened(source, len(_text_of(item))))
            saved += images * IMAGE_TOKENS - 2 * ITEM_TOKENS
    return tuple(dropped), saved


def plan_refused(state: State) -> tuple[Shortened, ...]:
    """The images since the last answer, because the provider accepted earlier ones. If there are none since, all images."""
    history = state.history
    seen = [index for index, item in enumerate(history.items) if images_in(item)]
    answer = max((index for index, item in enumerate(history.items) if not _is_given(item)), default=-1)
    newest = [index for index in seen if index > answer]
    return tuple(Shortened(history.sources[index], len(_text_of(history.items[index]))) for index in newest or seen)


def _text_of(item: Item) -> str:
    match item:
        case FunctionCallOutput(output=output):
            return output
        case Message():
            return item.text()
        case _:
            return ""


def plan_remainder(state: State, shares: TokenShares) -> Remainder:
    """Keep what people wrote (the very first, then the newest first) and the recent part with its calls and outputs."""
    history = state.history
    start = _recent_start(state, shares)
    words = [index for index in range(start) if history.sources[index] in history.from_users]
    kept, cut = _plan_users(history.items, history.sources, words, shares.users)
    recent = [index for index in range(start, len(history.items)) if not _is_ours(state, index)]
    cut += _plan_outputs(history.items, history.sources, recent, shares.exchange)
    sources = tuple(dict.fromkeys(history.sources[index] for index in (*kept, *recent)))
    limits = {each.seq: each.characters for each in cut}
    tokens = sum(
        min(tokens_of(history.items[index]), limits.get(history.sources[index], 1 << 60) // BYTES_PER_TOKEN + 3 * ITEM_TOKENS)
        for index in (*kept, *recent)
    )
    return Remainder(sources, history.sources[recent[0]] if recent else 0, tuple(cut), tokens)


def _recent_start(state: State, shares: TokenShares) -> int:
    """Where the recent part begins. If the last answered exchange is small enough, it stays whole; otherwise as many of its last
    steps as fit, and at least one. A step is a request's messages, the answer, and the outputs of its calls.
    """
    history = state.history
    starts = [i for i, step in enumerate(history.steps) if i == 0 or step != history.steps[i - 1]]
    if not starts:
        return 0
    from_here = [*accumulate(tokens_of(item) for item in reversed(history.items))][::-1]  # tokens of an item and all after it
    answered = False
    for start, end in zip(reversed(starts), reversed([*starts[1:], len(from_here)]), strict=True):
        answered = answered or any(not _is_given(item) for item in history.items[start:end])
        if answered and any(history.sources[index] in history.from_users for index in range(start, end)):
            if from_here[start] <= shares.exchange:
                return start
            break
    fitting = [start for start in starts if from_here[start] <= shares.recent]
    return fitting[0] if fitting else starts[-1]


def _is_given(item: Item) -> bool:
    """Whether the item was given to the model rather than said by it."""
    return isinstance(item, FunctionCallOutput) or (isinstance(item, Message) and item.role != "assistant")


def _is_ours(state: State, index: int) -> bool:
    """A note of an earlier compaction, or a change of the context: the new note and the prefix repeat these."""
    item = state.history.items[index]
    return isinstance(item, Message) and item.role != "assistant" and state.history.sources[index] not in state.history.from_users


def _plan_users(items: Sequence[Item], sources: Sequence[int], words: list[int], most: int) -> tuple[list[int], list[Shortened]]:
    if not words:
        return [], []
    first, later = words[0], words[1:]
    kept: list[int] = []
    cut: list[Shortened] = []

    def keep(index: int, room: int) -> int:
        """Returns the room that is left."""
        tokens = tokens_of(items[index])
        without_images = tokens - images_in(items[index]) * IMAGE_TOKENS + 2 * ITEM_TOKENS
        if tokens <= room:
            kept.append(index)
        elif without_images < tokens and without_images <= room:
            kept.append(index)
            cut.append(Shortened(sources[index], len(_text_of(items[index]))))
            tokens = without_images
        elif room >= LEAST_SAVED:
            kept.append(index)
            cut.append(Shortened(sources[index], room * BYTES_PER_TOKEN))
        return room - tokens

    goal = min(tokens_of(items[first]), most if not later else most // 4)
    keep(first, max(goal, LEAST_SAVED))
    room = most - goal
    for index in reversed(later):
        room = keep(index, room)
        if room < LEAST_SAVED:
            break
    return sorted(kept), cut


def _plan_outputs(items: Sequence[Item], sources: Sequence[int], recent: list[int], most: int) -> list[Shortened]:
    """If the last step itself is too large, keep its calls and an equal share of each output."""
    over = sum(tokens_of(items[index]) for index in recent) - most
    outputs = [index for index in recent if isinstance(items[index], FunctionCallOutput)]
    if over <= 0 or not outputs:
        return []
    share = max(most // len(outputs), LEAST_SAVED) * BYTES_PER_TOKEN
    return [Shortened(sources[index], share) for index in outputs if tokens_of(items[index]) * BYTES_PER_TOKEN > share]


def note_of(state: State, heading: str) -> str:
    """Facts from the log, so that they do not depend on what a model wrote down."""
    parts = [heading]
    if state.plan is not None and state.plan.plan:
        steps = "\n".join(f"- [{step.status}] {step.step}" for step in state.plan.plan)
        parts.append(f"Your plan, as you last set it:\n{steps}")
    running = [f"- {' '.join(begun.command)} (session {number})" for number, (_, begun) in state.sessions.running.items()]
    waited_for = [begun for begun in state.running.values() if isinstance(begun, CommandStarted) and begun.session is None]
    running += [f"- {' '.join(begun.command)} (call {begun.call_id})" for begun in waited_for]
    if running:
        parts.append("\n".join(("Commands that are still running:", *running)))
    if state.changed_files:
        files = "\n".join(f"- {path}" for path in state.changed_files)
        parts.append(f"Files you have changed with patches so far:\n{files}")
    return "\n\n".join(parts)


def compacted(
    kind: Literal["summary", "trimmed"], state: State, kept: Remainder, summary: str, note: str, before: int, prefix: int
) -> Compacted:
    """The record that replaces everything not kept by note and summary. `prefix`: tokens before the history."""
    after = prefix + kept.tokens + text_tokens(note) + text_tokens(summary) + ITEM_TOKENS
    return Compacted(kind, before, after, summary, note, kept.sources, kept.recent, kept.shortened, state.usage)
