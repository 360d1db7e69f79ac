"""Model-visible history: what a model said and was given.

The shapes are those of the Responses API, from which both wires are built; the log keeps them as they are here.
"""

from typing import Literal

import msgspec

ANSWER = "answer:"  # begins an item id that names the answer the item came in, for a wire that must reassemble answers


class InputText(msgspec.Struct, frozen=True, gc=False, tag="input_text", tag_field="type"):
    text: str


class InputImage(msgspec.Struct, frozen=True, gc=False, tag="input_image", tag_field="type"):
    image_url: str  # a data: URL or an http(s) URL


class OutputText(msgspec.Struct, frozen=True, gc=False, tag="output_text", tag_field="type"):
    text: str


ContentPart = InputText | InputImage | OutputText


class Message(msgspec.Struct, frozen=True, gc=False, tag="message", tag_field="type"):
    role: Literal["user", "assistant", "developer", "system"]
    content: tuple[ContentPart, ...]
    id: str | None = None
    phase: str | msgspec.UnsetType = msgspec.UNSET  # `commentary` or `final_answer`, for models that say it and want it back

    def text(self) -> str:
        match self.content:
            case (InputText(text=text) | OutputText(text=text),):  # nearly all messages
                return text
            case _:
                pass
        return "".join([part.text for part in self.content if not isinstance(part, InputImage)])


class SummaryText(msgspec.Struct, frozen=True, gc=False, tag="summary_text", tag_field="type"):
    text: str


class ReasoningText(msgspec.Struct, frozen=True, gc=False, tag="reasoning_text", tag_field="type"):
    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning", tag_field="type"):
    summary: tuple[SummaryText, ...] = ()
    content: tuple[ReasoningText, ...] | None = None  # raw reasoning, if the model gives it
    encrypted_content: str | None = None
    id: str | None = None
    signature: str | None = None  # Anthropic's, over the summary; empty: the thought was withheld, see `encrypted_content`


class FunctionCall(msgspec.Struct, frozen=True, gc=False, tag="function_call", tag_field="type"):
    name: str
    arguments: str  # JSON text, as the model wrote it
    call_id: str
    id: str | None = None
    custom: bool = False  # the model wrote free text, which `arguments` holds as `{"input": …}`
    extra: str | None = None  # JSON that a Chat provider sent with the call and wants back, such as Gemini's signature of a thought


class FunctionCallOutput(msgspec.Struct, frozen=True, gc=False, tag="function_call_output", tag_field="type", omit_defaults=True):
    call_id: str
    output: str
    images: tuple[str, ...] = ()  # data: URLs, shown to the model after the text


ModelItem = Message | Reasoning | FunctionCall  # what a model produces
Item = Message | Reasoning | FunctionCall | FunctionCallOutput  # what a model is sent


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one model answer."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    cache_write_input_tokens: int | None = None  # written into the provider's cache, if the provider counts that

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.cached_input_tokens if (more := other.cached_input_tokens) is None else (self.cached_input_tokens or 0) + more,
            self.reasoning_output_tokens
            if (more := other.reasoning_output_tokens) is None
            else (self.reasoning_output_tokens or 0) + more,
            self.cache_write_input_tokens
            if (more := other.cache_write_input_tokens) is None
            else (self.cache_write_input_tokens or 0) + more,
        )
