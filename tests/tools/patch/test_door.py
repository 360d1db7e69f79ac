"""What a patch cannot get past: links, things that are no files, and changes made meanwhile."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from understudy.errors import PatchError
from understudy.tools.patch.plan import PatchPlan, apply_plan, plan_patch

from .tree import patch_text, tree_of, write_files

OPERATIONS = {
    "add": ("*** Add File: {0}", "+pwned"),
    "update": ("*** Update File: {0}", "@@", "-secret", "+pwned"),
    "delete": ("*** Delete File: {0}",),
    "move from": ("*** Update File: {0}", "*** Move to: moved", "@@", "-secret", "+pwned"),
    "move to": ("*** Update File: plain", "*** Move to: {0}", "@@", "-plain", "+pwned"),
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A workspace, and a directory beside it that no patch in these tests may change."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    write_files(tmp_path, {"work/plain": "plain\n", "outside/target": "secret\n", "outside/sub/target": "secret\n"})
    return work, outside


def plan(work: Path, operation: str, path: str) -> PatchPlan:
    lines = [line.format(path) for line in OPERATIONS[operation]]
    return plan_patch(patch_text("*** Add File: first", "+x", *lines), str(work))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("name", "target", "path"),
    [
        pytest.param("link", "../outside/target", "link", id="the file itself"),
        pytest.param("link", "{outside}/target", "link", id="the file itself, absolute"),
        pytest.param("link", "plain", "link", id="the file itself, to a file inside"),
        pytest.param("link", "../outside/none", "link", id="dangling"),
        pytest.param("link", "link", "link", id="a loop"),
        pytest.param("link", "../outside", "link/target", id="a directory on the way"),
        pytest.param("link", "../outside", "link/sub/target", id="a directory further up"),
        pytest.param("link", "../outside/none", "link/target", id="a dangling directory on the way"),
        pytest.param("link", "/proc/self/root/{outside}", "link/target", id="through the process file system"),
    ],
)
def test_no_operation_goes_through_a_link(places: tuple[Path, Path], operation: str, name: str, target: str, path: str) -> None:
    work, outside = places
    (work / name).symlink_to(target.format(outside=outside))
    before = tree_of(work), tree_of(outside)
    with pytest.raises(PatchError, match="symbolic link"):
        apply_plan(plan(work, operation, path))
    assert (tree_of(work), tree_of(outside)) == before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("swapped", ["file", "directory"])
def test_a_link_put_there_after_the_check_is_noticed(places: tuple[Path, Path], operation: str, swapped: str) -> None:
    work, outside = places
    write_files(work, {"dir/target": "secret\n"})
    planned = plan(work, operation, "dir/target")
    if swapped == "file":
        (work / "dir/target").unlink()
        (work / "dir/target").symlink_to(outside / "target")
    else:
        (work / "dir").rename(work / "was")
        (work / "dir").symlink_to(outside)
    before = tree_of(work), tree_of(outside)
    with pytest.raises(PatchError, match="symbolic link"):
        apply_plan(planned)
    assert (tree_of(work), tree_of(outside)) == before


@pytest.fixture
def odd_files(places: tuple[Path, Path]) -> Iterator[Path]:
    work, _ = places
    os.mkfifo(work / "fifo")
    (work / "dir").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(work, os.O_RDONLY)
    try:
        listener.bind(f"/proc/self/fd/{here}/socket")  # the path of a socket is short
        yield work
    finally:
        os.close(here)
        listener.close()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("path", ["fifo", "socket", "/dev/null", "/dev/tty"])
def test_only_regular_files_are_touched(odd_files: Path, operation: str, path: str) -> None:
    before = tree_of(odd_files)
    with pytest.raises(PatchError, match=r"is not a regular file|No such file|symbolic link"):
        apply_plan(plan(odd_files, operation, path))
    assert tree_of(odd_files) == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_directory_is_no_file(odd_files: Path, operation: str) -> None:
    before = tree_of(odd_files)
    with pytest.raises(PatchError, match="Failed to"):
        apply_plan(plan(odd_files, operation, "dir"))
    assert tree_of(odd_files) == before


@pytest.mark.parametrize("operation", ["add", "update", "delete", "move from", "move to"])
def test_a_hard_link_to_a_file_outside_leaves_that_file_alone(places: tuple[Path, Path], operation: str) -> None:
    work, outside = places
    os.link(outside / "target", work / "hard")
    before = tree_of(outside)
    apply_plan(plan(work, operation, "hard"))
    assert tree_of(outside) == before


@pytest.mark.parametrize("path", ["../work/new", "{work}/new", "x/../new", "./new", ".//new"])
def test_every_spelling_of_a_path_inside_works(places: tuple[Path, Path], path: str) -> None:
    work, _ = places
    planned = plan_patch(patch_text(f"*** Add File: {path.format(work=work)}", "+x"), str(work))
    apply_plan(planned)
    assert planned.targets == (f"{work}/new",)
    assert (work / "new").read_text() == "x\n"


@pytest.mark.parametrize("path", ["../../{top}/outside/new", "{outside}/new", "../outside/new"])
def test_a_path_that_leads_out_is_planned_under_its_true_place(places: tuple[Path, Path], path: str) -> None:
    work, outside = places
    planned = plan_patch(patch_text(f"*** Add File: {path.format(outside=outside, top=work.parent.name)}", "+x"), str(work))
    assert planned.targets == (f"{outside}/new",)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("add", "Failed to write file f: it has changed since the patch was checked"),
        ("update", "Failed to write file f: it has changed since the patch was checked"),
        ("delete", "Failed to delete file f: it has changed since the patch was checked"),
        ("move from", "Failed to remove original f: it has changed since the patch was checked"),
        ("move to", "Failed to write file f: it has changed since the patch was checked"),
    ],
)
def test_an_edit_by_someone_else_since_the_check_is_noticed(places: tuple[Path, Path], operation: str, reason: str) -> None:
    work, _ = places
    write_files(work, {"f": "secret\n"})
    planned = plan(work, operation, "f")
    write_files(work, {"f": "secreT\n"})
    before = tree_of(work)
    with pytest.raises(PatchError) as caught:
        apply_plan(planned)
    assert str(caught.value) == reason
    assert tree_of(work) == before


@pytest.mark.parametrize("operation", ["add", "move to"])
def test_a_file_that_appeared_since_the_check_is_not_overwritten(places: tuple[Path, Path], operation: str) -> None:
    work, _ = places
    planned = plan(work, operation, "f")
    write_files(work, {"f": "mine\n"})
    before = tree_of(work)
    with pytest.raises(PatchError, match="it has changed since"):
        apply_plan(planned)
    assert tree_of(work) == before


@pytest.mark.parametrize("operation", ["update", "delete", "move from"])
def test_a_file_that_vanished_since_the_check_is_noticed(places: tuple[Path, Path], operation: str) -> None:
    work, _ = places
    write_files(work, {"f": "secret\n"})
    planned = plan(work, operation, "f")
    (work / "f").unlink()
    before = tree_of(work)
    with pytest.raises(PatchError, match="it has changed since"):
        apply_plan(planned)
    assert tree_of(work) == before


def test_a_file_that_was_only_touched_is_still_the_same(places: tuple[Path, Path]) -> None:
    work, _ = places
    write_files(work, {"f": "secret\n"})
    planned = plan(work, "update", "f")
    os.utime(work / "f", (1, 1))
    apply_plan(planned)
    assert (work / "f").read_text() == "pwned\n"


class _Swapper(threading.Thread):
    """Exchanges a name, as fast as it can, between what belongs there and a link to the outside."""

    def __init__(self, name: Path, aside: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self._place, self._aside, self._target = name, aside, target
        self._ending = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        while not self._ending.is_set():
            with suppress(OSError):  # the patches move things too
                os.rename(self._place, self._aside)
            with suppress(OSError):
                os.symlink(self._target, self._place)
                self.swaps += 1
            if self._place.is_symlink():
                os.unlink(self._place)
            with suppress(OSError):
                os.rename(self._aside, self._place)
            if self._aside.is_dir():
                shutil.rmtree(self._aside, ignore_errors=True)

    def end(self) -> None:
        self._ending.set()
        self.join(5)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("swapped", ["dir", "dir/target"])
def test_links_swapped_in_while_patches_run_never_lead_out(places: tuple[Path, Path], operation: str, swapped: str) -> None:
    work, outside = places
    write_files(work, {"dir/target": "secret\n"})
    before = tree_of(outside)
    swapper = _Swapper(work / swapped, work / "aside", outside if swapped == "dir" else outside / "target")
    swapper.start()
    try:
        for _ in range(150):
            try:
                apply_plan(plan_patch(patch_text(*(line.format("dir/target") for line in OPERATIONS[operation])), str(work)))
            except PatchError:
                pass
            else:
                _restore(work)
    finally:
        swapper.end()
    assert swapper.swaps > 0
    assert tree_of(outside) == before


def _restore(work: Path) -> None:
    """Best effort, against the swapper: the next round wants something to work on."""
    try:
        apply_plan(plan_patch(patch_text("*** Add File: dir/target", "+secret"), str(work)))
        apply_plan(plan_patch(patch_text("*** Add File: plain", "+plain"), str(work)))
    except PatchError:
        pass
