"""Someone else edits the file at the worst moment, or the file is not ours to change."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import PatchError
from understudy.tools.patch.plan import apply_plan, plan_patch

from .tree import contents, patch_text, tree_of, write_files

UPDATE = ("*** Update File: f", "@@", "-one", "+ONE")


def at_call(monkeypatch: pytest.MonkeyPatch, name: str, deed: Callable[[], None]) -> None:
    """Do something right before the first call of one kind to the operating system."""
    real = getattr(os, name)
    waiting = [deed]

    def call(*arguments: Any, **options: Any) -> Any:
        while waiting:
            waiting.pop()()
        return real(*arguments, **options)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("moment", ["fdatasync", "link"])
@pytest.mark.parametrize("how", ["in place", "by renaming"])
def test_an_edit_between_the_check_and_the_exchange_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, how: str
) -> None:
    write_files(tmp_path, {"f": "one\n", "g": "g\n"})
    plan = plan_patch(patch_text(*UPDATE, "*** Delete File: g"), str(tmp_path))

    def edit() -> None:
        if how == "in place":
            (tmp_path / "f").write_text("mine, longer\n")
        else:
            (tmp_path / "other").write_text("mine, longer\n")
            (tmp_path / "other").rename(tmp_path / "f")

    at_call(monkeypatch, moment, edit)
    with pytest.raises(PatchError, match="Failed to write file f: it has changed since the patch was checked"):
        apply_plan(plan)
    assert contents(tmp_path) == {"f": "mine, longer\n", "g": "g\n"}


def test_an_edit_by_one_who_had_the_file_open_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"f": "one\n", "g": "g\n"})
    plan = plan_patch(patch_text(*UPDATE, "*** Delete File: g"), str(tmp_path))
    with (tmp_path / "f").open("a") as editor:

        def edit() -> None:
            editor.write("mine\n")
            editor.flush()

        at_call(monkeypatch, "rename", edit)
        with pytest.raises(PatchError, match="Failed to write file f: it has changed since the patch was checked"):
            apply_plan(plan)
    assert contents(tmp_path) == {"f": "one\nmine\n", "g": "g\n"}


def test_a_file_that_appears_at_the_last_moment_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_patch(patch_text("*** Add File: new", "+ours"), str(tmp_path))
    at_call(monkeypatch, "link", lambda: write_files(tmp_path, {"new": "mine\n"}))
    with pytest.raises(PatchError, match="Failed to write file new: it has changed"):
        apply_plan(plan)
    assert contents(tmp_path) == {"new": "mine\n"}


def test_a_file_swapped_before_its_deletion_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path, {"g": "g\n"})
    plan = plan_patch(patch_text("*** Delete File: g"), str(tmp_path))
    at_call(monkeypatch, "rename", lambda: write_files(tmp_path, {"g": "mine, longer\n"}))
    with pytest.raises(PatchError, match="Failed to delete file g: it has changed"):
        apply_plan(plan)
    assert contents(tmp_path) == {"g": "mine, longer\n"}


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[Path]:
    """A directory of one's own, without the powers of root."""
    place = tmp_path / "own"
    place.mkdir()
    if os.geteuid() != 0:
        yield place
        return
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    os.chown(place, 65534, 65534)
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield place
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_directory_that_may_not_be_written_is_left_alone(as_nobody: Path) -> None:
    write_files(as_nobody, {"a": "1\n", "locked/f": "one\n"})
    (as_nobody / "locked").chmod(0o555)
    before = tree_of(as_nobody)
    for lines in (
        ("*** Add File: locked/new", "+x"),
        ("*** Add File: locked/deep/new", "+x"),
        ("*** Delete File: locked/f",),
        ("*** Update File: locked/f", "*** Move to: b", "@@", "-one", "+ONE"),
    ):
        plan = plan_patch(patch_text("*** Update File: a", "@@", "-1", "+2", "*** Add File: d/e", "+x", *lines), str(as_nobody))
        with pytest.raises(PatchError, match=r"Failed to .* locked/.*: Permission denied \(os error 13\)"):
            apply_plan(plan)
        assert tree_of(as_nobody) == before


def test_a_file_that_may_not_be_read_may_still_be_deleted(as_nobody: Path) -> None:
    write_files(as_nobody, {"f": "one\n"})
    (as_nobody / "f").chmod(0)
    with pytest.raises(PatchError, match=r"Failed to read file to update .*/f: Permission denied \(os error 13\)"):
        plan_patch(patch_text(*UPDATE), str(as_nobody))
    with pytest.raises(PatchError, match=r"Failed to read file to replace .*/f: Permission denied \(os error 13\)"):
        plan_patch(patch_text("*** Add File: f", "+x"), str(as_nobody))
    apply_plan(plan_patch(patch_text("*** Delete File: f"), str(as_nobody)))
    assert tree_of(as_nobody) == {}


def test_a_directory_that_may_be_entered_but_not_listed_is_passed_through(as_nobody: Path) -> None:
    write_files(as_nobody, {"dark/inner/f": "one\n"})
    (as_nobody / "dark").chmod(0o111)
    try:
        apply_plan(plan_patch(patch_text("*** Update File: dark/inner/f", "@@", "-one", "+ONE"), str(as_nobody)))
        assert (as_nobody / "dark/inner/f").read_text() == "ONE\n"
    finally:
        (as_nobody / "dark").chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away: run the tests as root for it")
def test_another_users_file_keeps_its_mode_but_never_its_special_bits_under_our_name(as_nobody: Path) -> None:
    write_files(as_nobody, {"f": "one\n"})
    os.seteuid(0)
    os.chown(as_nobody / "f", 12345, 12345)
    (as_nobody / "f").chmod(0o4755)
    os.seteuid(65534)
    with pytest.raises(PatchError, match=r"Failed to write file f: Permission denied \(os error 13\)"):
        apply_plan(plan_patch(patch_text(*UPDATE), str(as_nobody)))
    assert tree_of(as_nobody) == {"f": ("file", 0o4755, b"one\n")}
    os.seteuid(0)
    (as_nobody / "f").chmod(0o666)
    os.seteuid(65534)
    apply_plan(plan_patch(patch_text(*UPDATE), str(as_nobody)))
    assert tree_of(as_nobody) == {"f": ("file", 0o666, b"ONE\n")}
