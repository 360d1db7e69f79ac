"""What a hostile server says of its tools, and gives for a call, costs little and breaks nothing."""

from typing import Any

import pytest

from understudy.policy.secrets import redact
from understudy.tools.mcp.results import model_text, recorded_result
from understudy.tools.mcp.schema import clean_parameters, nothing_said

SECRET = "1234567890123"


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}] * 50},
        {"anyOf": [{"$ref": "#/d"}] * 50, "d": {"oneOf": [{"$ref": "#"}] * 50}},
        {"anyOf": [{"allOf": [{"$ref": "#"}] * 200}] * 200},
    ],
)
def test_references_that_lead_back_end(schema: dict[str, Any]) -> None:
    assert clean_parameters(schema) == nothing_said()


@pytest.mark.parametrize("odd", [{}, [], None, 1, [["a"]]])
def test_what_is_required_may_be_no_name(odd: object) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": [odd, "a"]}
    assert clean_parameters(schema)["required"] == ["a"]


def test_a_secret_that_is_a_number_is_left_out_of_what_is_structured() -> None:
    def without_secret(text: str) -> str:
        return redact(text, [SECRET])

    raw = {"content": [{"type": "odd", "n": int(SECRET)}], "structuredContent": {"n": int(SECRET)}}
    recorded = recorded_result(raw, without_secret)
    assert recorded["structuredContent"] == {"type": "text", "text": '{"n":[redacted]}'}
    assert recorded["content"] == [{"type": "text", "text": '{"type":"odd","n":[redacted]}'}]
    assert SECRET not in model_text(raw, without_secret)
