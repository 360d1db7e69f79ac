"""Walking files for a model: order, what is left out, and what is never entered."""

import os
from pathlib import Path

import pytest

from understudy.places.masks import Masks
from understudy.places.reading import KERNEL, NotForModels, ReadLimits, Unreadable
from understudy.places.tree import MOST_DEPTH, Tree


def limits(*masked: Path) -> ReadLimits:
    return ReadLimits(Masks(str(path) for path in masked), Unreadable(KERNEL))


def walked(folder: Path, *masked: Path, hidden: bool = False, depth: int = MOST_DEPTH) -> list[str]:
    tree = Tree(limits(*masked), with_hidden=hidden, depth=depth)
    return [found.path + "/" * found.is_folder for found in tree.walk(str(folder))]


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (folder / path).mkdir(exist_ok=True)
        else:
            (folder / path).write_text("x\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_files_come_in_the_order_of_their_paths(project: Path) -> None:
    make(project, "b/z", "b/a/q", "a.txt", "B", "b.c", "é")
    assert walked(project) == ["B", "a.txt", "b/", "b/a/", "b/a/q", "b/z", "b.c", "é"]
    assert walked(project, depth=1) == ["B", "a.txt", "b/", "b.c", "é"]


def test_hidden_files_are_left_out_unless_asked_for_and_git_always(project: Path) -> None:
    make(project, ".git/HEAD", ".github/x.yml", ".env", "a")
    assert walked(project) == ["a"]
    assert walked(project, hidden=True) == [".env", ".github/", ".github/x.yml", "a"]


def test_what_gitignore_names_is_left_out_inside_a_repository(project: Path) -> None:
    make(project, "out/a", "keep/out", "x.log", "deep/x.log", "deep/important.log", "deep/er/y.tmp", "z.tmp")
    (project / ".gitignore").write_text("/out/\n*.log\n")
    assert "x.log" in walked(project)  # as ripgrep has it: without a repository the file means nothing
    (project / ".git" / "info").mkdir(parents=True)
    (project / ".git" / "info" / "exclude").write_text("z.tmp\n")
    (project / "deep" / ".gitignore").write_text("!important.log\n")
    (project / "deep" / ".ignore").write_text("er\n")
    assert walked(project) == ["deep/", "deep/important.log", "keep/", "keep/out"]
    assert walked(project / "deep") == ["important.log"]
    assert walked(project / "out") == ["a"]  # who names a folder sees it


def test_a_repository_inside_another_has_rules_of_its_own(project: Path) -> None:
    make(project, ".git/HEAD", "inner/.git/HEAD", "inner/x.log", "x.log")
    (project / ".gitignore").write_text("*.log\n")
    assert walked(project) == ["inner/", "inner/x.log"]


def test_no_link_is_followed_and_nothing_masked_is_named(project: Path, tmp_path: Path) -> None:
    make(project, "secret/key", "a", "also")
    outside = tmp_path / "outside"
    make(outside, "x")
    (project / "link").symlink_to(outside)
    (project / "loop").symlink_to(".")
    assert walked(project, project / "secret", project / "also") == ["a", "link", "loop"]
    with pytest.raises(NotForModels):
        walked(project / "secret", project / "secret")


def test_a_second_name_of_a_masked_file_is_not_opened(project: Path) -> None:
    make(project, "secret/key", "plain")
    os.link(project / "secret" / "key", project / "copy")
    os.link(project / "plain", project / "twin")
    os.mkfifo(project / "pipe")
    tree = Tree(limits(project / "secret"))
    opened: list[str] = []
    for found in tree.walk(str(project)):
        descriptor = tree.open_file(found)
        if descriptor >= 0:
            assert tree.may_show(descriptor)
            opened.append(found.path)
            os.close(descriptor)
    assert opened == ["plain", "twin"]


def test_the_kernels_own_files_are_no_files() -> None:
    for path in ("/proc/self", "/proc", "/dev", "/sys/kernel"):
        if os.path.isdir(path):
            with pytest.raises(NotForModels):
                walked(Path(path))


def test_a_tree_deeper_than_any_path_is_walked_to_a_bound(project: Path) -> None:
    here = os.open(project, os.O_RDONLY)
    try:
        for _ in range(MOST_DEPTH + 50):
            os.mkdir("d" * 40, dir_fd=here)
            below = os.open("d" * 40, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    assert len(walked(project)) == MOST_DEPTH
    _remove_deep(project)


def _remove_deep(folder: Path) -> None:
    """`shutil.rmtree` and pytest's own clean-up go by paths, which are too long here."""
    name = "d" * 40
    way = [os.open(folder, os.O_RDONLY)]
    while True:
        try:
            way.append(os.open(name, os.O_RDONLY, dir_fd=way[-1]))
        except FileNotFoundError:
            break
    while len(way) > 1:
        os.close(way.pop())
        os.rmdir(name, dir_fd=way[-1])
    os.close(way.pop())


def test_a_pinned_folder_that_was_replaced_is_not_walked(project: Path) -> None:
    make(project, "a")
    status = project.stat()
    pinned = ReadLimits(Masks(()), None, {str(project): (status.st_dev, status.st_ino)})
    assert [found.path for found in Tree(pinned).walk(str(project))] == ["a"]
    project.rename(project.with_name("old"))
    make(project, "b")
    with pytest.raises(NotForModels, match="when this conversation began"):
        list(Tree(pinned).walk(str(project)))
