"""What a review finds: the form in which the model answers, and what is made of the answer."""

import os
from typing import Any, Literal, get_args

import msgspec

from understudy.engine.answer_form.schema import without_fence
from understudy.errors import ModelError

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the worst first
CORRECT = "patch is correct"
CORRECTNESS = (CORRECT, "patch is incorrect")

_TEXT: dict[str, Any] = {"type": "string"}
_FINDING: dict[str, Any] = {
    "title": {**_TEXT, "description": "what is wrong, in one line"},
    "body": {**_TEXT, "description": "why it is wrong, when it shows, and what would put it right"},
    "severity": {**_TEXT, "enum": list(SEVERITIES)},
    "file": {**_TEXT, "description": "the path as the diff has it, without a/ or b/"},
    "line": {"type": "integer", "description": "the first line, counted in the new file"},
    "end_line": {"type": "integer", "description": "the last line; the same where it is one"},
    "confidence": {"type": "number", "description": "from 0 to 1"},
}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMA: dict[str, Any] = _object(
    {
        "findings": {"type": "array", "items": _object(_FINDING)},
        "overall_correctness": {**_TEXT, "enum": list(CORRECTNESS)},
        "overall_explanation": {**_TEXT, "description": "in one to three sentences"},
        "overall_confidence_score": {"type": "number"},
    }
)


class ReviewFinding(msgspec.Struct, frozen=True):
    title: str
    body: str
    severity: Severity
    file: str | None  # relative to the repository; None: it named a place outside of it
    line: int
    end_line: int
    confidence: float

    @property
    def place(self) -> str:
        if self.file is None:
            return ""
        return f"{self.file}:{self.line}" + (f"-{self.end_line}" if self.end_line > self.line else "")


class Review(msgspec.Struct, frozen=True):
    findings: tuple[ReviewFinding, ...]  # the worst first
    correctness: str
    explanation: str
    confidence: float

    def at_least(self, severity: Severity | None) -> tuple[ReviewFinding, ...]:
        """Those that are as bad, or worse. None: all."""
        worst = len(SEVERITIES) if severity is None else SEVERITIES.index(severity)
        return tuple(finding for finding in self.findings if SEVERITIES.index(finding.severity) <= worst)


class _Finding(msgspec.Struct):
    title: str
    body: str
    severity: Severity
    file: str
    line: int
    end_line: int
    confidence: float


class _Answer(msgspec.Struct):
    findings: list[_Finding]
    overall_correctness: str
    overall_explanation: str
    overall_confidence_score: float


def read_review(answer: str, root: str) -> Review:
    """Raises `ModelError` where the answer has not the form that was asked for."""
    try:
        given = msgspec.json.decode(without_fence(answer), type=_Answer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ModelError(f"the model's answer is no review: {error}") from None
    findings = [_finding(each, root) for each in given.findings]
    findings.sort(key=lambda each: (SEVERITIES.index(each.severity), each.file or "", each.line))
    return Review(tuple(findings), given.overall_correctness, given.overall_explanation, _share(given.overall_confidence_score))


def _finding(given: _Finding, root: str) -> ReviewFinding:
    line = min(max(given.line, 1), 2**31 - 1)
    end = min(max(given.end_line, line), 2**31 - 1)
    title = " ".join(given.title.split())
    return ReviewFinding(title, given.body, given.severity, _inside(given.file, root), line, end, _share(given.confidence))


def _inside(file: str, root: str) -> str | None:
    """Where the model's word leads, from the root of the repository; nowhere else."""
    if not file.strip() or "\0" in file:
        return None
    path = os.path.relpath(os.path.normpath(os.path.join(root, file)), root)
    return None if path == "." or path.split("/")[0] == ".." else path


def _share(number: float) -> float:
    return min(max(number, 0.0), 1.0) if number == number else 0.0
