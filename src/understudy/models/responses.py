"""The Responses wire: requests from prompts. Its streams are read in `responses_stream`."""

from typing import Any

import msgspec

from understudy.models.encoding import HISTORIES, ToolCache, encode_instructions
from understudy.models.families import Family, family_of
from understudy.models.prompt import ModelSettings, Prompt, ToolSpec
from understudy.models.responses_stream import ResponsesDecoder
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning

encode = msgspec.json.Encoder().encode


class ResponsesWire:
    path = "/responses"

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._family = family_of(settings.model)

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]:
        return [
            ("OpenAI-Beta", "responses=experimental"),
            ("session_id", prompt.conversation_id),
            ("originator", self._settings.originator),
        ]

    def body(self, prompt: Prompt) -> list[bytes]:
        settings = self._settings
        reasoning = _reasoning(settings, self._family)
        history = HISTORIES.encode("responses", prompt.conversation_id, prompt.items, encode_item)
        rest: dict[str, Any] = {
            "tool_choice": "auto",
            "parallel_tool_calls": self._family.parallel,
            "reasoning": reasoning,
            "store": settings.store,
            "stream": True,
            "include": ["reasoning.encrypted_content"] if reasoning and not settings.store else [],
            "prompt_cache_key": prompt.conversation_id,
        }
        if settings.verbosity and self._family.verbosity:
            rest["text"] = {"verbosity": settings.verbosity}
        first = next((index for index, part in enumerate(history) if part), None)
        items = [] if first is None else [history[first][1:], *history[first + 1 :]]
        head = (b'{"model":', encode(settings.model), b',"instructions":', encode_instructions(prompt.instructions), b',"input":[')
        return [*head, *items, b'],"tools":', TOOLS.encode(prompt.tools), b",", encode(rest)[1:]]

    def decoder(self) -> ResponsesDecoder:
        return ResponsesDecoder(show_raw=self._settings.show_raw)

    def gives_way(self, status: int, body: str) -> bool:
        return False


def _reasoning(settings: ModelSettings, family: Family) -> dict[str, str] | None:
    supported = settings.supports_reasoning_summaries
    if not (family.reasoning != "no" if supported is None else supported):
        return None
    if settings.reasoning_effort == "none":
        return {"effort": "none"} if "none" in family.efforts else None
    wanted = {"effort": family.effort(settings.reasoning_effort or "medium"), "summary": settings.reasoning_summary or "auto"}
    return {key: value for key, value in wanted.items() if value != "none"}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": tool.strict,
        "parameters": tool.parameters,
    }


TOOLS = ToolCache(_tool)


def encode_item(item: Item) -> bytes:
    match item:
        case Message():  # its id stays here: with one, a provider that stores nothing would look for it in vain
            return encode({"type": "message", "id": None, "role": item.role, "content": item.content})
        case Reasoning() if item.id is None and item.encrypted_content is None:
            return b""  # from another wire: only a reader understands it
        case Reasoning():
            fields = {"type": "reasoning", "id": item.id, "summary": item.summary, "encrypted_content": item.encrypted_content}
            return encode({**fields, "content": item.content} if item.content else fields)
        case FunctionCall():
            fields = {"type": "function_call", "id": item.id, "name": item.name, "arguments": item.arguments}
            return encode({**fields, "call_id": item.call_id})
        case FunctionCallOutput():
            return encode({"type": "function_call_output", "call_id": item.call_id, "output": item.output})
