"""Commands that our messages name are there: a person who is told to type one can type it."""

import re
from pathlib import Path

import pytest

from understudy.cli.commands import build_parser

SOURCE = Path(__file__).parents[2] / "src" / "understudy"
NAMED = re.compile(r"`understudy ([a-z][a-z-]*)")
FOUND = sorted({name for path in SOURCE.rglob("*.py") for name in NAMED.findall(path.read_text())})


@pytest.mark.parametrize("name", FOUND)
def test_a_command_that_a_message_names_is_one_of_ours(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args([name, "--help"])
    assert end.value.code == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith("usage: understudy")
