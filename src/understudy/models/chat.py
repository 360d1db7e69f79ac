"""The Chat Completions wire: requests from prompts. Its streams are read in `chat_stream`."""

from typing import Any

import msgspec

from understudy.models.chat_stream import ChatDecoder
from understudy.models.encoding import HISTORIES, ToolCache, encode_instructions, outputs_after_calls
from understudy.models.prompt import ModelSettings, Prompt, ToolSpec
from understudy.protocol.items import FunctionCall, InputImage, Item, Message, Reasoning

encode = msgspec.json.Encoder().encode

_refuses_usage: set[str] = set()  # addresses that do not know `stream_options`; learnt once a process


class ChatWire:
    path = "/chat/completions"

    def __init__(self, settings: ModelSettings, place: str) -> None:
        self._settings = settings
        self._place = place

    @property
    def _asks_usage(self) -> bool:
        return self._place not in _refuses_usage

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]:
        return []

    def body(self, prompt: Prompt) -> list[bytes]:
        system = (b'{"role":"system","content":', encode_instructions(prompt.instructions), b"}")
        history = HISTORIES.encode("chat", prompt.conversation_id, outputs_after_calls(prompt.items), encode_message)
        parts = [b'{"model":', encode(self._settings.model), b',"messages":[', *system, *history, b'],"stream":true']
        if self._asks_usage:
            parts.append(b',"stream_options":{"include_usage":true}')
        if prompt.tools and prompt.may_call:
            parts += [b',"tools":', TOOLS.encode(prompt.tools)]
        parts.append(b"}")
        return parts

    def decoder(self) -> ChatDecoder:
        return ChatDecoder(expects_usage=self._asks_usage, show_raw=self._settings.show_raw)

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        if status in (400, 422) and self._asks_usage and ("stream_options" in body or "include_usage" in body):
            _refuses_usage.add(self._place)
            return True
        return False


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "strict": tool.strict, "parameters": tool.parameters}
    return {"type": "function", "function": function}


TOOLS = ToolCache(_tool)


def encode_message(item: Item) -> bytes:
    match item:
        case Message():
            role = "system" if item.role == "developer" else item.role  # few providers know `developer`
            return encode({"role": role, "content": _content(item)})
        case FunctionCall():
            function = {"name": item.name, "arguments": item.arguments}
            call = {"id": item.call_id, "type": "function", "function": function}
            return encode({"role": "assistant", "content": None, "tool_calls": [call]})
        case Reasoning():
            return b""
        case _:
            return encode({"role": "tool", "tool_call_id": item.call_id, "content": item.output})


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not any(isinstance(part, InputImage) for part in message.content):
        return message.text()
    return [
        {"type": "image_url", "image_url": {"url": part.image_url}}
        if isinstance(part, InputImage)
        else {"type": "text", "text": part.text}
        for part in message.content
    ]
