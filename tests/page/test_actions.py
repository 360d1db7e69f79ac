"""The table of what the page promises names tests that there are."""

import re
from pathlib import Path

from tests.page.actions import TESTED_BY

HERE = Path(__file__).parent


def test_every_promise_of_the_page_has_a_test_in_the_browser() -> None:
    written = {
        f"{path.stem}.{name}"
        for path in HERE.glob("test_*.py")
        if "pytestmark = in_browser" in (text := path.read_text())
        for name in re.findall(r"^async def (test_\w+)", text, re.MULTILINE)
    }
    assert {promise: test for promise, test in TESTED_BY.items() if test not in written} == {}
