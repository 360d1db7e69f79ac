"""docs/security.md says what the code decides."""

import runpy
from pathlib import Path

from tests.policy.threat_cases import THREAT_CASES
from tests.policy.threat_rows import COMMAND_ROWS, PATCH_ROWS

GENERATOR = Path(__file__).parents[2] / "docs" / "generate_security.py"


def test_the_tables_are_those_of_the_code() -> None:
    generator = runpy.run_path(str(GENERATOR))
    page: str = generator["PAGE"].read_text()
    assert generator["render"](page) == page, "run: python docs/generate_security.py"


def test_every_case_is_on_the_page() -> None:
    assert {case.row for case in THREAT_CASES} == set(COMMAND_ROWS)
    assert list(PATCH_ROWS) == [f"P{number}" for number in range(1, 23)]
