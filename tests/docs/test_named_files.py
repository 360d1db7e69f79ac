"""Files that the pages for contributors name are there, so that a reader who looks for them finds them."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGES = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml))`")
FROM = (ROOT, ROOT / "src" / "understudy", ROOT / "tests")
BELOW = (ROOT / "src", ROOT / "tests", ROOT / "scripts", ROOT / "docs")
NOT_OURS = {"config.toml", "AGENTS.md", ".codex/config.toml"}  # of users


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def is_there(name: str) -> bool:
    return any((place / name).exists() for place in FROM) or any(found for place in BELOW for found in place.rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_file_that_is_named_is_there(page: Path) -> None:
    missing = sorted({name for name in NAMED.findall(prose(page)) if name not in NOT_OURS and not is_there(name)})
    assert missing == []
