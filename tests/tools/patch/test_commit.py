"""All files or none, and nothing about a file changes but its content."""

import errno
import os
import resource
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import PatchError
from understudy.tools.patch.plan import PatchPlan, apply_plan, plan_patch

from .tree import contents, patch_text, tree_of, write_files

PATCH = patch_text(
    *("*** Update File: update.sh", "@@", "-one", "+ONE"),
    *("*** Add File: deep/new/added", "+new"),
    *("*** Add File: over", "+replaced"),
    *("*** Update File: move", "*** Move to: other/place/moved", "@@", "-two", "+TWO"),
    *("*** Update File: move2", "*** Move to: taken", "@@", "-three", "+THREE"),
    "*** Delete File: gone",
)
BEFORE = {
    "update.sh": "one\n",
    "over": "old\n",
    "move": "two\n",
    "move2": "three\n",
    "taken": "was\n",
    "gone": "bye\n",
    "other/x": "x\n",
}
AFTER = {
    "update.sh": "ONE\n",
    "deep/new/added": "new\n",
    "over": "replaced\n",
    "other/place/moved": "TWO\n",
    "taken": "THREE\n",
    "other/x": "x\n",
}


@pytest.fixture
def planned(tmp_path: Path) -> PatchPlan:
    write_files(tmp_path, BEFORE)
    (tmp_path / "update.sh").chmod(0o755)
    return plan_patch(PATCH, str(tmp_path))


def test_everything_lands_and_nothing_remains(tmp_path: Path, planned: PatchPlan) -> None:
    apply_plan(planned)
    assert contents(tmp_path) == AFTER


CALLS = ["open", "mkdir", "write", "fdatasync", "fchmod", "link", "rename", "unlink", "stat"]


@contextmanager
def _failing(name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], bool]]:
    """The operating system refuses the call number `at` of one kind, once."""
    real = getattr(os, name)
    count = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, call)
        yield lambda: count >= at


@pytest.mark.parametrize("name", CALLS)
def test_whatever_call_fails_the_tree_is_whole(
    tmp_path: Path, planned: PatchPlan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call to the system in turn is made to fail: afterwards the tree is the old one, or (too late to matter) the new one."""
    before = tree_of(tmp_path)
    refused = 0
    for at in range(1, 200):
        with _failing(name, at, monkeypatch) as reached:
            try:
                apply_plan(planned)
            except (PatchError, OSError) as error:
                failure = str(error)
            else:
                failure = None
        if not reached():
            break
        if failure:
            assert tree_of(tmp_path) == before, f"{name} number {at}: {failure}"
            assert "\n" not in failure
            refused += 1
        else:
            leftovers = {path for path in contents(tmp_path) if ".understudy-" in path}
            assert {path: text for path, text in contents(tmp_path).items() if path not in leftovers} == AFTER
            _reset(tmp_path)
    else:
        pytest.fail("the call never stopped being reached")
    assert refused


def _reset(root: Path) -> None:
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    write_files(root, BEFORE)
    (root / "update.sh").chmod(0o755)


def test_what_cannot_be_put_back_is_named(tmp_path: Path, planned: PatchPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        patch.setattr(os, "rmdir", refuse)
        with pytest.raises(PatchError, match=rf"Failed to write file .*this could not be undone: .*{tmp_path}/deep"):
            apply_plan(planned)


def test_a_full_disk_leaves_everything(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n", "b": "2\n"})
    before = tree_of(tmp_path)
    large = [f"+{'x' * 1000}"] * 100
    plan = plan_patch(patch_text("*** Update File: a", "@@", "-1", "+one", "*** Add File: n/large", *large), str(tmp_path))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    try:
        with pytest.raises(PatchError, match=r"Failed to write file n/large: File too large \(os error 27\)"):
            apply_plan(plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize("without", ["link", "listxattr"])
def test_file_systems_that_lack_something_work_too(
    tmp_path: Path, planned: PatchPlan, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    with monkeypatch.context() as patch:
        patch.setattr(os, without, unsupported)
        apply_plan(planned)
    assert contents(tmp_path) == AFTER


def test_without_hard_links_a_failure_still_puts_everything_back(
    tmp_path: Path, planned: PatchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_of(tmp_path)

    def unsupported(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as outer:
        outer.setattr(os, "link", unsupported)
        for at in range(1, 20):
            with _failing("rename", at, monkeypatch) as reached:
                try:
                    apply_plan(planned)
                except PatchError:
                    assert tree_of(tmp_path) == before
                else:
                    assert not reached()
                    break


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o444, 0o4755, 0o2755, 0o6711, 0o640])
@pytest.mark.parametrize("operation", ["update", "add", "move"])
def test_permissions_stay_as_they_were(tmp_path: Path, mode: int, operation: str) -> None:
    write_files(tmp_path, {"f": "1\n"})
    (tmp_path / "f").chmod(mode)
    lines = {
        "update": ("*** Update File: f", "@@", "-1", "+2"),
        "add": ("*** Add File: f", "+2"),
        "move": ("*** Update File: f", "*** Move to: g", "@@", "-1", "+2"),
    }[operation]
    apply_plan(plan_patch(patch_text(*lines), str(tmp_path)))
    result = tmp_path / ("g" if operation == "move" else "f")
    assert result.read_text() == "2\n"
    assert stat.S_IMODE(result.stat().st_mode) == mode


def test_new_files_follow_the_umask_and_are_never_executable(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        apply_plan(plan_patch(patch_text("*** Add File: d/new.sh", "+#!/bin/sh"), str(tmp_path)))
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "d/new.sh").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750


def test_attributes_of_the_user_stay(tmp_path: Path) -> None:
    write_files(tmp_path, {"f": "1\n"})
    try:
        os.setxattr(tmp_path / "f", "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no user attributes")
    apply_plan(plan_patch(patch_text("*** Update File: f", "@@", "-1", "+2"), str(tmp_path)))
    assert os.getxattr(tmp_path / "f", "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away: run the tests as root for it")
def test_the_owner_stays(tmp_path: Path) -> None:
    write_files(tmp_path, {"f": "1\n"})
    os.chown(tmp_path / "f", 12345, 23456)
    (tmp_path / "f").chmod(0o6755)
    apply_plan(plan_patch(patch_text("*** Update File: f", "@@", "-1", "+2"), str(tmp_path)))
    info = (tmp_path / "f").stat()
    assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (12345, 23456, 0o6755)


def test_a_patch_over_more_directories_than_are_held_open(tmp_path: Path) -> None:
    lines = [line for number in range(300) for line in (f"*** Add File: d{number}/e/f", f"+{number}")]
    apply_plan(plan_patch(patch_text(*lines), str(tmp_path)))
    assert contents(tmp_path) == {f"d{number}/e/f": f"{number}\n" for number in range(300)}


def test_no_descriptor_is_left_open(tmp_path: Path, planned: PatchPlan) -> None:
    before = len(os.listdir("/proc/self/fd"))
    apply_plan(planned)
    with pytest.raises(PatchError):
        apply_plan(planned)
    with pytest.raises(PatchError):
        plan_patch(PATCH, str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) <= before
