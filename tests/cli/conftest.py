from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    home = tmp_path / "home" / ".codex"
    home.mkdir(parents=True)
    project = tmp_path / "project"
    project.mkdir()
    return Program(home, project)
