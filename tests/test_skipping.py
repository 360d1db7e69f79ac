"""A test that is skipped for want of a program or of rights says what to do about it."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
REASON = re.compile(r'(?:skip\(|reason=)\s*f?"([^"]*)"')


def test_a_reason_that_names_what_is_lacking_names_the_remedy() -> None:
    reasons = [
        (path.name, reason) for path in TESTS.rglob("*.py") if path != Path(__file__) for reason in REASON.findall(path.read_text())
    ]
    assert len(reasons) > 20
    lacking = [each for each in reasons if "not installed" in each[1] and "install" not in each[1].replace("not installed", "")]
    for_root = [each for each in reasons if each[1].startswith("only root") and "as root" not in each[1].removeprefix("only root")]
    assert [each for each in lacking + for_root if "{missing}" not in each[1] and "mounted" not in each[1]] == []
