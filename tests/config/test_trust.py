"""Trust belongs to a real path and to what the folder's own files said when it was given."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from understudy.config.project import project_files
from understudy.config.trust import TrustStore
from understudy.errors import ConfigError


def is_trusted(store: TrustStore, folder: Path, projects: Mapping[str, Mapping[str, Any]] | None = None) -> bool:
    return store.standing(folder, projects) == "trusted"


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "home" / "understudy" / "trust.json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".codex" / "deep").mkdir(parents=True)
    (folder / ".codex" / "config.toml").write_text("model = 'x'\n")
    (folder / ".codex" / "notes").write_text("A=b\n")
    (folder / ".env").write_text("A=b\n")
    return folder


def test_a_folder_is_unknown_until_it_is_trusted(store: TrustStore, repository: Path) -> None:
    assert store.standing(repository) == "unknown"
    assert store.trust(repository) == repository.resolve()
    assert store.standing(repository) == "trusted"
    assert store.folders() == (str(repository.resolve()),)
    assert store.distrust(repository)
    assert not store.distrust(repository)
    assert not is_trusted(store, repository)


def test_the_file_is_the_users_alone(store: TrustStore, repository: Path) -> None:
    store.trust(repository)
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in store.file.parent.iterdir()) == ["trust.json", "trust.json.lock"]


def test_trust_is_of_the_real_path(store: TrustStore, repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    store.trust(link)
    assert is_trusted(store, repository)
    other = tmp_path / "other"
    other.mkdir()
    link.unlink()
    link.symlink_to(other)
    assert not is_trusted(store, link)


def test_trust_is_inherited_neither_by_folders_below_nor_through_a_git_file(
    store: TrustStore, repository: Path, tmp_path: Path
) -> None:
    store.trust(repository)
    below = repository / "vendored"
    below.mkdir()
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {repository}/.git/worktrees/x\n")
    assert not is_trusted(store, below)
    assert not is_trusted(store, forged)
    assert not is_trusted(store, repository.parent)


@pytest.mark.parametrize("change", ["edit", "add", "remove", "link", "new-mcp"])
def test_trust_ends_when_the_folders_own_files_change(store: TrustStore, repository: Path, change: str) -> None:
    store.trust(repository)
    (repository / "ordinary.py").write_text("x = 1\n")
    assert store.standing(repository) == "trusted"
    match change:
        case "edit":
            (repository / ".codex" / "config.toml").write_text("model = 'evil'\n")
        case "add":
            (repository / ".codex" / "deep" / "hook.sh").write_text("evil\n")
        case "remove":
            (repository / ".codex" / "notes").unlink()
        case "link":
            (repository / ".codex" / "notes").unlink()
            (repository / ".codex" / "notes").symlink_to("/etc/hostname")
        case _:
            (repository / ".mcp.json").write_text("{}")
    assert store.standing(repository) == "changed"
    assert not is_trusted(store, repository)
    store.trust(repository)
    assert is_trusted(store, repository)


def test_the_users_own_table_of_projects_counts_by_real_path(store: TrustStore, repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    assert is_trusted(store, repository, {str(link): {"trust_level": "trusted"}})
    assert not is_trusted(store, repository, {str(repository): {"trust_level": "untrusted"}})
    assert not is_trusted(
        store, repository, {"repository": {"trust_level": "trusted"}, str(repository / "x"): {"trust_level": "trusted"}}
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"trusted": []}', "nonsense"])
def test_a_file_that_is_not_understood_is_named(store: TrustStore, repository: Path, content: str) -> None:
    store.file.parent.mkdir(parents=True)
    store.file.write_text(content)
    store.file.chmod(0o600)
    with pytest.raises(ConfigError, match=r"trust\.json is not understood"):
        store.standing(repository)


def test_a_file_that_others_can_write_is_not_believed(store: TrustStore, repository: Path) -> None:
    store.trust(repository)
    store.file.chmod(0o666)
    with pytest.raises(ConfigError, match="could have been written by others"):
        store.standing(repository)


def test_only_a_folder_can_be_trusted(store: TrustStore, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is not a folder"):
        store.trust(tmp_path / "missing")


def test_untrusted_in_the_users_own_table_wins(store: TrustStore, repository: Path, tmp_path: Path) -> None:
    store.trust(repository)
    assert store.standing(repository, {str(repository): {"trust_level": "untrusted"}}) == "unknown"
    link = tmp_path / "link"
    link.symlink_to(repository)
    both = {str(link): {"trust_level": "trusted"}, str(repository): {"trust_level": "untrusted"}}
    assert store.standing(repository, both) == "unknown"


def test_an_env_file_has_no_part_in_it(store: TrustStore, repository: Path) -> None:
    store.trust(repository)
    (repository / ".env").write_text("A=changed\n")
    assert store.standing(repository) == "trusted"


def test_the_bytes_that_were_judged_are_handed_on_and_links_have_none(store: TrustStore, repository: Path) -> None:
    (repository / ".codex" / "linked.toml").symlink_to("config.toml")
    os.mkfifo(repository / ".codex" / "pipe")
    store.trust(repository)
    files = store.judge(repository).files
    assert files is not None
    assert files.contents == {".codex/config.toml": b"model = 'x'\n", ".codex/notes": b"A=b\n"}


def test_a_folder_that_is_replaced_by_one_with_other_files_is_not_trusted(store: TrustStore, repository: Path) -> None:
    store.trust(repository)
    repository.rename(repository.with_name("moved"))
    (repository / ".codex").mkdir(parents=True)
    (repository / ".codex" / "config.toml").write_text("model = 'other'\n")
    assert store.standing(repository) == "changed"
    assert store.standing(repository.with_name("moved")) == "unknown"


def test_a_tree_too_deep_or_too_large_to_check_is_not_trusted(store: TrustStore, repository: Path) -> None:
    (repository / ".codex" / "/".join(["d"] * 40)).mkdir(parents=True)
    with pytest.raises(ConfigError, match="too much to check"):
        store.trust(repository)


def test_a_folder_in_the_place_of_a_projects_file_is_none(repository: Path, tmp_path: Path) -> None:
    """While a command runs, empty folders stand where protected names are missing: every new session would be configured anew."""
    (repository / ".mcp.json").mkdir()
    assert project_files(repository, tmp_path / "home") == [(str(repository), ".codex/config.toml")]
    (repository / ".mcp.json").rmdir()
    (repository / ".mcp.json").symlink_to("nowhere")
    assert (str(repository), ".mcp.json") in project_files(repository, tmp_path / "home")
