"""Changing config.toml by program: what is meant is changed, nothing else, and nothing is half-written."""

import os
import stat
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.config.editing import edit_config_file, with_table, with_value
from understudy.errors import BadRequest, ConfigError

MINE = """# what I use
model = "x"   # for now

[mcp_servers.old]   # an old friend
command = "old"
args = [
    "a", # first
]
"""


def add(name: str, value: object) -> Callable[[str], str]:
    return lambda text: with_value(text, (name,), value)


def test_everything_else_stays_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(MINE)
    assert edit_config_file(tmp_path, lambda text: with_table(text, ("table",), {"key": 1})) == tmp_path / "config.toml"
    assert (tmp_path / "config.toml").read_text().rstrip() == MINE + "\n[table]\nkey = 1"


def test_line_ends_of_another_system_stay(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(MINE.replace("\n", "\r\n").encode())
    edit_config_file(tmp_path, add("model", "y"))
    assert (tmp_path / "config.toml").read_bytes() == MINE.replace("\n", "\r\n").replace('"x"', '"y"').encode()


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "none"
    edit_config_file(home, add("model", "x"))
    assert (home / "config.toml").read_text() == 'model = "x"\n'
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600


def test_rights_stay_and_a_link_goes_on_leading_to_the_file(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(MINE)
    kept.chmod(0o640)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").symlink_to(kept)
    edit_config_file(home, add("model", "y"))
    assert (home / "config.toml").is_symlink()
    assert kept.read_text() == MINE.replace('"x"', '"y"')
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_what_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(MINE)
    before = (tmp_path / "config.toml").stat()
    edit_config_file(tmp_path, add("model", "x"))
    assert (tmp_path / "config.toml").stat() == before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'model = "x', "TOML parse error at line 1"),
        (b'model = "\xff"', "it is not UTF-8 (byte 9)"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(ConfigError) as error:
        edit_config_file(tmp_path, add("model", "y"))
    assert complaint in str(error.value)
    assert (tmp_path / "config.toml").read_bytes() == content


def test_a_change_that_is_refused_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(MINE)

    def check(tree: Any) -> None:
        raise BadRequest(f"no {tree['model']}")

    with pytest.raises(BadRequest, match="no y"):
        edit_config_file(tmp_path, add("model", "y"), check)
    assert (tmp_path / "config.toml").read_text() == MINE
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "understudy"]


def test_a_file_that_someone_else_changes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(MINE)

    def check(tree: Any) -> None:
        (tmp_path / "config.toml").write_text("model = 'theirs'\n")

    with pytest.raises(ConfigError, match="changed by someone else"):
        edit_config_file(tmp_path, add("model", "y"), check)
    assert (tmp_path / "config.toml").read_text() == "model = 'theirs'\n"
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "understudy"]


def test_two_who_change_it_at_once_both_get_their_way(tmp_path: Path) -> None:
    threads = [threading.Thread(target=edit_config_file, args=(tmp_path, add(f"key{number}", number))) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {f"key{number}": number for number in range(8)}
