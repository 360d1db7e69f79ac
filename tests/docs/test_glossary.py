"""The glossary of ARCHITECTURE.md names what is there: our names in the code, and those of the wire where it is spoken."""

import re
from functools import cache

import pytest

from tests.docs.blocks import ROOT

SOURCE = ROOT / "src" / "understudy"
WIRE = ("servers", "protocol", "config")  # where names of the wire are spelled
NAME = re.compile(r"`([^`]+)`")


def rows() -> list[list[str]]:
    section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Glossary\n")[2].partition("\n## ")[0]
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in cells] for cells in table[2:]]


@cache
def source(*folders: str) -> str:
    places = [SOURCE / folder for folder in folders] or [SOURCE]
    return "\n".join(path.read_text() for place in places for path in sorted(place.rglob("*.py")))


def is_there(name: str) -> bool:
    if name.endswith(".py"):
        return any(SOURCE.rglob(name))
    if "/" in name:
        return (SOURCE / name).is_dir()
    return re.search(rf"\b{re.escape(name)}\b", source()) is not None


ROWS = rows()


def test_the_glossary_has_four_columns_and_each_word_once() -> None:
    assert {len(row) for row in ROWS} == {4}
    words = [row[0] for row in ROWS]
    assert len(words) > 25
    assert len(words) == len(set(words))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_word_is_called_in_the_code_is_there(row: list[str]) -> None:
    assert [name for name in NAME.findall(row[2]) if not is_there(name)] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row[3]], ids=lambda row: row[0])
def test_what_a_word_is_called_on_the_wire_is_said_there(row: list[str]) -> None:
    spoken = source(*WIRE)
    missing = [name for name in NAME.findall(row[3]) if not re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", spoken)]
    assert missing == []
