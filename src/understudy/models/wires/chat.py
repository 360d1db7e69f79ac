"""The Chat Completions wire: makes requests from prompts. `chat_stream` reads its streams."""

from typing import Any

import msgspec

from understudy.models.families import UNKNOWN, Family, family_of
from understudy.models.model import ModelSettings, Prompt, ToolSpec
from understudy.models.wires.chat_stream import ChatDecoder
from understudy.models.wires.encoding import (
    HISTORIES,
    NAME,
    NO_EYES,
    Unchanging,
    form_for,
    gives_way,
    in_words,
    outputs_after_calls,
    text_without_eyes,
)
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputImage, Item, Message, Reasoning

encode = msgspec.json.Encoder().encode

IMAGES_OF = "Images in the output of the call {call_id}:"  # outputs cannot contain images on this wire, so they follow as a message
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}  # for calls by other models

# What each address rejects, learned once per process.
_refuses_usage: set[str] = set()
_refuses_effort: set[tuple[str, str]] = set()  # per address and model


class ChatWire:
    path = "/chat/completions"

    def __init__(self, settings: ModelSettings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._family = family_of(settings.model)
        self._instructions = Unchanging(encode)
        self._tools = Unchanging(lambda tools: encode([_tool(tool) for tool in tools]))
        self._not_understood: set[str] = set()  # conversations whose signatures the provider does not accept

    @property
    def _asks_usage(self) -> bool:
        return self._place not in _refuses_usage

    @property
    def _effort(self) -> str | None:
        """For models known to accept one, or that reason according to the user, and for unknown models if the user chose an
        effort."""
        settings, family = self._settings, self._family
        wanted = settings.supports_reasoning_summaries
        takes = family.reasoning == "effort" or (family is UNKNOWN and settings.effort_is_chosen)
        if wanted is False or (wanted is None and not takes):
            return None
        effort = family.effort(settings.reasoning_effort or "medium")
        if (effort == "none" and "none" not in family.efforts) or (self._place, settings.model) in _refuses_effort:
            return None
        return effort

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]:
        return []

    def body(self, prompt: Prompt) -> list[bytes]:
        system = (b'{"role":"system","content":', self._instructions.encode(prompt.instructions), b"}")
        signatures = prompt.conversation_id not in self._not_understood
        spelling = _Form(self._family, signatures)
        name = f"chat {self._family.eyes:d}{self._family.signs_calls:d}{signatures:d}"
        history = HISTORIES.encode(name, prompt.conversation_id, outputs_after_calls(prompt.items), spelling.encode)
        form = None if prompt.output_schema is None else form_for(self._place, prompt.output_schema)
        if form == "words":
            history += b"," + encode({"role": "system", "content": in_words(prompt.output_schema or {})})
        parts = [b'{"model":', encode(self._settings.model), b',"messages":[', *system, history, b'],"stream":true']
        if form in ("strict", "lenient"):
            wanted = {"name": NAME, "strict": form == "strict", "schema": prompt.output_schema}
            parts += [b',"response_format":', encode({"type": "json_schema", "json_schema": wanted})]
        if self._asks_usage:
            parts.append(b',"stream_options":{"include_usage":true}')
        if (effort := self._effort) is not None:
            parts += [b',"reasoning_effort":', encode(effort)]
        if prompt.tools and prompt.may_call:
            parts += [b',"tools":', self._tools.encode(prompt.tools)]
        parts.append(b"}")
        return parts

    def decoder(self) -> ChatDecoder:
        return ChatDecoder(expects_usage=self._asks_usage, show_raw=self._settings.show_raw)

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        if status in (400, 422) and self._asks_usage and ("stream_options" in body or "include_usage" in body):
            _refuses_usage.add(self._place)
            return True
        if status in (400, 422) and self._effort is not None and ("reasoning_effort" in body or "reasoning effort" in body.lower()):
            _refuses_effort.add((self._place, self._settings.model))
            return True
        about_signatures = "thought signature" in body.lower() or "thought_signature" in body
        if status == 400 and self._family.signs_calls and about_signatures and prompt.conversation_id not in self._not_understood:
            self._not_understood.add(prompt.conversation_id)
            return True
        return gives_way(self._place, prompt.output_schema, status, body)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "strict": tool.strict, "parameters": tool.parameters}
    return {"type": "function", "function": function}


class _Form:
    """How to write the items of a history, which depends on the model."""

    def __init__(self, family: Family, signatures: bool) -> None:
        self._eyes = family.eyes
        self._signs = family.signs_calls
        self._signatures = signatures  # the provider expects its signatures back

    def encode(self, item: Item) -> bytes:
        match item:
            case Message():
                role = "system" if item.role == "developer" else item.role  # few providers know `developer`
                return encode({"role": role, "content": _content(item, self._eyes)})
            case FunctionCall():
                function = {"name": item.name, "arguments": item.arguments}
                call: dict[str, Any] = {"id": item.call_id, "type": "function", "function": function}
                if self._signs:
                    given = item.extra if self._signatures else None
                    call["extra_content"] = UNSIGNED if given is None else msgspec.Raw(given.encode())
                return encode({"role": "assistant", "content": None, "tool_calls": [call]})
            case Reasoning():
                return b""
            case FunctionCallOutput():
                return self._output(item)

    def _output(self, item: FunctionCallOutput) -> bytes:
        text = item.output if self._eyes else text_without_eyes(item)
        said = encode({"role": "tool", "tool_call_id": item.call_id, "content": text})
        if not item.images or not self._eyes:
            return said
        shown = [_text(IMAGES_OF.format(call_id=item.call_id)), *map(_image, item.images)]
        return said + b"," + encode({"role": "user", "content": shown})


def _content(message: Message, eyes: bool) -> str | list[dict[str, Any]]:
    if not any(isinstance(part, InputImage) for part in message.content):
        return message.text()
    if not eyes:
        return "\n".join(NO_EYES if isinstance(part, InputImage) else part.text for part in message.content)
    return [_image(part.image_url) if isinstance(part, InputImage) else _text(part.text) for part in message.content]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}
