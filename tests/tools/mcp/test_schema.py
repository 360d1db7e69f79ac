"""Parameters of other servers' tools: repaired, bounded, and whatever a server sends an object schema comes out."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.mcp.schema import LONGEST_DESCRIPTION, MOST_BYTES, clean_description, clean_parameters

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
KEYS = st.sampled_from(
    ["type", "properties", "items", "$ref", "anyOf", "allOf", "required", "enum", "const", "$defs", "description"]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["object", "array", "#", "#/$defs/a"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), inner, max_size=4)),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_comes_is_an_object_schema_within_bounds(schema: Any) -> None:
    cleaned = clean_parameters(schema)
    assert cleaned["type"] == "object"
    names: dict[str, Any] = cleaned["properties"]
    assert set(cleaned.get("required", ())) <= names.keys()
    encoded = msgspec.json.encode(cleaned)
    assert b"$ref" not in encoded or b"$ref" in msgspec.json.encode(schema)
    assert len(encoded) < 4 * MOST_BYTES


def properties(**given: Any) -> dict[str, Any]:
    return clean_parameters({"type": "object", "properties": given})["properties"]


def test_what_only_some_providers_take_is_left_out_and_the_rest_stays() -> None:
    kept = properties(
        a={"type": ["string", "null"], "default": "x", "title": "A", "minLength": 1, "pattern": "^a", "description": "words"},
        b={"const": 3},
        c={"enum": ["x", "y"]},
        d={"type": "array"},
        e=True,
        f={"type": "object", "additionalProperties": {"type": "number", "format": "x"}},
    )
    assert kept == {
        "a": {"description": "words", "type": ["string", "null"]},
        "b": {"type": "integer", "enum": [3]},
        "c": {"type": "string", "enum": ["x", "y"]},
        "d": {"type": "array", "items": {}},
        "e": {},
        "f": {"type": "object", "properties": {}, "additionalProperties": {"type": "number"}},
    }


def test_local_references_are_put_in_place_recursive_ones_cut_and_remote_ones_dropped() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}, "x": {"type": "integer"}}}
    cleaned = clean_parameters(
        {"$defs": {"N": node}, "type": "object", "properties": {"n": {"$ref": "#/$defs/N"}, "r": {"$ref": "http://x/y"}}}
    )
    assert cleaned["properties"] == {
        "n": {"type": "object", "properties": {"next": {}, "x": {"type": "integer"}}},
        "r": {},
    }


def test_alternatives_at_the_top_become_properties_that_may_be_given() -> None:
    parts = [{"type": "object", "properties": {name: {"type": "string"}}, "required": [name]} for name in "ab"]
    assert clean_parameters({"anyOf": parts}) == {**NOTHING, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


def deep() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5_000):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling() -> dict[str, Any]:
    both = [{"a": {"$ref": f"#/$defs/{n + 1}"}, "b": {"$ref": f"#/$defs/{n + 1}"}} for n in range(60)]
    return {"$defs": {str(n): {"type": "object", "properties": each} for n, each in enumerate(both)}, "$ref": "#/$defs/0"}


LARGE: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"description": "x" * 900} for n in range(10_000)}}


@pytest.mark.parametrize("schema", [LARGE, deep(), doubling(), {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, [], None, "x"])
def test_a_schema_made_to_hurt_costs_little(schema: Any) -> None:
    assert len(msgspec.json.encode(clean_parameters(schema))) < 2 * MOST_BYTES


def test_a_description_is_visible_and_no_longer_than_is_useful() -> None:
    assert clean_description("one\ntwo\x1b[2J\u202ethree") == "one\ntwo\\u{1b}[2J\\u{202e}three"
    assert len(clean_description("x" * 1_000_000)) == LONGEST_DESCRIPTION
    assert clean_description(7) == ""
