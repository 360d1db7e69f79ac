"""A review as SARIF and JUnit, whatever the model answers: by the rules of SARIF 2.1.0, and as programs of others read it."""

import json
from typing import Any, cast

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, TestSuite
from sarif_pydantic import Sarif

from understudy.cli.exec.review_findings import CORRECTNESS, SEVERITIES, Review, read_review, render


def closed(required: str, **properties: Any) -> dict[str, Any]:
    """An object with these properties alone: a name with a slip in it is none of the specification's."""
    return {"type": "object", "required": required.split(), "properties": properties, "additionalProperties": False}


TEXT: dict[str, Any] = {"type": "string"}
BAG: dict[str, Any] = {"type": "object"}
MESSAGE = closed("text", text={**TEXT, "minLength": 1})
LEVEL: dict[str, Any] = {"enum": ["none", "note", "warning", "error"]}
LINE: dict[str, Any] = {"type": "integer", "minimum": 1}
RULE = closed("id", id=TEXT, name=TEXT, shortDescription=MESSAGE, defaultConfiguration=closed("", level=LEVEL))
DRIVER = closed(
    "name",
    name=TEXT,
    version=TEXT,
    semanticVersion={**TEXT, "pattern": r"^\d+\.\d+\.\d+$"},
    rules={"type": "array", "uniqueItems": True, "items": RULE},
)
PLACE = closed("", uri={**TEXT, "pattern": r"^[A-Za-z0-9._~%/-]+$"}, uriBaseId=TEXT)
LOCATION = closed(
    "", physicalLocation=closed("artifactLocation", artifactLocation=PLACE, region=closed("", startLine=LINE, endLine=LINE))
)
RESULT = closed(
    "message",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=LEVEL,
    message=MESSAGE,
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    locations={"type": "array", "items": LOCATION},
    properties=BAG,
)
RUN = closed(
    "tool",
    tool=closed("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    originalUriBaseIds={"type": "object", "additionalProperties": closed("", description=MESSAGE)},
    results={"type": "array", "items": RESULT},
    properties=BAG,
)
SARIF = closed("version runs", version={"const": "2.1.0"}, runs={"type": "array", "items": RUN}, **{"$schema": TEXT})
RULES = jsonschema.Draft202012Validator(SARIF)

NUMBERS = st.integers(-(2**40), 2**40)
SHARES = st.floats(-2, 2, allow_nan=False)
PATHS = st.text(max_size=12) | st.sampled_from(["app.py", "/etc/passwd", "../up", "a b/ü%?#:.py", "C:\\x", "//host/x", ".", ""])
FINDINGS = st.fixed_dictionaries(
    {
        "title": st.text(max_size=20),
        "body": st.text(max_size=40),
        "severity": st.sampled_from(SEVERITIES),
        "file": PATHS,
        "line": NUMBERS,
        "end_line": NUMBERS,
        "confidence": SHARES,
    }
)
ANSWERS = st.fixed_dictionaries(
    {
        "findings": st.lists(FINDINGS, max_size=4),
        "overall_correctness": st.sampled_from(CORRECTNESS),
        "overall_explanation": st.text(max_size=20),
        "overall_confidence_score": SHARES,
    }
)


def review_of(answer: dict[str, Any]) -> Review:
    return read_review(json.dumps(answer, ensure_ascii=False), "/repository")


@given(ANSWERS)
def test_sarif_keeps_to_its_specification_and_is_read_by_another_program(answer: dict[str, Any]) -> None:
    review = review_of(answer)
    told = json.loads(render(review, "sarif", None))
    assert [error.message for error in cast(list[jsonschema.ValidationError], list(RULES.iter_errors(told)))] == []  # pyright: ignore[reportUnknownMemberType]
    [run] = Sarif.model_validate(told).runs
    rules = run.tool.driver.rules or []
    assert len(run.results or []) == len(review.findings)
    for finding, result in zip(review.findings, run.results or [], strict=True):
        assert result.rule_index is not None
        assert rules[result.rule_index].id == result.rule_id == f"review/{finding.severity}"
        assert len(result.locations or []) == (finding.file is not None)
    for result in told["runs"][0]["results"]:
        for location in result.get("locations", ()):
            region = location["physicalLocation"]["region"]
            assert region["startLine"] <= region["endLine"]


@given(ANSWERS, st.sampled_from(SEVERITIES) | st.none())
def test_junit_is_read_by_another_program_with_the_failures_that_were_asked_for(answer: dict[str, Any], fail_on: Any) -> None:
    review = review_of(answer)
    suites = JUnitXml.fromstring(render(review, "junit", fail_on).encode())
    [suite] = suites
    assert isinstance(suite, TestSuite)
    cases = list(suite)
    failed = [case for case in cases if any(isinstance(result, Failure) for result in case.result)]
    assert (suite.tests, suite.failures, suite.errors) == (len(cases), len(failed), 0)
    assert len(cases) == max(len(review.findings), 1)
    assert len(failed) == len(review.at_least(fail_on))
    assert all(case.name and case.classname for case in cases)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
