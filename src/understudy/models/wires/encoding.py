"""What all wires put into a request: the history as JSON, encoded once and then only extended, and the form of the answer."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import msgspec

from understudy.protocol.items import FunctionCall, FunctionCallOutput, Item

ItemEncoder = Callable[[Any], bytes]  # empty: not sent

NO_EYES = "(an image stood here; this model does not see images)"
CACHED_BYTES = 8 * 1024 * 1024


class Unchanging:
    """A part that is equal in most requests; encoded again only for another object. Instructions and tools would otherwise cost 17
    µs of the 400 that a reply takes.
    """

    def __init__(self, encoder: Callable[[Any], bytes]) -> None:
        self._encoder = encoder
        self._known: tuple[object, bytes] = None, b""  # set together, because long histories are encoded on threads

    def encode(self, value: object) -> bytes:
        known, encoded = self._known
        if value is not known:
            encoded = self._encoder(value)
            self._known = value, encoded
        return encoded


class EncodedHistory:
    """The items or turns of one conversation with their encoded form. Only a cache: it changes the speed, never the result."""

    def __init__(self) -> None:
        self._items: list[object] = []
        self._ends: list[int] = []  # where each item ends in `_encoded`
        self._encoded = b""
        self.size = 0  # bytes

    def encode(self, items: Sequence[object], encoder: ItemEncoder) -> bytes:
        """The items, each with a comma before it."""
        wanted, known = list(items), len(self._items)
        if wanted[:known] != self._items:
            known = _common(wanted, self._items)
            self._forget_from(known)
        parts, end = [self._encoded], self.size
        for item in wanted[known:]:
            if encoded := encoder(item):
                parts += (b",", encoded)
                end += 1 + len(encoded)
            self._ends.append(end)
        self._encoded = b"".join(parts)
        self.size = end
        self._items = wanted
        return self._encoded

    def _forget_from(self, index: int) -> None:
        self.size = self._ends[index - 1] if index else 0
        self._encoded = self._encoded[: self.size]
        del self._items[index:], self._ends[index:]


class HistoryCache:
    """Encoded histories of the latest conversations, limited by their total size."""

    def __init__(self, limit: int = CACHED_BYTES) -> None:
        self._limit = limit
        self._histories: OrderedDict[tuple[str, str], EncodedHistory] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()  # long histories are encoded on threads

    def encode(self, wire: str, conversation_id: str, items: Sequence[object], encoder: ItemEncoder) -> bytes:
        key = (wire, conversation_id)
        with self._lock:
            history = self._histories.pop(key, None) or EncodedHistory()  # taken out, so that no other request uses it meanwhile
            self._size -= history.size
        encoded = history.encode(items, encoder)
        with self._lock:
            if key in self._histories:  # a request that was given up may still be encoding
                self._size -= self._histories.pop(key).size
            if history.size <= self._limit:
                self._histories[key] = history
                self._size += history.size
            while self._size > self._limit:
                _, oldest = self._histories.popitem(last=False)
                self._size -= oldest.size
        return encoded


HISTORIES = HistoryCache()


def text_without_eyes(output: FunctionCallOutput) -> str:
    """The output of a call for a model that cannot see images."""
    return "\n".join([output.output] * bool(output.output) + [NO_EYES] * len(output.images))


def outputs_after_calls(items: Sequence[Item]) -> Sequence[Item]:
    """Moves each output right after its call, as the Chat wire requires; returns the same sequence if nothing has to move."""
    if _in_order(items):
        return items
    outputs: dict[str, deque[FunctionCallOutput]] = {}  # an id may repeat, because some providers start again in each answer
    for item in items:
        if isinstance(item, FunctionCallOutput):
            outputs.setdefault(item.call_id, deque()).append(item)
    ordered: list[Item] = []
    placed: set[int] = set()
    for item in items:
        if id(item) in placed:
            continue
        ordered.append(item)
        if isinstance(item, FunctionCall) and outputs.get(item.call_id):
            output = outputs[item.call_id].popleft()
            placed.add(id(output))
            ordered.append(output)
    return ordered


def _in_order(items: Sequence[Item]) -> bool:
    open_call: str | None = None
    for item in items:
        kind = type(item)
        if open_call is not None:
            if kind is not FunctionCallOutput or cast(FunctionCallOutput, item).call_id != open_call:
                return False
            open_call = None
        elif kind is FunctionCall:
            open_call = cast(FunctionCall, item).call_id
    return open_call is None


def _common(left: Sequence[object], right: Sequence[object]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one is not other and one != other:
            return index
    return min(len(left), len(right))


NAME = "codex_output_schema"
KEPT = 256  # refused schemas that are remembered

Form = Literal["strict", "lenient", "words"]

_AFTER: dict[Form, Form] = {"strict": "lenient", "lenient": "words"}
_COMPLAINTS = ("response_format", "json_schema", "text.format", "output_config", "output_format", "schema", "strict")

_learnt: OrderedDict[tuple[str, int], Form] = OrderedDict()
_encode = msgspec.json.Encoder().encode


def form_for(place: str, schema: dict[str, Any]) -> Form:
    return _learnt.get(_key(place, schema), "strict") if _learnt else "strict"


def gives_way(place: str, schema: dict[str, Any] | None, status: int, body: str) -> bool:
    """After a refusal that may be about the schema: whether the next request asks for it in another form."""
    if schema is None or status not in (400, 422) or not any(word in body for word in _COMPLAINTS):
        return False
    after = _AFTER.get(form_for(place, schema))
    if after is None:
        return False
    _learnt[_key(place, schema)] = after
    if len(_learnt) > KEPT:
        _learnt.popitem(last=False)
    return True


def in_words(schema: dict[str, Any]) -> str:
    """For a provider that accepts no schema."""
    return (
        "Your final answer has to be one JSON value that fits this JSON schema, with nothing before or after it:\n"
        f"{_encode(schema).decode()}"
    )


def _key(place: str, schema: dict[str, Any]) -> tuple[str, int]:
    return place, hash(_encode(schema))
