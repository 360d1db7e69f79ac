"""docs/quickstart.md, block by block in one shell, as somebody would who reads it for the first time."""

import re
import tomllib

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.user import User, make_user


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[User, list[str]]:
    """What each block prints."""
    user = make_user(tmp_path_factory.mktemp("quickstart"))
    found = [block.text for block in blocks("sh") if block.page == ROOT / "docs" / "quickstart.md"]
    script = "\n".join(f"echo '=== {number}'\n{text}" for number, text in enumerate(found))
    done = user.run(["bash", "-eu", "-o", "pipefail", "-c", f"exec 2>&1\n{script}"])
    assert done.returncode == 0, done.stdout
    return user, re.split(r"=== \d+\n", done.stdout)[1:]


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("quickstart")]


def test_the_test_fails_is_mended_and_taken_back(read: tuple[User, list[str]]) -> None:
    _, (first, mended, undone, *_) = read
    assert "one test fails, as it should" in first
    steps = [mended.index(word) for word in ("TypeError", "(+1 -1)", "OK", "Strangers are greeted now")]
    assert steps == sorted(steps)
    assert "undid turn 1" in undone
    assert "as it was before" in undone


def test_nothing_is_written_outside(read: tuple[User, list[str]]) -> None:
    user, screens = read
    assert "I may not write there, so I left it." in screens[3]
    assert not (user.project / "outside.txt").exists()


def test_the_sample_is_a_configuration_and_the_pages_are_found(read: tuple[User, list[str]]) -> None:
    user, screens = read
    tomllib.loads((user.project / "config.toml").read_text())
    assert "# Recipes" in screens[5]
    assert "troubleshooting#commands-and-files: no network in commands" in screens[5]
