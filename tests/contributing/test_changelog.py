"""`make changelog`: fragments become bullets of the newest section, under their kind; and CHANGELOG.md stays short and sorted."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = "# Changelog\n\nWords.\n\n## 2.0.0, not released yet\n\n### Added\n\n- One.\n\n### Fixed\n\n- Two.\n\n## 1.0.0\n\n- Old.\n"
MOST_BULLETS = 60  # of a version: what a reader takes in on one screen or two


@pytest.fixture(name="script")
def _script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/changelog.py"))


def test_fragments_stand_under_their_kind_in_the_newest_section(script: dict[str, Any]) -> None:
    merged = script["merged"](PAGE, {"added": ["Three."], "changed": [], "fixed": [], "security": ["Four.", "Five."]})
    newest = "### Added\n\n- One.\n- Three.\n\n### Fixed\n\n- Two.\n\n### Security\n\n- Four.\n- Five.\n"
    assert merged == f"# Changelog\n\nWords.\n\n## 2.0.0, not released yet\n\n{newest}\n## 1.0.0\n\n- Old.\n"


def test_nothing_to_move_changes_nothing(script: dict[str, Any]) -> None:
    page = (ROOT / "CHANGELOG.md").read_text()
    assert script["merged"](page, {}) == page


@pytest.mark.parametrize("name", ["notes.md", "+notes.removed.md", "+Notes.added.md", "+notes.added.txt"])
def test_a_file_that_is_no_fragment_is_named(script: dict[str, Any], tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Words.\n")
    with pytest.raises(SystemExit, match=re.escape(name)):
        script["read_fragments"](tmp_path)


def test_every_fragment_of_ours_can_be_moved(script: dict[str, Any]) -> None:
    assert set(script["read_fragments"](ROOT / "changelog.d")) == {"added", "changed", "fixed", "security"}


def test_the_newest_section_is_short_and_sorted() -> None:
    newest = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1]
    kinds = re.findall(r"^### (\w+)$", newest, flags=re.MULTILINE)
    assert kinds == [kind for kind in ("Added", "Changed", "Fixed", "Security") if kind in kinds]
    assert len(re.findall(r"^- ", newest, flags=re.MULTILINE)) <= MOST_BULLETS
