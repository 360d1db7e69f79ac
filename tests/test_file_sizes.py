"""Files do one thing: one that grows beyond this does a second."""

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "understudy"
MOST_LINES = 450


def test_no_file_has_more_than_450_lines() -> None:
    lines = {str(path.relative_to(SOURCE)): path.read_text().count("\n") for path in SOURCE.rglob("*.py")}
    assert len(lines) > 100
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
