"""What of a workspace is checked before anything is made."""

import os
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import git, project
from understudy.config.load import load_config
from understudy.config.store import read_workspaces
from understudy.engine.workspaces.cloning import is_allowed
from understudy.engine.workspaces.workspaces import Workspaces
from understudy.errors import BadRequest, ConfigError, NotAllowed, WorkspaceFailed
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Workspace


async def nobody(_: ConversationId) -> object:
    raise AssertionError


def workspaces(home: Path, config: str = "") -> Workspaces:
    home.mkdir()
    (home / "config.toml").write_text(config)
    return Workspaces(home, os.environ, "here", nobody)  # pyright: ignore[reportArgumentType]


def wanted(url: str, cwd: str | None = None) -> Overrides:
    return Overrides(cwd=cwd, workspace=Workspace("git", url=url))


def test_a_caller_with_limits_clones_only_what_is_allowed(tmp_path: Path) -> None:
    closed = workspaces(tmp_path / "closed")
    closed.check(wanted("https://a.internal/x"), limited=False, kept=True)
    with pytest.raises(NotAllowed, match="workspace_urls"):
        closed.check(wanted("https://a.internal/x"), limited=True, kept=True)
    some = workspaces(tmp_path / "some", '[understudy.cluster]\nworkspace_urls = ["https://a.internal/team"]\n')
    some.check(wanted("https://a.internal/team/x"), limited=True, kept=True)
    for limited in (True, False):
        with pytest.raises(NotAllowed):
            some.check(wanted("https://a.internal/teams/x"), limited=limited, kept=True)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://h/team", True),
        ("https://h/team/x.git", True),
        ("https://h/team.git", True),
        ("https://h/teams", False),
        ("https://h/team/../other", False),
        ("https://h/team/%2e%2e/other", False),
        ("https://h.evil/team", False),
        ("git@h:team/x", True),
        ("git@h:other", False),
        ("/srv/git/x", True),
        ("/srv/gitx", False),
    ],
)
def test_an_address_is_allowed_by_how_it_begins(url: str, allowed: bool) -> None:
    assert is_allowed(url, ("https://h/team", "git@h:team/", "/srv/git")) is allowed


def test_a_conversation_that_is_not_kept_and_a_folder_outside_the_clone_are_refused(tmp_path: Path) -> None:
    some = workspaces(tmp_path / "home")
    with pytest.raises(BadRequest, match="not kept"):
        some.check(wanted("https://h/x"), limited=False, kept=False)
    for cwd in ("/etc", "../x", "a/../../x"):
        with pytest.raises(BadRequest, match="a folder in it"):
            some.check(wanted("https://h/x", cwd), limited=False, kept=True)


async def test_a_link_of_the_repository_leads_nobody_out_of_the_clone(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"real/a": "a\n"})
    (source / "out").symlink_to(tmp_path)
    (source / "in").symlink_to("real")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "links")
    some = workspaces(tmp_path / "home")
    with pytest.raises(WorkspaceFailed, match="'out' of the repository is a link that leads out of it"):
        await some.begin(ConversationId("c"), wanted(str(source), "out"))
    assert not os.listdir(tmp_path / "home" / "workspaces")
    made = await some.begin(ConversationId("c"), wanted(str(source), "in"))
    assert made.cwd == str(tmp_path / "home" / "workspaces" / "c" / "in")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('snapshots = "https://me:s3cret@h/x"', "it holds a password"),
        ('snapshots = "https://s3cret@h/x"', "it holds a password"),
        ('workspaces = "understudy/ours"', "no command can see what lies there"),
        ('snapshot_also = ["../x"]', "files and folders of a workspace"),
        ('snapshot_also = ["/etc/shadow"]', "files and folders of a workspace"),
    ],
)
def test_a_setting_that_would_do_harm_is_refused_by_name(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "config.toml").write_text(f"[understudy.cluster]\n{line}\n")
    with pytest.raises(ConfigError, match=why) as caught:
        read_workspaces(tmp_path, {})
    assert "s3cret" not in str(caught.value)


def test_a_path_for_snapshots_starts_at_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[understudy.cluster]\nsnapshots = "kept.git"\n')
    assert read_workspaces(tmp_path, {}).snapshots == str(tmp_path / "kept.git")
    (tmp_path / "config.toml").write_text('[understudy.cluster]\nsnapshots = "git@host:kept.git"\n')
    assert read_workspaces(tmp_path, {}).snapshots == "git@host:kept.git"


@pytest.mark.parametrize(
    ("written", "is_masked"), [("kept.git", True), ("ssh://git@host/kept.git", False), ("git@host:kept.git", False)]
)
def test_no_command_sees_what_is_kept_of_other_conversations(tmp_path: Path, written: str, is_masked: bool) -> None:
    (tmp_path / "config.toml").write_text(f'[understudy.cluster]\nsnapshots = "{written}"\n')
    config = load_config(tmp_path, Overrides(model="m"), server_cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert (tmp_path / "kept.git" in config.sandbox.mask) is is_masked
