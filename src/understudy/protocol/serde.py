"""The wording of argument errors, which clients and models of this wire know: the value found, the value expected, and the place.

msgspec decodes. Only when it refuses does this module walk through the text, in document order, to say why.
"""

import json
import re
from collections.abc import Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

# Compiled, and `json` imported, on first use: nearly all arguments are valid.
_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_WORDS = {"true": True, "false": False, "null": None}
MOST_NESTED = 128


class WireMismatch(Exception):
    """Why a value does not fit. `at` is the offset just past the offending token, if a text was read."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class _Node(msgspec.Struct, frozen=True):
    """A value and where it ends: a scalar, the elements of a list, or the members of an object."""

    end: int
    value: str | int | float | bool | None = None
    elements: "list[_Node] | None" = None
    members: "list[tuple[_Node, _Node]] | None" = None

    @property
    def is_null(self) -> bool:
        return self.value is None and self.elements is None and self.members is None


def found(value: object) -> str:
    """A JSON value as an error names it."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{'true' if value else 'false'}`"
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case str():
            return f"string {json.dumps(value, ensure_ascii=False)}"
        case list():
            return "sequence"
        case _:
            return "map"


def unknown_variant(value: str, variants: Sequence[str]) -> str:
    return f"unknown variant `{value}`, expected {one_of(variants)}"


def unknown_field(name: str, fields: Sequence[str]) -> str:
    return f"unknown field `{name}`, expected {one_of(fields)}"


def one_of(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) == 1:
        return quoted[0]
    if len(quoted) == 2:
        return " or ".join(quoted)
    return "one of " + ", ".join(quoted)


def explain(text: str, wanted: type[Any], struct_name: str) -> str:
    """Why `text` is not a `wanted`: the reason, then line and column."""
    try:
        reader = _JsonReader(text)
        _check(reader.document(), wanted, struct_name)
    except WireMismatch as mismatch:
        at = len(text) if mismatch.at is None else mismatch.at
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1)
        return f"{mismatch.reason} at line {line} column {column}"
    return "arguments do not fit the tool's schema"


class _JsonReader:
    """Reads JSON with positions. It may be slow: it reads only what was refused."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> _Node:
        node = self._value(0)
        self._blank()
        if self._at < len(self._text):
            raise WireMismatch("trailing characters", self._at + 1)
        return node

    def _blank(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
            self._at += 1

    def _value(self, depth: int) -> _Node:
        self._blank()
        if depth > MOST_NESTED:
            raise WireMismatch("recursion limit exceeded", self._at)
        match self._text[self._at : self._at + 1]:
            case "":
                raise WireMismatch("EOF while parsing a value", len(self._text))
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"':
                return self._string()
            case first if first in "-0123456789":
                return self._number()
            case _:
                return self._word()

    def _word(self) -> _Node:
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return _Node(self._at, value)
        raise WireMismatch("expected value", self._at + 1)

    def _number(self) -> _Node:
        number = re.compile(_NUMBER).match(self._text, self._at)
        if number is None:
            raise WireMismatch("invalid number", self._at + 1)
        self._at = number.end()
        return _Node(self._at, json.loads(number.group()))

    def _string(self) -> _Node:
        string = re.compile(_STRING).match(self._text, self._at)
        if string is None:
            closed = self._text.find('"', self._at + 1) >= 0
            raise WireMismatch("invalid string" if closed else "EOF while parsing a string", None if not closed else self._at + 1)
        self._at = string.end()
        return _Node(self._at, json.loads(string.group()))

    def _list(self, depth: int) -> _Node:
        self._at += 1
        nodes: list[_Node] = []
        while True:
            self._blank()
            match self._text[self._at : self._at + 1]:
                case "":
                    raise WireMismatch("EOF while parsing a list", len(self._text))
                case "]" if not nodes:
                    self._at += 1
                    return _Node(self._at, elements=nodes)
                case _:
                    nodes.append(self._value(depth + 1))
            if self._separator("]", "a list"):
                return _Node(self._at, elements=nodes)

    def _object(self, depth: int) -> _Node:
        self._at += 1
        members: list[tuple[_Node, _Node]] = []
        while True:
            self._blank()
            match self._text[self._at : self._at + 1]:
                case "":
                    raise WireMismatch("EOF while parsing an object", len(self._text))
                case "}" if not members:
                    self._at += 1
                    return _Node(self._at, members=members)
                case '"':
                    key = self._string()
                case "}":
                    raise WireMismatch("trailing comma", self._at + 1)
                case _:
                    raise WireMismatch("key must be a string", self._at + 1)
            self._blank()
            if self._text[self._at : self._at + 1] != ":":
                raise WireMismatch("expected `:`", self._at + 1)
            self._at += 1
            members.append((key, self._value(depth + 1)))
            if self._separator("}", "an object"):
                return _Node(self._at, members=members)

    def _separator(self, close: str, what: str) -> bool:
        self._blank()
        character = self._text[self._at : self._at + 1]
        if character not in (close, ","):
            if not character:
                raise WireMismatch(f"EOF while parsing {what}", len(self._text))
            raise WireMismatch(f"expected `,` or `{close}`", self._at + 1)
        self._at += 1
        return character == close


def _plain(node: _Node) -> object:
    return {} if node.members is not None else [] if node.elements is not None else node.value


def _check(node: _Node, wanted: Any, name: str) -> None:
    origin, choices = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        _expect(node, isinstance(node.value, str), "a string")
        if node.value not in choices:
            raise WireMismatch(unknown_variant(str(node.value), choices), node.end)
    elif origin in (Union, UnionType):
        if node.is_null and type(None) in choices:
            return
        _check(node, next(choice for choice in choices if choice is not type(None)), name)
    elif origin in (tuple, list):
        _expect(node, node.elements is not None, "a sequence")
        for element in node.elements or ():
            _check(element, choices[0], name)
    elif wanted is str:
        _expect(node, isinstance(node.value, str), "a string")
    elif wanted is bool:
        _expect(node, isinstance(node.value, bool), "a boolean")
    elif wanted is int:
        _expect(node, isinstance(node.value, int) and not isinstance(node.value, bool), "u64")
        if isinstance(node.value, int) and node.value < 0:
            raise WireMismatch(f"invalid value: {found(node.value)}, expected u64", node.end)
    elif isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        _check_struct(node, wanted, name)


def _expect(node: _Node, fits: bool, wanted: str) -> None:
    if not fits:
        raise WireMismatch(f"invalid type: {found(_plain(node))}, expected {wanted}", node.end)


def _check_struct(node: _Node, wanted: type[msgspec.Struct], name: str) -> None:
    if node.members is None:
        raise WireMismatch(f"invalid type: {found(_plain(node))}, expected struct {name}", node.end)
    fields = dict(zip(wanted.__struct_encode_fields__, wanted.__struct_fields__, strict=True))
    hints = get_type_hints(wanted)
    seen: set[str] = set()
    for key, value in node.members:
        spelled = str(key.value)
        if spelled not in fields:
            if wanted.__struct_config__.forbid_unknown_fields:
                raise WireMismatch(unknown_field(spelled, tuple(fields)), key.end)
            continue
        if spelled in seen:
            raise WireMismatch(f"duplicate field `{spelled}`", key.end)
        seen.add(spelled)
        _check(value, hints[fields[spelled]], fields[spelled])
    required = len(fields) - len(wanted.__struct_defaults__)
    for spelled in tuple(fields)[:required]:
        if spelled not in seen:
            raise WireMismatch(f"missing field `{spelled}`", node.end)
