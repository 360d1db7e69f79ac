"""The sandbox's placeholders mean nothing to anybody else: with one named `.git`, a folder is no repository."""

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.tools.patch.tree import patch_text, write_files
from understudy.config.project import project_folders
from understudy.places.masks import Masks
from understudy.places.placeholders import begins_repository
from understudy.places.reading import ReadLimits
from understudy.places.tree import Tree
from understudy.sandbox.cell.placeholder import hold
from understudy.tools.patch.plan import apply_plan, plan_patch
from understudy.tools.patch.turn_diff import TurnDiff

NAMES = (b".git", b".vscode", b".mcp.json")


@pytest.fixture
def placed(tmp_path: Path) -> Generator[Path]:
    """A folder in which a command runs just now, with a project below it."""
    (tmp_path / "inner" / "work").mkdir(parents=True)
    write_files(tmp_path, {".gitignore": "left\n", "left": "", "inner/kept": ""})
    held = [hold(os.fsencode(tmp_path) + b"/" + name) for name in NAMES]
    yield tmp_path
    for descriptor in held:
        assert descriptor is not None
        os.close(descriptor)


def walked(folder: Path) -> list[str]:
    return [found.path for found in Tree(ReadLimits(Masks(()), None, {}), with_hidden=True).walk(str(folder))]


def test_a_placeholder_begins_no_repository(placed: Path) -> None:
    work = str(placed / "inner" / "work")
    assert not begins_repository(str(placed))
    assert project_folders(work) == [work]
    (placed / ".git" / "HEAD").write_text("ref: refs/heads/main\n")  # a real one after all
    assert begins_repository(str(placed))
    assert project_folders(work) == [work, str(placed / "inner"), str(placed)]


def test_a_repository_of_any_kind_is_one_and_an_empty_folder_is_none(tmp_path: Path) -> None:
    kinds: dict[str, Callable[[Path], object]] = {
        "folder": lambda path: (path.mkdir(), (path / "HEAD").touch()),
        "file": Path.touch,
        "link that leads nowhere": lambda path: path.symlink_to("elsewhere"),
        "bare neighbour": lambda path: (
            path.with_name("real").mkdir(),
            (path.with_name("real") / "HEAD").touch(),
            path.symlink_to("real"),
        ),
    }
    for name, make in kinds.items():
        (tmp_path / name).mkdir()
        assert not begins_repository(str(tmp_path / name))
        make(tmp_path / name / ".git")
        assert begins_repository(str(tmp_path / name)), name
    (tmp_path / "stray" / ".git").mkdir(parents=True)
    (tmp_path / "stray" / "file").touch()
    assert not begins_repository(str(tmp_path / "stray"))
    assert not begins_repository(str(tmp_path / "stray" / "file"))


def test_files_are_named_in_a_diff_as_if_no_command_ran(placed: Path) -> None:
    work = placed / "inner" / "work"
    plan = plan_patch(patch_text("*** Add File: new", "+x"), str(work))
    diff = TurnDiff()
    diff.before(plan)
    apply_plan(plan)
    assert diff.current().startswith(f"diff --git a/{work}/new b/{work}/new\n")


def test_the_files_of_a_folder_are_listed_as_if_no_command_ran(placed: Path) -> None:
    assert walked(placed) == [".gitignore", "inner", "inner/kept", "inner/work", "left"]
    assert walked(placed / "inner") == ["kept", "work"]
