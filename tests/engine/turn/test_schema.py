"""Schemas and answers are checked by a worker that can be killed, and whatever comes, there is an answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.turn.answer_form import (
    MOST_LEVELS,
    CannotCheck,
    Fits,
    Misfit,
    check_answer,
    parse_answer,
    schema_problem,
    shape_problem,
    without_fence,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {}}},
        {"enum": [{"$ref": "https://example.com/x"}]},
        {"properties": {"$ref": {"type": "string"}}},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}},
    ],
)
async def test_schemas_that_can_be_used(schema: dict[str, Any]) -> None:
    assert await schema_problem(schema) is None


async def test_the_answer_is_held_against_the_schema() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    assert await check_answer(schema, ' {"a": 1} ') == Fits({"a": 1})
    assert await check_answer(schema, '{"a": "x"}') == Misfit("at $.a: 'x' is not of type 'integer'")
    assert await check_answer(schema, "[]") == Misfit("at $: [] is not of type 'object'")
    missing = await check_answer(schema, "no JSON")
    assert isinstance(missing, Misfit)
    assert missing.problem.startswith("the answer is not JSON: ")


async def test_a_long_complaint_is_cut() -> None:
    found = await check_answer({"type": "integer"}, '"' + "x" * 5_000 + '"')
    assert isinstance(found, Misfit)
    assert len(found.problem) < 400


@pytest.mark.slow
async def test_references_that_double_with_every_level_are_given_up() -> None:
    both = {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["b"]}] * 4}
    schema: dict[str, Any] = {"$ref": "#/$defs/x", "$defs": {"x": both}}
    assert await schema_problem(schema) is None
    deep = '{"a":' * 40 + "{}" + "}" * 40
    with pytest.raises(CannotCheck, match="takes too long"):
        await check_answer(schema, deep)


def test_a_schema_is_an_object_of_bounded_depth() -> None:
    deep: Any = {}
    for _ in range(MOST_LEVELS):
        deep = {"items": deep}
    assert shape_problem(deep) == f"a schema may have at most {MOST_LEVELS} levels"
    assert shape_problem([]) == shape_problem(True) == "a JSON schema is an object"
    assert shape_problem({}) is None


@given(JSON)
def test_whatever_is_given_as_a_schema_has_a_shape_or_a_problem(value: Any) -> None:
    assert (shape_problem(value) is None) == isinstance(value, dict)


@given(JSON, st.sampled_from(["{}", " {}\n", "```json\n{}\n```", "```\n{}```", "\n```JSON  \n{}\n  ```\n"]))
def test_json_between_backticks_is_the_same_json(value: Any, form: str) -> None:
    import json

    text = json.dumps(value)
    assert parse_answer(form.replace("{}", text)) == value
    assert without_fence(text) == text
