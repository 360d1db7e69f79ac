"""Patches taken back: the tree is what it was, byte for byte, and what somebody else changed since stays as they left it."""

import os
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from understudy.errors import PatchError
from understudy.tools.patch.keeping import MAX_KEPT, UNREAD, replaced_pieces, restored
from understudy.tools.patch.plan import Applied, PatchPlan, apply_plan, plan_patch, plan_replacement
from understudy.tools.patch.replacing import ReplaceOperation
from understudy.tools.patch.taking_back import (
    CHANGED_BETWEEN,
    CHANGED_SINCE,
    NOT_KEPT,
    DonePatch,
    Taken,
    plan_taking_back,
    take_back,
)

from .tree import patch_text, tree_of, write_files

NAMES = ("a.txt", "b", "dir/c.py", "dir/deep/d", "é.md", "x/y/z")
CONTENTS = (b"one\ntwo\nthree\n", b"one\r\ntwo\r\n", b"", b"no end", b"a\rb\rc", b"\xff\x00binary\n\xfe", "naïve\n".encode() * 40)


def apply(root: Path, *lines: str) -> DonePatch:
    return done(apply_plan(plan_patch(patch_text(*lines), str(root))))


def done(applied: Applied) -> DonePatch:
    return DonePatch(applied.files, applied.folders)


def undo(*patches: DonePatch, refused: dict[str, str] | None = None) -> Taken:
    return take_back(plan_taking_back(patches, lambda path: (refused or {}).get(os.path.basename(path))))


class Play:
    """Random patches over a random tree, through the ways that a model has to change files."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root = root
        self.random = random
        for name in random.sample(NAMES, random.randint(1, 5)):
            write_files(root, {name: random.choice(CONTENTS)})
            (root / name).chmod(random.choice((0o644, 0o600, 0o755)))

    def patch(self) -> DonePatch | None:
        try:
            return done(apply_plan(self._plan()))
        except PatchError:
            return None  # what cannot be applied changes nothing

    def _plan(self) -> PatchPlan:
        there = [name for name in NAMES if (self.root / name).is_file()]
        if there and self.random.random() < 0.3:
            name = self.random.choice(there)
            text = (self.root / name).read_bytes().decode(errors="replace")
            old = self.random.choice(text.split("\n")) or "one"
            return plan_replacement(ReplaceOperation(name, old, self.random.choice(("", "new", "n\nm\n")), True), str(self.root))
        lines: list[str] = []
        for name in self.random.sample(NAMES, self.random.randint(1, 3)):
            lines += self._operation(name, name in there)
        return plan_patch(patch_text(*lines), str(self.root))

    def _operation(self, name: str, there: bool) -> list[str]:
        kind = self.random.choice(("add", "delete", "update", "move")) if there else "add"
        if kind == "add":
            return [f"*** Add File: {name}", *(f"+line {self.random.randint(1, 9)}" for _ in range(self.random.randint(0, 3)))]
        if kind == "delete":
            return [f"*** Delete File: {name}"]
        first = (self.root / name).read_bytes().decode(errors="replace").splitlines()[:1]
        chunk = ["@@", *(f"-{line}" for line in first), f"+{self.random.choice(('changed', 'one', ''))}"]
        moved = [f"*** Move to: {self.random.choice(NAMES)}"] if kind == "move" else []
        return [f"*** Update File: {name}", *moved, *chunk]


@pytest.mark.slow
@example(2981, 6)  # ones that were moved away and made again, and hold at last what they held at first
@example(42382, 4)
@example(1_088_877_968_580, 4)
@given(st.integers(), st.integers(1, 6))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_turn_of_any_patches_is_taken_back_to_the_byte(seed: int, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Path(folder).resolve(), Random(seed))
        before = tree_of(play.root)
        patches = [patch for _ in range(length) if (patch := play.patch()) is not None]
        taken = undo(*patches)
        assert taken.left == {}
        assert tree_of(play.root) == before
        again = undo(*patches)
        assert (again.taken_back, again.left) == ([], {}), "it is as before already"


@pytest.mark.slow
@example(88982, 3)  # made again with the same content and other permissions, while the place it was moved to was changed
@given(st.integers(), st.integers(1, 5))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_somebody_changed_since_stays_and_is_named(seed: int, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        random = Random(seed)
        play = Play(Path(folder).resolve(), random)
        before = tree_of(play.root)
        patches = [patch for _ in range(length) if (patch := play.patch()) is not None]
        there = [name for name in NAMES if (play.root / name).is_file()]
        mine = random.choice(there) if there else "new by me"
        (play.root / mine).write_bytes(b"changed by somebody else")
        taken = undo(*patches)
        after = tree_of(play.root)
        assert after[mine][2] == b"changed by somebody else"
        touched = {os.path.relpath(file.path, play.root) for patch in patches for file in patch.files}
        named = {os.path.relpath(path, play.root) for path in taken.left}
        assert named <= touched
        assert (mine in named) == (mine in touched)
        for name in touched - named:
            assert after.get(name) == before.get(name)


@given(st.binary(max_size=40_000), st.binary(max_size=40_000))
@example(b"a" * 20_000 + b"\n" + b"b" * 20_000, b"c" + b"a" * 20_000 + b"\n" + b"b" * 20_001)
@example(b"\n".join(b"%d" % number for number in range(9000)), b"\n".join(b"%d" % number for number in range(1, 9001)))
@settings(max_examples=300, deadline=None)
def test_the_pieces_of_a_change_give_back_what_was_there(before: bytes, after: bytes) -> None:
    assert restored(after, replaced_pieces(before, after)) == before


def test_a_small_change_of_a_large_file_keeps_little_of_it(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(60_000)]
    write_files(tmp_path, {"large.txt": "".join(lines)})
    patch = done(apply_plan(plan_replacement(ReplaceOperation("large.txt", "line 77\n", "other\n"), str(tmp_path))))
    [file] = patch.files
    assert sum(len(piece.before) for piece in file.pieces or ()) < 100
    moved = apply(tmp_path, "*** Update File: large.txt", "*** Move to: there.txt", "@@", "-line 5", "+line five")
    assert sum(len(piece.before) for file in moved.files for piece in file.pieces or ()) < 100
    assert undo(patch, moved).left == {}
    assert (tmp_path / "large.txt").read_text() == "".join(lines)
    assert not (tmp_path / "there.txt").exists()


def test_more_than_is_kept_cannot_be_taken_back_and_the_rest_is(tmp_path: Path) -> None:
    write_files(tmp_path, {"large": b"x" * (MAX_KEPT + 1), "small": b"small\n"})
    patch = apply(tmp_path, "*** Delete File: large", "*** Delete File: small")
    taken = undo(patch)
    assert taken.left == {str(tmp_path / "large"): NOT_KEPT}
    assert (tmp_path / "small").read_bytes() == b"small\n"
    assert not (tmp_path / "large").exists()


def test_a_file_that_could_not_be_read_is_not_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.tools.patch.door.MAX_FILE_BYTES", 10)
    write_files(tmp_path, {"large": b"x" * 11})
    patch = apply(tmp_path, "*** Delete File: large")
    assert [file.before for file in patch.files] == [UNREAD]
    assert undo(patch).left == {str(tmp_path / "large"): NOT_KEPT}


def test_a_file_that_something_else_changed_between_two_patches_stays(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "one\n"})
    first = apply(tmp_path, "*** Update File: a", "@@", "-one", "+two")
    (tmp_path / "a").write_text("two\nby a command\n")
    second = apply(tmp_path, "*** Update File: a", "@@", "-two", "+three")
    taken = undo(first, second)
    assert (taken.taken_back, taken.left) == ([], {str(tmp_path / "a"): CHANGED_BETWEEN})
    assert (tmp_path / "a").read_text() == "three\nby a command\n"


def test_a_moved_file_that_was_changed_since_stays_where_it_is(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "one\n", "c": "c\n"})
    patch = apply(tmp_path, "*** Update File: a", "*** Move to: b", "@@", "-one", "+two", "*** Delete File: c")
    (tmp_path / "b").write_text("mine\n")
    taken = undo(patch)
    b = str(tmp_path / "b")
    assert taken.left == {b: CHANGED_SINCE, str(tmp_path / "a"): f"it belongs together with {b}: {CHANGED_SINCE}"}
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]


def test_folders_that_a_patch_made_go_where_they_are_empty(tmp_path: Path) -> None:
    patch = apply(tmp_path, "*** Add File: one/two/a", "+a", "*** Add File: other/b", "+b")
    assert patch.folders == tuple(str(tmp_path / name) for name in ("one", "one/two", "other"))
    (tmp_path / "other" / "mine").write_text("")
    assert undo(patch).left == {}
    assert sorted(os.listdir(tmp_path)) == ["other"]
    assert os.listdir(tmp_path / "other") == ["mine"]


def test_what_is_refused_stays_with_the_reason(tmp_path: Path) -> None:
    patch = apply(tmp_path, "*** Add File: a", "+a", "*** Add File: b", "+b")
    taken = undo(patch, refused={"a": "not this one"})
    assert (taken.taken_back, taken.left) == ([str(tmp_path / "b")], {str(tmp_path / "a"): "not this one"})
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_nothing_is_written_through_a_link_that_was_put_in_the_way(tmp_path: Path, swapped: str) -> None:
    work, away = tmp_path / "work", tmp_path / "away"
    write_files(work, {"dir/a": "one\n"})
    patch = apply(work, "*** Update File: dir/a", "@@", "-one", "+two")
    write_files(away, {"a": "two\n"})
    if swapped == "file":
        (work / "dir" / "a").unlink()
        (work / "dir" / "a").symlink_to(away / "a")
    else:
        (work / "dir").rename(work / "elsewhere")
        (work / "dir").symlink_to(away)
    taken = undo(patch)
    assert taken.taken_back == []
    assert "symbolic link" in taken.left[str(work / "dir" / "a")]
    assert (away / "a").read_text() == "two\n"


def test_a_folder_in_the_place_of_a_file_is_a_change(tmp_path: Path) -> None:
    patch = apply(tmp_path, "*** Add File: a", "+a")
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    assert undo(patch).left == {str(tmp_path / "a"): CHANGED_SINCE}
