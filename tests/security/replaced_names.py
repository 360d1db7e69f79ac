"""Ways to replace names that need more than one path: what they belong to, what lies on the way, or another name that is kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.security.replacing import Way, exchange, fresh_file, fresh_folder, git, is_folder, remove

_NAMES = ("-c", "user.name=u", "-c", "user.email=u@example.org", "-c", "commit.gpgsign=false")


def is_repository(path: Path) -> bool:
    return path.name == ".git" and (path / "HEAD").exists()


def repository(path: Path) -> None:
    """With two branches, between which a tracked file differs, and a hook."""
    git("init", "-q", "-b", "main", str(path.parent))
    (path / "hooks").mkdir(exist_ok=True)
    for name in ("one", "two"):
        (path.parent / "tracked").write_text(name)
        git("-C", str(path.parent), "add", "tracked")
        git("-C", str(path.parent), *_NAMES, "commit", "-qm", name)
    git("-C", str(path.parent), "branch", "other", "HEAD^")


def use_git(path: Path, aside: Path) -> None:
    """All that people do all day, which leaves the folder where it is."""
    if not is_repository(path):
        return
    for words in (("checkout", "-q", "other"), ("checkout", "-q", "main"), ("gc", "-q"), ("init", "-q"), ("stash", "-q")):
        subprocess.run(["git", "-C", str(path.parent), *_NAMES, *words], check=False, capture_output=True)
    (path.parent / "tracked").write_text("three")
    git("-C", str(path.parent), *_NAMES, "commit", "-qam", "three")


def begin_the_repository_anew(path: Path, aside: Path) -> None:
    remove(path)
    git("init", "-q", str(path.parent)) if path.name == ".git" else fresh_file(path)


def move_the_repository_out(path: Path, aside: Path) -> None:
    """As `git init --separate-git-dir` does."""
    if is_repository(path):
        git("init", "-q", "--separate-git-dir", str(aside / "elsewhere"), str(path.parent))
    else:
        path.rename(aside / "elsewhere")
        path.symlink_to(aside / "elsewhere")


def clean_the_folder(path: Path, aside: Path) -> None:
    """As `git clean -fdx` or a build's `make clean`."""
    for each in path.parent.iterdir():
        if not each.name.startswith("beat"):
            remove(each)


def remove_by_an_open_folder(path: Path, aside: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        if is_folder(path):
            remove(path)
        else:
            os.unlink(path.name, dir_fd=folder)
        with open(os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder), "w") as file:
            file.write("FRESH-CONTENT")
    finally:
        os.close(folder)


def rename_the_folder_above(path: Path, aside: Path) -> None:
    path.parent.rename(aside / "above")
    path.parent.mkdir()
    fresh_file(path)


def link_the_folder_above(path: Path, aside: Path) -> None:
    path.parent.rename(aside / "above")
    (aside / "other").mkdir()
    fresh_file(aside / "other" / path.name)
    path.parent.symlink_to(aside / "other")


def mount_over(path: Path, aside: Path) -> None:
    """Another file system of the machine, which a command does not see."""
    if path.is_symlink() or not path.exists():
        return
    new = fresh_folder(aside / "mounted") if path.is_dir() else fresh_file(aside / "mounted")
    subprocess.run(["mount", "--bind", str(new), str(path)], check=True)


def mount_over_and_away(path: Path, aside: Path) -> None:
    mount_over(path, aside)
    subprocess.run(["umount", str(path)], check=False, capture_output=True)


def mount_and_replace(path: Path, aside: Path) -> None:
    """By another way to the same folder, on which the name is no mount."""
    (aside / "view").mkdir()
    subprocess.run(["mount", "--bind", str(path.parent), str(aside / "view")], check=True)
    try:
        new = fresh_file(aside / "new")
        seen = aside / "view" / path.name
        remove(seen)
        with seen.open("w") as file:
            file.write(new.read_text())
    finally:
        subprocess.run(["umount", str(aside / "view")], check=True)


MORE_REPLACING: tuple[Way, ...] = (
    *(begin_the_repository_anew, move_the_repository_out, clean_the_folder, remove_by_an_open_folder),
    *((mount_and_replace,) if os.geteuid() == 0 else ()),
)
ABOVE: tuple[Way, ...] = (rename_the_folder_above, link_the_folder_above)  # only where that is not the root itself
MORE_CHANGING: tuple[Way, ...] = (use_git, *((mount_over, mount_over_and_away) if os.geteuid() == 0 else ()))


# -- with another name that is kept too


def exchange_the_two(path: Path, other: Path) -> None:
    exchange(path, other)


def move_the_other_there(path: Path, other: Path) -> None:
    remove(path)
    other.rename(path)


def rename_the_other_over(path: Path, other: Path) -> None:
    if is_folder(path) != is_folder(other) or (is_folder(path) and any(path.iterdir())):
        remove(path)
    other.replace(path)


def move_it_to_the_other(path: Path, other: Path) -> None:
    remove(other)
    path.rename(other)


SWAPPING: tuple[Way, ...] = (exchange_the_two, move_the_other_there, rename_the_other_over, move_it_to_the_other)
