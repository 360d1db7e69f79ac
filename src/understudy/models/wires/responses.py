"""The Responses wire: requests from prompts. Its streams are read in `responses_stream`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from understudy.models.families import UNKNOWN, Family, family_of
from understudy.models.model import ModelSettings, Prompt, ToolSpec
from understudy.models.wires.encoding import HISTORIES, NAME, NO_EYES, Unchanging, form_for, gives_way, in_words, text_without_eyes
from understudy.models.wires.responses_stream import ResponsesDecoder
from understudy.protocol.items import (
    ANSWER,
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    Reasoning,
)

encode = msgspec.json.Encoder().encode

ENCRYPTED = "reasoning.encrypted_content"

# What each address rejects, learned once per process.
_refuses_include: set[str] = set()
_refuses_grammar: set[str] = set()


class ResponsesWire:
    path = "/responses"

    def __init__(self, settings: ModelSettings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._family = family_of(settings.model)
        self._reasoning = _reasoning(settings, self._family)
        self._instructions = Unchanging(encode)
        self._tools = Unchanging(lambda tools: encode([_tool(tool) for tool in tools]))
        self._grammar_tools = Unchanging(lambda tools: encode([_grammar_tool(tool) for tool in tools]))
        self._options = Unchanging(self._encode_options)
        self._not_understood: set[str] = set()  # conversations whose encrypted reasoning the provider cannot read

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]:
        return [
            ("OpenAI-Beta", "responses=experimental"),
            ("session_id", prompt.conversation_id),
            ("originator", self._settings.originator),
        ]

    def body(self, prompt: Prompt) -> list[bytes]:
        settings = self._settings
        text: dict[str, Any] = {"verbosity": settings.verbosity} if settings.verbosity and self._family.verbosity else {}
        said = b"" if prompt.output_schema is None else self._ask_for_form(text, prompt.output_schema)
        grammar = self._writes_grammar
        items = self._history(prompt, grammar=grammar)[1:]
        instructions = self._instructions.encode(prompt.instructions)
        head = (b'{"model":', encode(settings.model), b',"instructions":', instructions, b',"input":[')
        tools = (self._grammar_tools if grammar else self._tools).encode(prompt.tools) if prompt.may_call else b"[]"
        key = encode(prompt.conversation_id)
        form = (b',"text":', encode(text)) if text else ()
        return [*head, items, said, b'],"tools":', tools, self._options.encode(self._asks_encrypted), key, *form, b"}"]

    def _encode_options(self, asks_encrypted: bool) -> bytes:
        """What is the same in every request, up to the key for the provider's cache."""
        options: dict[str, Any] = {
            "tool_choice": "auto",
            "parallel_tool_calls": self._family.parallel,
            "reasoning": self._reasoning,
            "store": self._settings.store,
            "stream": True,
            "include": [ENCRYPTED] if asks_encrypted else [],
        }
        return b"," + encode(options)[1:-1] + b',"prompt_cache_key":'

    def _ask_for_form(self, text: dict[str, Any], schema: dict[str, Any]) -> bytes:
        """In `text`, or as a last item for a provider that accepts no schemas."""
        form = form_for(self._place, schema)
        if form == "words":
            message = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": in_words(schema)}]}
            return b"," + encode(message)
        text["format"] = {"type": "json_schema", "strict": form == "strict", "name": NAME, "schema": schema}
        return b""

    def decoder(self) -> ResponsesDecoder:
        return ResponsesDecoder(show_raw=self._settings.show_raw)

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        if status not in (400, 404, 422):
            return False
        if prompt.conversation_id not in self._not_understood and _not_understood(body):
            self._not_understood.add(prompt.conversation_id)
            return True
        if status == 404:
            return False
        if self._asks_encrypted and (ENCRYPTED in body or "'include'" in body or '"include"' in body):
            _refuses_include.add(self._place)
            return True
        if self._writes_grammar and "custom" in body:
            _refuses_grammar.add(self._place)
            return True
        return gives_way(self._place, prompt.output_schema, status, body)

    @property
    def _asks_encrypted(self) -> bool:
        return not self._settings.store and self._place not in _refuses_include

    @property
    def _writes_grammar(self) -> bool:
        return self._family.patch == "grammar" and self._place not in _refuses_grammar

    def _history(self, prompt: Prompt, *, grammar: bool) -> bytes:
        """Each form has a cache of its own, in which an item is always encoded the same way."""
        reasons = prompt.conversation_id not in self._not_understood
        eyes = self._family.eyes
        form = _Form(self._settings.store, reasons, custom_calls(prompt.items) if grammar else frozenset(), eyes=eyes)
        name = f"responses {form.store:d}{form.reasons:d}{grammar:d}{eyes:d}"
        return HISTORIES.encode(name, prompt.conversation_id, prompt.items, form.encode)


def _not_understood(body: str) -> bool:
    """The encrypted reasoning is from another account or model, or the provider does not have what an id stands for."""
    return "invalid_encrypted_content" in body or ("rs_" in body and "not found" in body)


def _reasoning(settings: ModelSettings, family: Family) -> dict[str, str] | None:
    supported = settings.supports_reasoning_summaries
    if not (family.reasoning != "no" if supported is None else supported):
        return _tried(settings) if supported is None and family is UNKNOWN else None
    if settings.reasoning_effort == "none":
        return {"effort": "none"} if "none" in family.efforts else None
    wanted = {"effort": family.effort(settings.reasoning_effort or "medium"), "summary": settings.reasoning_summary or "auto"}
    return {key: value for key, value in wanted.items() if value != "none"}


def _tried(settings: ModelSettings) -> dict[str, str] | None:
    """What to ask of an unknown model: only the effort, if the user chose one."""
    chosen = settings.reasoning_effort if settings.effort_is_chosen else None
    return None if chosen in (None, "none") else {"effort": chosen}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "strict": tool.strict,
        "parameters": tool.parameters,
    }


def _grammar_tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.grammar is None:
        return _tool(tool)
    form = {"type": "grammar", "syntax": "lark", "definition": tool.grammar}
    return {"type": "custom", "name": tool.name, "description": tool.description, "format": form}


def custom_calls(items: Sequence[Item]) -> frozenset[str]:
    return frozenset(item.call_id for item in items if type(item) is FunctionCall and item.custom)


class _Form:
    """How to write the items of a history, which depends on what the provider stores and understands."""

    def __init__(self, store: bool, reasons: bool, custom: frozenset[str], *, eyes: bool = True) -> None:
        self.store = store
        self.reasons = reasons
        self._eyes = eyes
        self._custom = custom  # calls with free text as their argument

    def encode(self, item: Item) -> bytes:
        match item:
            case Message():  # without its id: a provider that stores nothing would look for the id in vain
                said = {"type": "message", "id": None, "role": item.role, "content": self._content(item.content)}
                return encode(said if item.phase is msgspec.UNSET else {**said, "phase": item.phase})
            case Reasoning():
                return self._encode_reasoning(item)
            case FunctionCall() if item.call_id in self._custom:
                fields = {"type": "custom_tool_call", "id": own_id(item), "name": item.name, "input": free_text(item.arguments)}
                return encode({**fields, "call_id": item.call_id})
            case FunctionCall():
                fields = {"type": "function_call", "id": own_id(item), "name": item.name, "arguments": item.arguments}
                return encode({**fields, "call_id": item.call_id})
            case FunctionCallOutput():
                kind = "custom_tool_call_output" if item.call_id in self._custom else "function_call_output"
                return encode({"type": kind, "call_id": item.call_id, "output": self._output(item)})

    def _content(self, content: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
        if self._eyes:
            return content
        return tuple([InputText(NO_EYES) if isinstance(part, InputImage) else part for part in content])

    def _output(self, item: FunctionCallOutput) -> str | list[InputText | InputImage]:
        if not item.images:
            return item.output
        if not self._eyes:
            return text_without_eyes(item)
        return [*[InputText(item.output)] * bool(item.output), *map(InputImage, item.images)]

    def _encode_reasoning(self, item: Reasoning) -> bytes:
        if not self.reasons or item.signature is not None or (item.id is None and item.encrypted_content is None):
            return b""  # from another wire, which no provider understands here
        if not self.store and item.encrypted_content is None:
            if not item.content:
                return b""  # an id alone means nothing to a provider that stores nothing
            return encode({"type": "reasoning", "summary": item.summary, "content": item.content})
        fields = {"type": "reasoning", "id": item.id, "summary": item.summary, "encrypted_content": item.encrypted_content}
        return encode({**fields, "content": item.content} if item.content else fields)


def own_id(call: FunctionCall) -> str | None:
    return None if call.id is None or call.id.startswith(ANSWER) else call.id


def free_text(arguments: str) -> str:
    """What a model wrote for a custom tool."""
    try:
        value = msgspec.json.decode(arguments, type=dict[str, str])
    except msgspec.DecodeError:
        return arguments
    return value.get("input", arguments)
