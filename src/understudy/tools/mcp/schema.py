"""Converts the parameters of another server's tool to what every provider accepts. Pure, and limited whatever the server sends.

Local references are resolved, recursive ones cut off, remote ones dropped; keywords that only some providers accept are left out.
The server checks arguments itself, so a less precise schema only gives the model fewer hints.
"""

from collections.abc import Mapping
from typing import Any, cast

from understudy.text import make_visible

LONGEST_DESCRIPTION = 1024
MOST_BYTES = 16 * 1024  # of one tool's parameters, roughly
_DEEPEST = 12
_MOST_NODES = 1_000
_MOST_VALUES = 200  # of one enumeration
_LONGEST_NAME = 200
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_ALTERNATIVES = ("anyOf", "oneOf")

Schema = dict[str, Any]


class TooLarge(Exception):
    """The schema is too large to send with every request."""


def clean_parameters(schema: object) -> Schema:
    """An object schema. If the server's schema is unusable, one that allows any arguments."""
    if not isinstance(schema, Mapping):
        return nothing_said()
    try:
        return _Cleaning(cast(Schema, schema)).top()
    except (TooLarge, RecursionError):
        return nothing_said()


def nothing_said() -> Schema:
    return {"type": "object", "properties": {}}


def clean_description(text: object, longest: int = LONGEST_DESCRIPTION) -> str:
    """Printable, and no longer than is useful."""
    if not isinstance(text, str):
        return ""
    shown = make_visible(text[: 2 * longest].strip(), keep_newlines=True)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


class _Cleaning:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self._bytes = 0

    def top(self) -> Schema:
        merged = self._merged(self._root, ())
        cleaned = self._node({**merged, "type": "object"}, ())
        cleaned.setdefault("properties", {})
        return {"type": "object", **{key: value for key, value in cleaned.items() if key != "type"}}

    def _merged(self, schema: Schema, seen: tuple[str, ...]) -> Schema:
        """Turn alternatives at the top level, which providers do not accept, into optional properties."""
        self._count()
        schema = self._resolved(schema, seen) or {}
        parts = [part for key in ("allOf", *_ALTERNATIVES) for part in _dicts(schema.get(key))]
        if not parts or len(seen) > _DEEPEST:
            return schema
        properties: Schema = {}
        required: list[Any] = [*_list(schema.get("required"))]
        for part in parts[:_MOST_VALUES]:
            whole = self._merged(part, (*seen, ""))
            for name, value in _dict(whole.get("properties")).items():
                properties.setdefault(name, value)
        for part in _dicts(schema.get("allOf")):
            required += _list(part.get("required"))
        rest = {key: value for key, value in schema.items() if key not in ("allOf", *_ALTERNATIVES, "additionalProperties")}
        return {**rest, "properties": {**properties, **_dict(schema.get("properties"))}, "required": required}

    def _node(self, given: object, seen: tuple[str, ...]) -> Schema:
        self._count()
        if len(seen) > 4 * _DEEPEST:
            raise TooLarge
        if not isinstance(given, Mapping):  # `true`, or something that is not a schema
            return {}
        schema, seen = self._followed(cast(Schema, given), seen)
        if schema is None or len(seen) > _DEEPEST:
            return {}
        cleaned: Schema = {}
        if (text := clean_description(schema.get("description"))) != "":
            cleaned["description"] = text
            self._spend(len(text))
        kind = _type(schema)
        if kind is not None:
            cleaned["type"] = kind
        self._values(schema, cleaned)
        self._members(schema, cleaned, (*seen, "."))
        for key in _ALTERNATIVES:
            parts = [self._node(part, (*seen, ".")) for part in _list(schema.get(key))[:_MOST_VALUES]]
            if parts:
                cleaned[key] = parts
        for part in _dicts(schema.get("allOf")):
            for key, value in self._node(part, (*seen, ".")).items():
                cleaned.setdefault(key, value)
        return cleaned

    def _values(self, schema: Schema, cleaned: Schema) -> None:
        values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
        plain = [value for value in values if value is None or isinstance(value, str | int | float)]
        if not plain or len(plain) < len(values) or len(plain) > _MOST_VALUES:
            return
        self._spend(sum(len(str(value)) for value in plain))
        cleaned["enum"] = plain
        kind = _type_of_all(plain)
        if "type" not in cleaned and kind is not None:
            cleaned["type"] = kind

    def _members(self, schema: Schema, cleaned: Schema, seen: tuple[str, ...]) -> None:
        kinds = cleaned.get("type")
        is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
        given = _dict(schema.get("properties"))
        if is_object or given:
            cleaned.setdefault("type", "object")
            names = [name for name in given if len(name) <= _LONGEST_NAME]
            self._spend(sum(len(name) for name in names))
            cleaned["properties"] = {make_visible(name): self._node(given[name], seen) for name in names}
            required = [name for name in _list(schema.get("required")) if isinstance(name, str) and name in cleaned["properties"]]
            if required:
                cleaned["required"] = list(dict.fromkeys(required))
            others = schema.get("additionalProperties")
            if isinstance(others, bool):
                cleaned["additionalProperties"] = others
            elif isinstance(others, Mapping):
                cleaned["additionalProperties"] = self._node(cast(Schema, others), seen)
        if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
            cleaned["items"] = self._node(schema.get("items"), seen)

    def _followed(self, schema: Schema, seen: tuple[str, ...]) -> tuple[Schema | None, tuple[str, ...]]:
        """The schema that a reference points to; None if we are inside it already, or if it is not local."""
        reference = schema.get("$ref")
        if reference is None:
            return schema, seen
        if reference in seen:  # recursive: one level is enough for a model to understand it
            return None, seen
        found = self._resolved(schema, ())
        return found, (*seen, str(reference))

    def _resolved(self, schema: Schema, seen: tuple[str, ...]) -> Schema | None:
        for _ in range(_DEEPEST):
            reference = schema.get("$ref")
            if reference is None:
                return schema
            target = self._at(reference)
            if target is None:
                return {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**target, "description": schema["description"]} if "description" in schema else target
        return None

    def _at(self, reference: object) -> Schema | None:
        if not isinstance(reference, str) or not reference.startswith("#") or len(reference) > _LONGEST_NAME:
            return None
        at: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            at = cast(Schema, at).get(key) if isinstance(at, Mapping) else None
        return cast(Schema, at) if isinstance(at, Mapping) else None

    def _count(self) -> None:
        """Limits the total work, because a few bytes of references could expand without end."""
        self._spend(16)
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise TooLarge

    def _spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise TooLarge


def _type(schema: Schema) -> str | list[str] | None:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind if kind in _TYPES else None
    kinds = [each for each in _list(kind) if each in _TYPES]
    return kinds[0] if len(kinds) == 1 else kinds or None


def _type_of_all(values: list[Any]) -> str | None:
    kinds = {
        "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "null" if value is None else "number"
        for value in values
    }
    if kinds == {"number"} and all(isinstance(value, int) for value in values):
        return "integer"
    return kinds.pop() if len(kinds) == 1 else None


def _list(value: object) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _dict(value: object) -> Schema:
    return cast(Schema, value) if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Schema]:
    return [cast(Schema, part) for part in _list(value) if isinstance(part, dict)]
