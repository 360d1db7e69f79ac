"""What a review finds: the form of the model's answer, and the answer as text, JSON, SARIF 2.1.0 and JUnit."""

import json
import os
import re
import textwrap
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Literal, get_args
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec

from understudy import __version__
from understudy.engine.turn.answer_form import without_fence
from understudy.errors import ModelError
from understudy.text import make_visible

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the most severe first
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
    file: str | None  # relative to the repository; None: the model named a place outside it
    line: int
    end_line: int
    confidence: float

    @property
    def place(self) -> str:
        if self.file is None:
            return ""
        return f"{self.file}:{self.line}" + (f"-{self.end_line}" if self.end_line > self.line else "")


class Review(msgspec.Struct, frozen=True):
    findings: tuple[ReviewFinding, ...]  # the most severe first
    correctness: str
    explanation: str
    confidence: float

    def at_least(self, severity: Severity | None) -> tuple[ReviewFinding, ...]:
        """Findings of this severity or a higher one. None: all."""
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
    """Raises `ModelError` if the answer has another form than we asked for."""
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
    """The path that the model named, relative to the repository; None if it is outside."""
    if not file.strip() or "\0" in file:
        return None
    path = os.path.relpath(os.path.normpath(os.path.join(root, file)), root)
    return None if path == "." or path.split("/")[0] == ".." else path


def _share(number: float) -> float:
    return min(max(number, 0.0), 1.0) if number == number else 0.0


Format = Literal["text", "json", "sarif", "junit"]
NONE = "No findings."
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
WIDTH = 100

_LEVELS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "note"}
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(review: Review, form: Format, fail_on: Severity | None, width: int = WIDTH) -> str:
    """The whole output, with a newline at the end. `fail_on`: findings of this severity or a higher one are failures."""
    match form:
        case "text":
            return as_text(review, width) if review.findings else f"{NONE}\n{as_text(review, width)}"
        case "json":
            return json.dumps(_as_json(review), indent=2, ensure_ascii=False) + "\n"
        case "sarif":
            return json.dumps(_as_sarif(review), indent=2, ensure_ascii=False) + "\n"
        case "junit":
            return _as_junit(review, fail_on)


def as_text(review: Review, width: int = WIDTH) -> str:
    """For people: the overall judgement, then each finding with its place."""
    blocks = [_wrapped(review.explanation, width)] if review.explanation.strip() else []
    for finding in review.findings:
        head = f"[{finding.severity}] {_clean(finding.title)}" + (f" — {_clean(finding.place)}" if finding.place else "")
        blocks.append(f"{head}\n{_wrapped(finding.body, width, '  ')}".rstrip())
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _wrapped(text: str, width: int, indent: str = "") -> str:
    lines = [_clean(line) for line in text.strip().split("\n")]
    room = max(width - len(indent), 20)
    wrapped = [part for line in lines for part in (textwrap.wrap(line, room, break_long_words=False) or [""])]
    return "\n".join(f"{indent}{line}".rstrip() for line in wrapped)


def _clean(text: str) -> str:
    """The model wrote it, perhaps following the words of a hostile file."""
    return "\n".join(make_visible(line) for line in text.split("\n"))


def _as_json(review: Review) -> dict[str, Any]:
    return {
        "findings": [_finding_as_json(finding) for finding in review.findings],
        "overall_correctness": review.correctness,
        "overall_explanation": review.explanation,
        "overall_confidence_score": review.confidence,
    }


def _finding_as_json(finding: ReviewFinding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in ("title", "body", "severity", "file", "line", "end_line", "confidence")}


# -- SARIF


def _as_sarif(review: Review) -> dict[str, Any]:
    driver = {
        "name": "understudy",
        "version": __version__,
        "semanticVersion": _semantic(__version__),
        "rules": [
            {
                "id": _rule(severity),
                "name": f"Review{severity.capitalize()}",
                "shortDescription": {"text": f"A finding of severity {severity}"},
                "defaultConfiguration": {"level": _LEVELS[severity]},
            }
            for severity in SEVERITIES
        ],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the root of the repository"}}},
        "results": [_result(finding) for finding in review.findings],
        "properties": {"overallCorrectness": review.correctness, "overallExplanation": review.explanation},
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: ReviewFinding) -> dict[str, Any]:
    text = f"{finding.title}\n\n{finding.body}".strip()
    seed = "\0".join((finding.severity, finding.file or "", finding.title))
    result: dict[str, Any] = {
        "ruleId": _rule(finding.severity),
        "ruleIndex": SEVERITIES.index(finding.severity),
        "level": _LEVELS[finding.severity],
        "message": {"text": text or "a finding without words"},
        "partialFingerprints": {"findingDigest/v1": sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()},
        "properties": {"severity": finding.severity, "confidence": finding.confidence},
    }
    if finding.file is not None:
        place = {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"}
        region = {"startLine": finding.line, "endLine": finding.end_line}
        result["locations"] = [{"physicalLocation": {"artifactLocation": place, "region": region}}]
    return result


def _rule(severity: Severity) -> str:
    return f"review/{severity}"


def _semantic(version: str) -> str:
    numbers = re.match(r"\d+(\.\d+){0,2}", version)
    parts = (numbers.group() if numbers else "0").split(".")
    return ".".join([*parts, "0", "0"][:3])


# -- JUnit


def _as_junit(review: Review, fail_on: Severity | None) -> str:
    failures = review.at_least(fail_on)
    counts = {"tests": str(len(review.findings) or 1), "failures": str(len(failures)), "errors": "0"}
    suites = ElementTree.Element("testsuites", {"name": "understudy review", **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "review", **counts, "skipped": "0"})
    for finding in review.findings:
        where = {"file": _xml(finding.file), "line": str(finding.line)} if finding.file is not None else {}
        name = _xml(finding.title) or "a finding without words"
        case = ElementTree.SubElement(suite, "testcase", {"classname": _xml(finding.file or "review"), "name": name, **where})
        told = f"{finding.place}\n{finding.body}".strip()
        if finding in failures:
            failure = ElementTree.SubElement(case, "failure", {"type": finding.severity, "message": name})
            failure.text = _xml(told)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(f"[{finding.severity}] {told}")
    if not review.findings:
        ElementTree.SubElement(suite, "testcase", {"classname": "review", "name": NONE})
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


_replace: Callable[[str, str], str] = _NOT_IN_XML.sub


def _xml(text: str) -> str:
    """Without characters that XML does not allow."""
    return _replace("\ufffd", text)


FOUND = 3  # the exit code if there are findings of the severity in `--fail-on`


class Reviewing(msgspec.Struct, frozen=True):
    """How the answer is processed. `known`: the answer without a model, because nothing has changed."""

    root: str
    form: Format
    fail_on: Severity | None
    about: str
    known: Review | None = None

    def read(self, answer: str) -> Review:
        """Raises `ModelError`."""
        return self.known or read_review(answer, self.root)

    def as_message(self, answer: str) -> str:
        """What events contain instead of the model's JSON."""
        try:
            return as_text(self.read(answer)).rstrip("\n")
        except ModelError:  # the model will be told what is wrong, and tries again
            return answer

    def present(self, answer: str) -> str:
        """What is printed."""
        width = os.get_terminal_size(1).columns if os.isatty(1) else WIDTH
        return render(self.read(answer), self.form, self.fail_on, min(width, WIDTH))

    def exit_code(self, answer: str) -> int:
        return FOUND if self.fail_on is not None and self.read(answer).at_least(self.fail_on) else 0
