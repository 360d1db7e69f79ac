"""The tables of docs/configuration.md, as data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "configuration.md"


@dataclass(frozen=True)
class Row:
    key: str  # as the code knows it: `*` for a name of the user's
    kind: str
    default: str

    @property
    def choices(self) -> tuple[str, ...]:
        return tuple(re.findall(r"`([^`]+)`", self.kind))


def rows() -> list[Row]:
    """Every key that the page says has an effect."""
    return [Row(_key(cells[0]), cells[1], cells[2]) for cells in _cells() if len(cells) == 4]


def without_effect() -> dict[str, str]:
    return {_key(cells[0]): cells[1] for cells in _cells() if len(cells) == 2}


def _key(cell: str) -> str:
    return cell.strip("`").replace(".NAME", ".*").replace('."PATH"', ".*").replace('."MODEL"', ".*")


def _cells() -> Iterator[list[str]]:
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]
