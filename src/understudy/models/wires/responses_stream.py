"""Reads Responses streams: deltas and complete items as they come, until the event that says how the answer ended."""

import logging
from typing import Any, cast

import msgspec

from understudy.errors import ModelError, ModelRefused
from understudy.models.failures import CALL_MISSING, STREAM_CLOSED, error_in_stream, stream_lost
from understudy.models.mending import Halves, is_cut, mended, read_loosely, read_mended
from understudy.models.model import Completed, Counted, ItemDone
from understudy.models.wires.wire import ANSWER_TEXT, EventQueue, ResponsesUsage, Sizes, new_call_id, read_usage, size_of, text_of
from understudy.protocol.items import FunctionCall, Message, ModelItem, OutputText, Reasoning, ReasoningText, SummaryText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

logger = logging.getLogger(__name__)

WAITING = ("response.created", "response.queued", "response.in_progress", "keepalive", "ping", "")  # nothing was said with these


Json = msgspec.Raw | Any  # not parsed yet, or parsed


class _Event(msgspec.Struct, gc=False):
    type: Any = ""
    delta: Any = None
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _MendedEvent(msgspec.Struct, gc=False):
    """An event with broken text. Its delta may begin or end with half a character."""

    type: Any = ""
    delta: Any = None
    item: Any = None
    response: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


def _read(payload: bytes) -> _MendedEvent | None:
    """None if it is not an event."""
    try:
        return msgspec.convert(read_loosely(payload), _MendedEvent)
    except ValueError:
        return None


class ResponsesDecoder:
    def __init__(self, *, show_raw: bool) -> None:
        self.ended = False
        self.nearly_ended = False
        self.cut = False
        self.heard = 0
        self.said = 0  # events that were not empty; those of plain text count only here
        self._show_raw = show_raw
        self._gave_items = False
        self._began_call = False
        self._untold: list[str] = []  # text of deltas since the last message, which should repeat it
        self._shown = Sizes()  # what deltas have said
        self._given = Sizes()  # what items have said
        self._broken = False  # an event had to be repaired; from then on, half a character may be waiting
        self._halves: dict[str, Halves] = {}  # for "text", "reasoning" and "raw", from the first piece on that may be broken

    def feed(self, payloads: list[bytes], queue: EventQueue) -> None:
        for payload in payloads:
            if self.ended:
                return
            event: _Event | _MendedEvent | None
            try:
                event = _decode(payload)
            except (ValueError, RecursionError):
                event = _read(payload)
                self._broken = True
            if event is None:
                if not self.nearly_ended and is_cut(payload):
                    self.cut = True
                    return
                logger.warning("skipped an event that is no response event: %.200r", payload)
            elif event.type == "response.output_text.delta":
                text = event.delta
                if type(text) is str and text and not self._broken:  # nearly all of them
                    self.said += 1
                    sizes = self._shown
                    sizes.text += len(text) if text.isascii() else size_of(text)
                    if sizes.text > ANSWER_TEXT:
                        sizes.add_text("")
                    self._untold.append(text)
                    queue.append(TextDelta(text))
                else:
                    self.heard += 1
                    self.said += bool(text)
                    self._give_text(text, queue)
            elif event.type not in WAITING:
                self.heard += 1
                self.said += bool(event.delta) or event.type == "response.output_item.done"
                self._take(event, payload, queue)
            elif event.type == "":
                self._take_untyped(payload, queue)

    def close(self, queue: EventQueue) -> None:
        if not self.ended:
            raise stream_lost(STREAM_CLOSED)

    def _take(self, event: _Event | _MendedEvent, payload: bytes, queue: EventQueue) -> None:
        match event.type:
            case "response.output_item.done":
                if (message := _plain_message(event.item)) is not None:
                    self._give_read(message, queue)
                else:
                    self._give(_table(event.item), queue)
            case "response.output_item.added":
                self._began_call = self._began_call or _kind_of(event.item) in ("function_call", "custom_tool_call")
            case "response.reasoning_summary_text.delta":
                self._give_thought(event.delta, queue, raw=False)
            case "response.reasoning_text.delta":
                if self._show_raw:
                    self._give_thought(event.delta, queue, raw=True)
            case "response.refusal.delta":
                self._give_text(event.delta, queue)
            case "response.completed" | "response.done":
                if self._gave_items:
                    self._end(_usage_of(event.response), queue)
                else:
                    self._complete(_table(event.response), queue)
            case "response.failed":
                response = self._count(event.response, queue)
                raise error_in_stream(response.get("error") or "the provider gave no reason")
            case "response.incomplete":
                raise _incomplete(self._count(event.response, queue))
            case "error":
                raise error_in_stream(_table(event.error) or _told(payload))
            case _:
                pass

    def _count(self, response: Json, queue: EventQueue) -> dict[str, Any]:
        """Of an answer that failed."""
        table = _table(response)
        if (usage := read_usage(table.get("usage"))) is not None:
            queue.append(Counted(usage))
        return table

    def _take_untyped(self, payload: bytes, queue: EventQueue) -> None:
        """For servers that answer as a whole, and gateways that translate for another server."""
        whole = _table(msgspec.Raw(payload))
        if whole.get("error"):
            raise error_in_stream(whole["error"])
        if whole.get("object") != "response":
            return
        if whole.get("status") == "incomplete":
            raise _incomplete(self._count(whole, queue))
        self._complete(whole, queue)

    def _give_text(self, text: Any, queue: EventQueue) -> None:
        if text and isinstance(text, str):
            self._shown.add_text(text)
            if text := self._join("text", text):
                self._untold.append(text)
                queue.append(TextDelta(text))

    def _give_thought(self, text: Any, queue: EventQueue, *, raw: bool) -> None:
        if text and isinstance(text, str):
            self._shown.add_thought(text)
            if text := self._join("raw" if raw else "reasoning", text):
                queue.append(ReasoningDelta(text, raw=raw))

    def _join(self, kind: str, piece: str) -> str:
        if kind not in self._halves:
            self._halves[kind] = Halves()
        return self._halves[kind].join(piece)

    def _give(self, item: dict[str, Any], queue: EventQueue) -> None:
        if (read := read_item(item)) is not None:
            self._give_read(read, queue)

    def _give_read(self, read: ModelItem, queue: EventQueue) -> None:
        self._gave_items = True
        text = read.text() if type(read) is Message else ""
        self._measure(read, text)
        if self._halves:
            self._give_halves(read, queue)
        if type(read) is Message and self._untold:
            if not text:
                read = msgspec.structs.replace(read, content=(OutputText("".join(self._untold)),))
            self._untold = []
        queue.append(ItemDone(read))

    def _measure(self, item: ModelItem, text: str) -> None:
        """`text`: what a message says."""
        self._given.add_item()
        if item.id:
            self._given.add_arguments(item.id)
        match item:
            case Message():
                self._given.add_text(text)
            case Reasoning():
                for part in (*item.summary, *(item.content or ())):
                    self._given.add_thought(part.text)
                self._given.add_thought(item.encrypted_content or "")
            case FunctionCall():
                for text in (item.name, item.call_id, item.arguments):
                    self._given.add_arguments(text)

    def _give_halves(self, item: ModelItem, queue: EventQueue) -> None:
        """A delta that ended in half a character was the last of its item."""
        kinds = ("text",) if isinstance(item, Message) else ("reasoning", "raw") if isinstance(item, Reasoning) else ()
        for kind in kinds:
            if kind in self._halves and (rest := self._halves[kind].rest()):
                if kind == "text":
                    self._untold.append(rest)
                queue.append(TextDelta(rest) if kind == "text" else ReasoningDelta(rest, raw=kind == "raw"))

    def _complete(self, response: dict[str, Any], queue: EventQueue) -> None:
        if not self._gave_items:  # some servers send the items only here
            for item in _tables(response.get("output")):
                self._give(item, queue)
        self._end(read_usage(response.get("usage")), queue)

    def _end(self, usage: Usage | None, queue: EventQueue) -> None:
        if self._untold:  # and some never repeat what deltas said
            self._give({"type": "message"}, queue)
        elif self._began_call and not self._gave_items:
            raise stream_lost(CALL_MISSING)
        self.ended = True
        queue.append(Completed(usage))


class _PlainMessage(msgspec.Struct, gc=False, tag="message", tag_field="type"):
    """An ordinary message: nearly all are, and are decoded by one call instead of about twenty."""

    content: tuple[OutputText, ...]
    id: str | None = None
    phase: str | None = None


_decode_message = msgspec.json.Decoder(_PlainMessage).decode


def _plain_message(item: Json) -> Message | None:
    try:
        if type(item) is msgspec.Raw:
            said = _decode_message(item)
            return Message("assistant", said.content, said.id) if said.phase is None else _in_phase(said)
    except (ValueError, RecursionError):
        pass
    return None


class _Kind(msgspec.Struct, gc=False):
    type: Any = None


_decode_kind = msgspec.json.Decoder(_Kind).decode


def _kind_of(item: Json) -> Any:
    """What kind of item has begun: one call instead of eight, and every answer begins one."""
    try:
        if type(item) is msgspec.Raw:
            return _decode_kind(item).type
    except (ValueError, RecursionError):
        pass
    return _table(item).get("type")


def _in_phase(said: _PlainMessage) -> Message:
    return Message("assistant", said.content, said.id, said.phase or msgspec.UNSET)


def read_item(item: dict[str, Any]) -> ModelItem | None:
    """None for kinds that we never asked for, and for an incomplete call, which must not run."""
    match item.get("type"):
        case "message":
            return Message("assistant", tuple(_outputs(item)), _text(item, "id"), _text(item, "phase") or msgspec.UNSET)
        case "reasoning":
            raw = tuple(ReasoningText(text) for part in _tables(item.get("content")) if (text := text_of(part)))
            return Reasoning(
                summary=tuple(SummaryText(text_of(part)) for part in _tables(item.get("summary"))),
                content=raw or None,
                encrypted_content=_text(item, "encrypted_content"),
                id=_text(item, "id"),
            )
        case "function_call" if item.get("status") != "incomplete":
            arguments = _text(item, "arguments") or ""
            call_id = _text(item, "call_id") or _text(item, "id") or new_call_id()
            name = _text(item, "name") or ""
            if namespace := _text(item, "namespace"):  # newer models put the server's name of a tool here
                name = f"{namespace}__{name}"
            return FunctionCall(name, arguments if arguments.strip() else "{}", call_id, id=_text(item, "id"))
        case "custom_tool_call" if item.get("status") != "incomplete":
            call_id = _text(item, "call_id") or _text(item, "id") or new_call_id()
            arguments = msgspec.json.encode({"input": _text(item, "input") or ""}).decode()
            return FunctionCall(_text(item, "name") or "", arguments, call_id, id=_text(item, "id"), custom=True)
        case "local_shell_call" if item.get("status") != "incomplete":  # how some models call a shell, whatever they are offered
            action = item.get("action")
            said = cast(dict[str, Any], action) if isinstance(action, dict) else {}
            given = {"command": said.get("command"), "workdir": said.get("working_directory"), "timeout_ms": said.get("timeout_ms")}
            arguments = msgspec.json.encode({name: value for name, value in given.items() if value is not None}).decode()
            return FunctionCall("shell", arguments, _text(item, "call_id") or _text(item, "id") or new_call_id())
        case kind:
            logger.debug("skipped an output item of kind %.100r", kind)
            return None


def _outputs(item: dict[str, Any]) -> list[OutputText]:
    if text := _text(item, "content"):
        return [OutputText(text)]
    parts = _tables(item.get("content"))
    return [OutputText(_text(part, "text") or _text(part, "refusal") or "") for part in parts]


def _incomplete(response: dict[str, Any]) -> ModelError:
    details = response.get("incomplete_details")
    reason = cast(dict[str, Any], details).get("reason") if isinstance(details, dict) else None
    match reason:
        case "max_output_tokens":
            why = "the model reached its output limit"
        case "content_filter":
            why = "the provider's content filter cut it off"
        case _:
            why = "the provider stopped it"
    return ModelRefused(f"incomplete answer: {why}" + (f" (reason: {reason})" if isinstance(reason, str) else ""))


def _told(payload: bytes) -> dict[str, Any]:
    """The details of an `error` event, which may be in the event itself."""
    table = _table(msgspec.Raw(payload))
    return {key: table[key] for key in ("code", "message", "param") if table.get(key)}


def _table(value: Json) -> dict[str, Any]:
    """An object in an event, or an event; empty if it is not an object."""
    value = _read_field(bytes(value)) if isinstance(value, msgspec.Raw) else mended(value)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


class _PlainEnd(msgspec.Struct, gc=False):
    """The few fields that we need of a whole response, which repeats its items, the instructions and the tools."""

    usage: ResponsesUsage


class _End(msgspec.Struct, gc=False):
    usage: Any = None


_decode_plain_end = msgspec.json.Decoder(_PlainEnd).decode
_decode_end = msgspec.json.Decoder(_End).decode


def _usage_of(response: Json) -> Usage | None:
    if type(response) is msgspec.Raw:
        for decode in (_decode_plain_end, _decode_end):
            try:
                usage = decode(response).usage
            except (ValueError, RecursionError):
                continue
            return usage.counted() if type(usage) is ResponsesUsage else read_usage(usage)
    return read_usage(_table(response).get("usage"))


def _read_field(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (ValueError, RecursionError):
        pass
    try:
        return read_mended(raw)
    except ValueError:
        return None


def _tables(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [cast(dict[str, Any], entry) for entry in cast(list[Any], value) if isinstance(entry, dict)]


def _text(table: dict[str, Any], key: str) -> str | None:
    value = table.get(key)
    return value if isinstance(value, str) else None
