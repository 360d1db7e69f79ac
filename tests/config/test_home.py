"""Which folder is the configuration's."""

from pathlib import Path

import pytest

from understudy.config import find_home, state_dir
from understudy.errors import ConfigError


def test_the_default_need_not_exist(tmp_path: Path) -> None:
    assert find_home({"HOME": str(tmp_path)}) == tmp_path / ".codex"
    assert find_home({"HOME": str(tmp_path), "CODEX_HOME": ""}) == tmp_path / ".codex"


def test_a_named_folder_is_made_canonical(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    home = find_home({"CODEX_HOME": str(tmp_path / "link")})
    assert home == (tmp_path / "real").resolve()
    assert state_dir(home) == home / "understudy"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_named_folder_has_to_be_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        find_home({"CODEX_HOME": str(tmp_path / name)})
    assert str(caught.value).startswith(f"CODEX_HOME names `{tmp_path / name}`, which ")
