"""Commands that our messages name are there: a person who is told to type one can type it."""

import re
from pathlib import Path

import pytest

from understudy.cli.commands import run

SOURCE = Path(__file__).parents[2] / "src" / "understudy"
NAMED = re.compile(r"`understudy ([a-z][a-z-]*)")
FOUND = sorted({name for path in SOURCE.rglob("*.py") for name in NAMED.findall(path.read_text())})


@pytest.mark.parametrize("name", FOUND)
def test_a_command_that_a_message_names_is_one_of_ours(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = _code_of([name, "--help"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert printed.out.startswith("usage: understudy")


def _code_of(words: list[str]) -> int | str | None:
    try:
        return run(words)
    except SystemExit as end:
        return end.code
