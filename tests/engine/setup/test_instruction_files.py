"""Which files of instructions count, of the user's and of each folder, and which do not."""

from pathlib import Path

import pytest

from tests.engine.setup.planting import Planted
from understudy.engine.setup.setup import user_instructions
from understudy.errors import ConfigError


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def told(planted: Planted, cwd: Path | None = None, **settings: object) -> list[str]:
    text = user_instructions(planted.config(cwd, **settings)) or ""
    return text.replace("--- project-doc ---", "").split()


def test_of_each_folder_the_first_by_its_name_counts(planted: Planted) -> None:
    project, below = planted.project, planted.project / "below"
    planted.write(project / "CLAUDE.md", "claude")
    planted.write(below / "AGENTS.md", "agents")
    planted.write(below / "CLAUDE.md", "hidden")
    assert told(planted, below) == ["claude", "agents"]
    planted.write(project / "GUIDE.md", "guide")
    assert told(planted, below, project_doc_fallback_filenames=["", "GUIDE.md"]) == ["guide", "agents"]
    planted.write(below / "AGENTS.override.md", "override")
    assert told(planted, below) == ["claude", "override"]
    planted.write(project / "docs" / "how.md", "deep")
    assert told(planted, project_doc_fallback_filenames=["docs/how.md"]) == ["deep"]
    (project / "CLAUDE.md").unlink()
    planted.write(project / ".claude" / "CLAUDE.md", "folder")
    assert told(planted) == ["folder"]


def test_of_the_users_own_the_first_that_says_anything_counts(planted: Planted) -> None:
    planted.write(planted.user / ".claude" / "CLAUDE.md", "claude")
    assert told(planted) == ["claude"]
    planted.write(planted.home / "AGENTS.md", "agents")
    assert told(planted) == ["agents"]
    override = planted.write(planted.home / "AGENTS.override.md", "override")
    assert told(planted) == ["override"]
    override.write_text(" \n")
    assert told(planted) == ["agents"]
    (planted.home / "AGENTS.md").unlink()
    assert told(planted, planted.user) == ["claude"], "whoever works in their home is told once"


def test_one_that_may_not_be_read_does_not_hide_the_next(planted: Planted, tmp_path: Path) -> None:
    secret = planted.write(tmp_path / "secret", "private")
    (planted.project / "AGENTS.override.md").symlink_to(secret)
    (planted.project / "AGENTS.md").mkdir()
    planted.write(planted.project / "CLAUDE.md", "claude")
    assert told(planted) == ["claude"]


def test_what_is_marked_as_untrusted_says_nothing(planted: Planted) -> None:
    project, below = planted.project, planted.project / "below"
    planted.write(project / "AGENTS.md", "root")
    planted.write(below / "AGENTS.md", "below")
    planted.write(planted.home / "AGENTS.md", "own")

    def mark(*levels: tuple[Path, str]) -> None:
        tables = "".join(f'[projects."{folder}"]\ntrust_level = "{level}"\n' for folder, level in levels)
        (planted.home / "config.toml").write_text(tables)

    mark((project, "untrusted"))
    assert told(planted, below) == ["own"]
    mark((project, "untrusted"), (below, "trusted"))
    assert told(planted, below) == ["own", "below"]
    mark((project, "trusted"), (below, "untrusted"))
    assert told(planted, below) == ["own", "root"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret", "a/../../b"])
def test_a_fallback_name_does_not_lead_out_of_its_folder(planted: Planted, name: str) -> None:
    with pytest.raises(ConfigError, match="project_doc_fallback_filenames"):
        planted.config(project_doc_fallback_filenames=[name])


def test_a_project_cannot_say_which_of_its_files_the_model_is_told(planted: Planted) -> None:
    """It could name one with keys in it."""
    planted.write(planted.project / ".env", "KEY=secret")
    planted.write(planted.project / ".codex" / "config.toml", 'project_doc_fallback_filenames = [".env"]\n')
    planted.trust()
    assert told(planted) == []
    assert any("does not count" in warning for warning in planted.config().warnings)
