"""docs/security.md and docs/security-evidence.md say what the code decides."""

import re
import runpy
from pathlib import Path

from tests.policy.threat_cases import THREAT_CASES
from tests.policy.threat_rows import COMMAND_ROWS
from tests.security.threat_rows import INJECTION_ROWS, PATCH_ROWS, SANDBOX_ROWS, SERVER_ROWS
from understudy.places.masks import MASK

TESTS = Path(__file__).parents[1]
GENERATOR = TESTS.parent / "docs" / "generate_security.py"


def test_the_tables_are_those_of_the_code() -> None:
    generator = runpy.run_path(str(GENERATOR))
    page: str = generator["PAGE"].read_text()
    assert generator["render"](page) == page, "run: python docs/generate_security.py"
    assert generator["render_evidence"]() == generator["EVIDENCE"].read_text(), "run: python docs/generate_security.py"


def test_every_case_is_on_the_page() -> None:
    assert {case.row for case in THREAT_CASES} == set(COMMAND_ROWS)
    assert list(PATCH_ROWS) == [f"P{number}" for number in range(1, 26)]
    assert list(SANDBOX_ROWS) == [f"X{number}" for number in range(1, 27)]
    assert list(INJECTION_ROWS) == [f"I{number}" for number in range(1, 8)]


def test_every_test_that_the_page_names_is_there() -> None:
    rows = {**PATCH_ROWS, **SANDBOX_ROWS, **SERVER_ROWS, **INJECTION_ROWS}
    missing = [f"{case}: {named}" for case, row in rows.items() for named in row.shown_by if not _is_there(named)]
    assert missing == []
    assert all(row.shown_by for row in rows.values())


def _is_there(named: str) -> bool:
    file, _, sentence = named.partition(": ")
    return f"def test_{sentence.replace(' ', '_')}(" in (TESTS / file).read_text()


PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = re.compile(r"`([a-z_0-9/]+\.py)::(test_[a-z_0-9]+)`")
PROMISES = PAGE.partition("## What is not promised")[0]


def test_every_test_that_a_promise_names_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 30
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in (TESTS / file).read_text()] == []


def test_every_promise_names_a_test() -> None:
    promises = re.findall(r"^- .*(?:\n  .*)*", PROMISES, re.MULTILINE)
    assert len(promises) > 15
    assert [promise for promise in promises if not NAMED.search(promise)] == []


def test_the_page_names_all_that_is_masked_by_default() -> None:
    assert [path for path in MASK if f"`{path}`" not in PAGE] == []
