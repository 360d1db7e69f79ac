"""What nobody has published yet is claimed nowhere: packaging/published.toml says what is."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.environments import ROOT

WAYS = tomllib.loads((ROOT / "packaging" / "published.toml").read_text())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def is_told(line: str, page: Path) -> bool:
    """In a block of commands; prose may name a command with what it needs."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return any(re.search(rf"^\s*{re.escape(line)}(\s|$)", block, re.MULTILINE) for block in blocks)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_to_get_it_is_told_when_it_is_published_and_not_before(way: str) -> None:
    told = WAYS[way]
    if told["published"]:
        assert is_told(told["install"], ROOT / "README.md")
    else:
        assert [(page.name, line) for page in PAGES for line in (told["install"], *told["also"]) if is_told(line, page)] == []


def test_the_readme_says_that_it_is_not_on_the_index_as_long_as_that_is_true() -> None:
    assert ("It is not on PyPI yet" in (ROOT / "README.md").read_text()) is not WAYS["index"]["published"]


def test_a_line_in_a_block_is_found(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("Say `apt install x`.\n\n```sh\nuv tool install x  # so\n```\n")
    assert is_told("uv tool install x", page)
    assert not is_told("apt install x", page)
