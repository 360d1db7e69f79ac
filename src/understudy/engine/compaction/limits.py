"""Whether a context is too long for the next request. `compactor` then makes room.

Sizes are estimated at four bytes to a token. Only a provider can count tokens.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from understudy.engine.log.fold import State
from understudy.models.families import DEFAULT_WINDOW
from understudy.models.model import ToolSpec
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputImage, Item, Message, Reasoning

if TYPE_CHECKING:
    from understudy.engine.compaction.provider_window import ProviderWindow


BYTES_PER_TOKEN = 4
ITEM_TOKENS = 8  # for what surrounds an item's text
IMAGE_TOKENS = 1500


def tokens_of(item: Item) -> int:
    match item:
        case Message(content=content):
            images = sum(isinstance(part, InputImage) for part in content)
            return ITEM_TOKENS + images * IMAGE_TOKENS + text_tokens(item.text())
        case Reasoning(summary=summary, content=content, encrypted_content=sealed):
            texts = (*(part.text for part in summary), *(part.text for part in content or ()), sealed or "")
            return ITEM_TOKENS + sum(map(text_tokens, texts))
        case FunctionCall(name=name, arguments=arguments):
            return 2 * ITEM_TOKENS + text_tokens(name) + text_tokens(arguments)
        case FunctionCallOutput():
            return 2 * ITEM_TOKENS + output_tokens(item)


def output_tokens(item: FunctionCallOutput) -> int:
    return text_tokens(item.output) + len(item.images) * IMAGE_TOKENS


def text_tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def all_tokens(items: Iterable[Item]) -> int:
    return sum(map(tokens_of, items))


DEFAULT_SHARE = 0.9  # share of the window: the default point at which compaction begins


class ContextLimits(msgspec.Struct, frozen=True):
    """The limits of one model, in tokens."""

    configured: int | None = None  # the window, by the configuration or the table; None: unknown
    compact_at: int | None = None  # None: the default share of the window
    prompt: str = ""  # asks for a summary; empty: use our own words
    provider: "ProviderWindow | None" = None  # may tell the window if it is unknown

    @property
    def window(self) -> int | None:
        """The window, if it is known by now."""
        return self.configured if self.provider is None else self.provider.tokens

    @property
    def limit(self) -> int:
        return self.compact_at if self.compact_at is not None else int((self.window or DEFAULT_WINDOW) * DEFAULT_SHARE)


def tokens_if_due(state: State, limits: ContextLimits, prefix: "Prefix") -> int | None:
    """The tokens in use if a compaction should precede the next request, otherwise None."""
    used, window = state.context_tokens, limits.window
    if used is not None and used >= limits.limit:
        return used
    if window is None or len(state.items) < 2:  # nothing could be left out
        return None
    if used is None:  # the provider does not count, or has not yet: this is a guess, so compact only close to the window
        guess = prefix.tokens() + all_tokens(state.items) + _waiting_tokens(state)
        return guess if guess >= window * DEFAULT_SHARE else None
    return used if used + _uncounted_tokens(state) >= window else None


def _uncounted_tokens(state: State) -> int:
    """Estimated tokens added since the last answer: outputs of its calls, and messages."""
    outputs = 0
    for item, step in zip(reversed(state.items), reversed(state.history.steps), strict=True):
        if step != state.requests:
            break
        outputs += output_tokens(item) if isinstance(item, FunctionCallOutput) else 0
    return outputs + _waiting_tokens(state)


def _waiting_tokens(state: State) -> int:
    return all_tokens(message.message for message in state.waiting.values())


class Prefix:
    """What precedes the history in every request. Measured on first use."""

    def __init__(self, instructions: str, offered: tuple[ToolSpec, ...], preamble: tuple[Item, ...]) -> None:
        self._instructions = instructions
        self._offered = offered
        self._preamble = preamble
        self._tokens: int | None = None

    def tokens(self) -> int:
        if self._tokens is None:
            tools = text_tokens(msgspec.json.encode(self._offered).decode())
            self._tokens = text_tokens(self._instructions) + tools + all_tokens(self._preamble)
        return self._tokens
