"""The Anthropic Messages wire: makes requests from prompts, with the history as alternating turns of user and assistant."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from understudy.models.families import EFFORTS, Family, family_of, output_limit
from understudy.models.model import ModelSettings, Prompt, ToolSpec
from understudy.models.wires.anthropic_stream import AnthropicDecoder
from understudy.models.wires.encoding import HISTORIES, NO_EYES, Unchanging, form_for, gives_way, in_words, text_without_eyes
from understudy.protocol.items import ANSWER, ContentPart, FunctionCall, FunctionCallOutput, InputImage, Item, Message, Reasoning

Role = Literal["user", "assistant"]
LONGEST_ID = 64
NO_OUTPUT = "(no result of this call was recorded)"
BEGIN = "(the conversation begins here)"
GO_ON = "Go on."

_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class Part(msgspec.Struct, frozen=True):
    """A piece of a turn: an item, or our own words."""

    item: Item | None = None
    call: str = ""  # the id of a call or result, in the API's form
    text: str = ""


class AnthropicTurn(msgspec.Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]


def turns_of(items: Sequence[Item], *, with_thinking: bool = True) -> list[AnthropicTurn]:
    """They begin and end with the user, because newer models refuse to continue an answer of their own."""
    turns = _Turns(with_thinking)
    for item in items:
        turns.take(item)
    return turns.finish()


def plain_id(text: str) -> str:
    """Ids and names of tools from other wires may contain characters that this one does not accept."""
    plain = "".join(character if character in _ID_CHARACTERS else "_" for character in text[:LONGEST_ID])
    return plain or "_"


class _Turns:
    def __init__(self, with_thinking: bool) -> None:
        self._with_thinking = with_thinking
        self._turns: list[tuple[Role, list[Part]]] = []
        self._answer: str | None = None  # the answer that contained the open assistant's turn; None: from another wire
        self._said: list[Part] = []
        self._results: list[Part] = []
        self._open: dict[str, deque[str]] = {}  # calls without a result: from id in the log to ids for the API
        self._used: set[str] = set()  # ids must be unique in a request, but some providers start again in each answer

    def take(self, item: Item) -> None:
        match item:
            case FunctionCallOutput():
                waiting = self._open.get(item.call_id)
                call = waiting.popleft() if waiting else ""
                self._results.append(Part(item, call))
            case Message() if item.role != "assistant":
                self._close()
                self._add("user", [Part(item)])
            case _:
                self._take_said(item)

    def finish(self) -> list[AnthropicTurn]:
        self._close()
        if not self._turns or self._turns[0][0] == "assistant":
            self._turns.insert(0, ("user", [Part(text=BEGIN)]))
        if self._turns[-1][0] == "assistant":
            self._turns.append(("user", [Part(text=GO_ON)]))
        return [AnthropicTurn(role, tuple(parts)) for role, parts in self._turns]

    def _take_said(self, item: Item) -> None:
        named = item.id if isinstance(item, Message | Reasoning | FunctionCall) and (item.id or "").startswith(ANSWER) else None
        if named != self._answer or (named is None and self._results):
            self._close()
            self._answer = named
        if isinstance(item, FunctionCall):
            call = self._new_id(item.call_id)
            self._open.setdefault(item.call_id, deque()).append(call)
            self._said.append(Part(item, call))
        elif not isinstance(item, Reasoning) or (self._with_thinking and item.signature is not None):
            self._said.append(Part(item))

    def _close(self) -> None:
        """The open assistant's turn is complete, and so are its results."""
        said = self._said
        if all(isinstance(part.item, Reasoning) for part in said):
            said = []  # these thoughts led to nothing, because the answer broke off
        self._add("assistant", said)
        lost = [Part(call=call, text=NO_OUTPUT) for waiting in self._open.values() for call in waiting]
        results = [part for part in self._results if part.call]
        strays = [part for part in self._results if not part.call]
        self._add("user", [*results, *lost, *strays])
        self._said, self._results, self._open, self._answer = [], [], {}, None

    def _add(self, role: Role, parts: list[Part]) -> None:
        if not parts:
            return
        if self._turns and self._turns[-1][0] == role:
            self._turns[-1][1].extend(parts)
        else:
            self._turns.append((role, parts))

    def _new_id(self, call_id: str) -> str:
        plain = plain_id(call_id)
        name, count = plain, 1
        while name in self._used:
            count += 1
            name = f"{plain}_{count}"
        self._used.add(name)
        return name


encode = msgspec.json.Encoder().encode

VERSION = "2023-06-01"
MARK = {"type": "ephemeral"}  # the provider caches everything before this mark
BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384}  # tokens of thinking, for models that expect a number
LARGEST_BUDGET = 32768
LEAST_OUTPUT = 1024

Block = dict[str, Any]


class AnthropicWire:
    path = "/messages"

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._family = family_of(settings.model)
        self._place = f"anthropic {settings.model}"
        self._instructions = Unchanging(lambda instructions: encode(instructions or " "))
        self._tools = Unchanging(lambda tools: encode([_tool(tool) for tool in tools]))
        self._most_output = output_limit(settings.model)
        self._less_output: dict[str, int] = {}  # for conversations that have nearly filled the window
        self._refused: set[str] = set()  # parts of a request that the model or its server rejects
        self._without_thinking: set[str] = set()  # conversations whose earlier thinking the model does not accept

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]:
        return [("anthropic-version", VERSION)]

    def body(self, prompt: Prompt) -> list[bytes]:
        """Parts that change from request to request come last, so that each begins with the bytes of the one before."""
        leading, items = _leading_instructions(prompt)
        with_thinking = prompt.conversation_id not in self._without_thinking
        turns = turns_of(items, with_thinking=with_thinking)
        encoder = _Encoder(self._family).encode_turn
        history = HISTORIES.encode(f"anthropic {with_thinking:d}{self._family.eyes:d}", prompt.conversation_id, turns, encoder)
        most = self._less_output.get(prompt.conversation_id, self._most_output)
        head: dict[str, Any] = {"model": self._settings.model, "max_tokens": most, "stream": True, **self._thinking(most)}
        if prompt.output_schema is not None and self._in_form(prompt.output_schema):
            wanted = {"type": "json_schema", "schema": prompt.output_schema}
            head["output_config"] = {**head.get("output_config", {}), "format": wanted}
        elif prompt.output_schema is not None:
            leading = [*leading, in_words(prompt.output_schema)]
        if "cache_control" not in self._refused:
            head["cache_control"] = MARK  # at the end of the history
        if prompt.tools and not prompt.may_call:  # required if the history contains calls
            head["tool_choice"] = {"type": "none"}
        elif prompt.tools and not self._family.parallel:
            head["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        parts = [encode(head)[:-1], *self._system(prompt.instructions, leading)]
        if prompt.tools:
            parts += [b',"tools":', self._tools.encode(prompt.tools)]
        return [*parts, b',"messages":[', history[1:], b"]}"]

    def decoder(self) -> AnthropicDecoder:
        return AnthropicDecoder()

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        if status not in (400, 422):
            return False
        if self._gives_room(prompt, body):
            return True
        if prompt.output_schema is not None and self._in_form(prompt.output_schema) and ("format" in body or "schema" in body):
            while gives_way(self._place, prompt.output_schema, status, "schema"):
                pass  # this wire has nothing between a schema and words
            return True
        for name in ("output_config", "cache_control", "thinking"):
            about_it = name in body or (name == "output_config" and "effort" in body)
            if about_it and name not in self._refused and (name != "thinking" or _is_about_asking(body)):
                self._refused.add(name)
                return True
        thinks = any(isinstance(item, Reasoning) and item.signature is not None for item in prompt.items)
        if "thinking" in body and thinks and prompt.conversation_id not in self._without_thinking:
            self._without_thinking.add(prompt.conversation_id)
            return True
        return False

    def _in_form(self, schema: dict[str, Any]) -> bool:
        return form_for(self._place, schema) != "words"

    def _gives_room(self, prompt: Prompt, body: str) -> bool:
        """Whether we can repeat it with a lower output limit, because the model allows less or the window has less room."""
        if found := re.search(r"max_tokens: (\d+) > (\d+)", body):
            most = int(found[2])
            if LEAST_OUTPUT <= most < self._most_output:
                self._most_output = most
                return True
        if found := re.search(r"exceed context limit: (\d+) \+ (\d+) > (\d+)", body):
            room = int(found[3]) - int(found[1])
            if LEAST_OUTPUT <= room < self._less_output.get(prompt.conversation_id, self._most_output):
                self._less_output[prompt.conversation_id] = room
                return True
        return False

    def _system(self, instructions: str, leading: list[str]) -> list[bytes]:
        mark = b"" if "cache_control" in self._refused else b',"cache_control":{"type":"ephemeral"}'
        texts = [self._instructions.encode(instructions), *map(encode, leading)]
        return [b',"system":[', b"},".join([b'{"type":"text","text":' + text for text in texts]), mark, b"}]"]

    def _thinking(self, most: int) -> dict[str, Any]:
        settings, family = self._settings, self._family
        wanted = settings.supports_reasoning_summaries
        if wanted is False or (wanted is None and family.reasoning == "no") or "thinking" in self._refused:
            return {}
        effort = settings.reasoning_effort or "medium"
        if effort == "none":
            return {"thinking": {"type": "disabled"}} if family.reasoning == "adaptive" else {}
        shown = "omitted" if settings.reasoning_summary == "none" else "summarized"
        if family.reasoning == "adaptive":
            asked: dict[str, Any] = {"thinking": {"type": "adaptive", "display": shown}}
            if "output_config" not in self._refused and effort in EFFORTS:
                asked["output_config"] = {"effort": family.effort(effort)}
            return asked
        budget = min(BUDGETS.get(effort, LARGEST_BUDGET), most - LEAST_OUTPUT)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= BUDGETS["minimal"] else {}


def _is_about_asking(body: str) -> bool:
    """Whether the model rejects the way in which we ask for thinking, rather than some earlier thought."""
    return any(word in body for word in ("thinking.type", "thinking.display", "not support", "Extra inputs", "budget_tokens"))


def _leading_instructions(prompt: Prompt) -> tuple[list[str], list[Any]]:
    """Instructions before anybody's first word belong to the system prompt, because the API has no other role for them."""
    items = list(prompt.items)
    count = 0
    for item in items:
        if not isinstance(item, Message) or item.role not in ("developer", "system"):
            break
        count += 1
    texts = [item.text() for item in items[:count] if isinstance(item, Message)]
    return [text for text in texts if text.strip()], items[count:]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


class _Encoder:
    def __init__(self, family: Family) -> None:
        self._eyes = family.eyes

    def encode_turn(self, turn: AnthropicTurn) -> bytes:
        content = [block for part in turn.parts for block in self._blocks(part)]
        return encode({"role": turn.role, "content": content or [_text("(empty)")]})

    def _blocks(self, part: Part) -> list[Block]:
        match part.item:
            case None if part.call:
                return [_result(part.call, part.text)]
            case None:
                return [_text(part.text)]
            case Message():
                return self._content(part.item)
            case Reasoning():
                return [_thought(part.item)]
            case FunctionCall():
                call = {"type": "tool_use", "id": part.call, "name": plain_id(part.item.name)}
                return [{**call, "input": _arguments(part.item.arguments)}]
            case FunctionCallOutput() if not part.call:  # its call is no longer in the history
                return self._output(part.item)
            case FunctionCallOutput() if part.item.images:
                return [{"type": "tool_result", "tool_use_id": part.call, "content": self._output(part.item)}]
            case FunctionCallOutput():
                return [_result(part.call, part.item.output)]

    def _output(self, item: FunctionCallOutput) -> list[Block]:
        text = item.output if self._eyes else text_without_eyes(item)
        return [*[_text(text)] * bool(text.strip()), *map(_image, item.images if self._eyes else ())]

    def _content(self, message: Message) -> list[Block]:
        blocks = [block for piece in message.content if (block := self._piece(piece)) is not None]
        if message.role in ("developer", "system"):  # in the middle of a conversation
            return [_text(f"<developer_instructions>{message.text()}</developer_instructions>")]
        return blocks

    def _piece(self, piece: ContentPart) -> Block | None:
        if not isinstance(piece, InputImage):
            return _text(piece.text) if piece.text.strip() else None  # the API refuses blank ones
        return _image(piece.image_url) if self._eyes else _text(NO_EYES)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _result(call: str, output: str) -> Block:
    return {"type": "tool_result", "tool_use_id": call, "content": output or NO_OUTPUT}


def _thought(item: Reasoning) -> Block:
    if not item.signature:
        return {"type": "redacted_thinking", "data": item.encrypted_content or ""}
    return {"type": "thinking", "thinking": "".join(part.text for part in item.summary), "signature": item.signature}


def _arguments(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        value = None
    return cast(Any, value) if isinstance(value, dict) else {"input": text}


def _image(url: str) -> Block:
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        kind = head.removeprefix("data:").removesuffix(";base64").partition(";")[0]
        return {"type": "image", "source": {"type": "base64", "media_type": kind or "image/png", "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}
