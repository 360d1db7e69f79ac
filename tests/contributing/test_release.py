"""`make release`: the notes of a version come from CHANGELOG.md, and an archive that holds or lacks something is refused."""

from pathlib import Path

import pytest
from scripts.release.archives import check_names
from scripts.release.notes import notes_for, version_of

ROOT = Path(__file__).parents[2]


def test_the_notes_are_what_stands_under_the_version() -> None:
    changelog = "# Changelog\n\n## 1.10.0, not released yet\n\n- ten\n\n## 1.1.0, 2 May\n\n- **one**\n  more\n\n## 1.0.0\n\n-\n"
    assert notes_for("1.1.0", changelog) == ("1.1.0, 2 May", "# understudy 1.1.0\n\n- **one**\n  more\n")
    assert notes_for("1.10.0", changelog)[0] == "1.10.0, not released yet"
    for version in ("1.2.0", "1.1"):
        with pytest.raises(SystemExit, match="no notes"):
            notes_for(version, changelog)


def test_this_version_has_notes() -> None:
    version = version_of(ROOT / "pyproject.toml")
    assert notes_for(version, (ROOT / "CHANGELOG.md").read_text())[1].startswith(f"# understudy {version}\n")


def test_what_does_not_belong_into_an_archive_is_refused() -> None:
    check_names(Path("a.whl"), ["understudy/a.py"], ["understudy/a.py"], ["tests/", ".env"])
    with pytest.raises(SystemExit, match=r"tests/x\.py"):
        check_names(Path("a.whl"), ["tests/x.py"], [], ["tests/"])
    with pytest.raises(SystemExit, match=r"lacks b\.py"):
        check_names(Path("a.whl"), ["a.py"], ["b.py"], [])
