"""Whole patches over real files: what changes, what is shown beforehand, and what is said."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from understudy.errors import PatchError
from understudy.places.places import Places
from understudy.places.resolving import resolve_places
from understudy.protocol.records.files import AddFile, DeleteFile, UpdateFile
from understudy.tools.patch.door import MAX_FILE_BYTES
from understudy.tools.patch.plan import MAX_TOTAL_BYTES, apply_plan, plan_patch

from .tree import contents, patch_text, tree_of, write_files


@dataclass(frozen=True)
class Fixture:
    name: str
    before: dict[str, str]
    patch: tuple[str, ...]
    after: dict[str, str] | None  # None: refused, and nothing has changed
    frame: tuple[str, str] = ("*** Begin Patch", "*** End Patch")


FIXTURES = [
    Fixture("001 add file", {}, ("*** Add File: bar.md", "+This is a new file"), {"bar.md": "This is a new file\n"}),
    Fixture(
        "002 several operations",
        {"modify.txt": "line1\nline2\n", "delete.txt": "obsolete\n"},
        (
            "*** Add File: nested/new.txt",
            "+created",
            "*** Delete File: delete.txt",
            "*** Update File: modify.txt",
            "@@",
            "-line2",
            "+changed",
        ),
        {"modify.txt": "line1\nchanged\n", "nested/new.txt": "created\n"},
    ),
    Fixture(
        "003 several chunks",
        {"multi.txt": "line1\nline2\nline3\nline4\n"},
        ("*** Update File: multi.txt", "@@", "-line2", "+changed2", "@@", "-line4", "+changed4"),
        {"multi.txt": "line1\nchanged2\nline3\nchanged4\n"},
    ),
    Fixture(
        "004 move to a new directory",
        {"old/name.txt": "old content\n", "old/other.txt": "unrelated\n"},
        ("*** Update File: old/name.txt", "*** Move to: renamed/dir/name.txt", "@@", "-old content", "+new content"),
        {"old/other.txt": "unrelated\n", "renamed/dir/name.txt": "new content\n"},
    ),
    Fixture("006 missing context", {"modify.txt": "line1\n"}, ("*** Update File: modify.txt", "@@", "-missing", "+changed"), None),
    Fixture("007 missing file to delete", {"foo.txt": "stable\n"}, ("*** Delete File: missing.txt",), None),
    Fixture("008 empty update hunk", {"foo.txt": "stable\n"}, ("*** Update File: foo.txt",), None),
    Fixture("009 update of a missing file", {}, ("*** Update File: missing.txt", "@@", "-old", "+new"), None),
    Fixture(
        "010 move over an existing file",
        {"old/name.txt": "from\n", "renamed/dir/name.txt": "existing\n"},
        ("*** Update File: old/name.txt", "*** Move to: renamed/dir/name.txt", "@@", "-from", "+new"),
        {"renamed/dir/name.txt": "new\n"},
    ),
    Fixture("011 add over an existing file", {"dup.txt": "old\n"}, ("*** Add File: dup.txt", "+new"), {"dup.txt": "new\n"}),
    Fixture("012 delete a directory", {"dir/foo.txt": "stable\n"}, ("*** Delete File: dir",), None),
    Fixture("013 invalid hunk header", {"foo.txt": "stable\n"}, ("*** Frobnicate File: foo",), None),
    Fixture(
        "014 final newline",
        {"end.txt": "no newline at end\n"},
        ("*** Update File: end.txt", "@@", "-no newline at end", "+first line", "+second line"),
        {"end.txt": "first line\nsecond line\n"},
    ),
    Fixture(
        "015 failure after success: ours changes nothing",
        {},
        ("*** Add File: created.txt", "+hello", "*** Update File: missing.txt", "@@", "-old", "+new"),
        None,
    ),
    Fixture(
        "016 additions only",
        {"input.txt": "line1\nline2\n"},
        ("*** Update File: input.txt", "@@", "+added1", "+added2"),
        {"input.txt": "line1\nline2\nadded1\nadded2\n"},
    ),
    Fixture("017 padded header", {"foo.txt": "old\n"}, ("  *** Update File: foo.txt", "@@", "-old", "+new"), {"foo.txt": "new\n"}),
    Fixture(
        "018 padded text",
        {"file.txt": "one\n"},
        ("*** Update File: file.txt", "@@", "-one", "+two"),
        {"file.txt": "two\n"},
        frame=("\n \n*** Begin Patch", "*** End Patch\n  \n"),
    ),
    Fixture(
        "019 unicode",
        {"foo.txt": "line1\nnaïve café\nline3\n"},
        ("*** Update File: foo.txt", "@@", " line1", "-naïve café", "+naïve café ✅", " line3"),
        {"foo.txt": "line1\nnaïve café ✅\nline3\n"},
    ),
    Fixture("020 delete", {"keep.txt": "keep\n", "gone.txt": "x\n"}, ("*** Delete File: gone.txt",), {"keep.txt": "keep\n"}),
    Fixture(
        "020b padded markers",
        {"file.txt": "one\n"},
        ("*** Update File: file.txt", "@@", "-one", "+two"),
        {"file.txt": "two\n"},
        frame=(" *** Begin Patch  ", "  *** End Patch "),
    ),
    Fixture(
        "021 removals only",
        {"lines.txt": "line1\nline2\nline3\n"},
        ("*** Update File: lines.txt", "@@", " line1", "-line2", " line3"),
        {"lines.txt": "line1\nline3\n"},
    ),
    Fixture(
        "022 end of file",
        {"tail.txt": "first\nsecond\nfirst\nsecond\n"},
        ("*** Update File: tail.txt", "@@", " first", "-second", "+second updated", "*** End of File"),
        {"tail.txt": "first\nsecond\nfirst\nsecond updated\n"},
    ),
    Fixture(
        "023 CRLF",
        {"f.txt": "a\r\nb\r\nc\r\n"},
        ("*** Update File: f.txt", "@@", " a", "-b", "+B", " c"),
        {"f.txt": "a\r\nB\r\nc\r\n"},
    ),
    Fixture(
        "024 mixed endings",
        {"f.txt": "a\r\nb\nc\r\nd\n"},
        ("*** Update File: f.txt", "@@", " b", "-c", "+C", " d"),
        {"f.txt": "a\r\nb\nC\r\nd\n"},
    ),
]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.name)
def test_the_tree_after_a_patch(tmp_path: Path, fixture: Fixture) -> None:
    write_files(tmp_path, fixture.before)
    before = tree_of(tmp_path)
    text = "\n".join((fixture.frame[0], *fixture.patch, fixture.frame[1]))
    if fixture.after is None:
        with pytest.raises(PatchError):
            apply_plan(plan_patch(text, str(tmp_path)))
        assert tree_of(tmp_path) == before
    else:
        apply_plan(plan_patch(text, str(tmp_path)))
        assert contents(tmp_path) == fixture.after


def test_005_an_empty_patch_is_an_empty_plan(tmp_path: Path) -> None:
    plan = plan_patch(patch_text(), str(tmp_path))
    assert (plan.is_empty, plan.changes, plan.targets) == (True, {}, ())


def test_a_plan_shows_what_will_change_and_changes_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "one\ntwo\nthree\n", "gone.txt": "bye\n", "d.txt": "def f():\n    return 2\nend\n"})
    before = tree_of(tmp_path)
    plan = plan_patch(
        patch_text(
            *("*** Update File: a.txt", "*** Move to: sub/b.txt", "@@", " one", "-two", "+TWO"),
            *("*** Add File: new/c.txt", "+see"),
            *("*** Update File: d.txt", "@@ def f():", "-    return 2", "+    return 3"),
            "*** Delete File: gone.txt",
        ),
        str(tmp_path),
    )
    assert tree_of(tmp_path) == before
    assert plan.changes == {
        f"{tmp_path}/a.txt": UpdateFile("@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", move_path=f"{tmp_path}/sub/b.txt"),
        f"{tmp_path}/new/c.txt": AddFile("see\n"),
        f"{tmp_path}/d.txt": UpdateFile("@@ -1,3 +1,3 @@\n def f():\n-    return 2\n+    return 3\n end\n"),
        f"{tmp_path}/gone.txt": DeleteFile("bye\n"),
    }
    assert plan.targets == tuple(f"{tmp_path}/{name}" for name in ("a.txt", "sub/b.txt", "new/c.txt", "d.txt", "gone.txt"))
    assert plan.summary == "Success. Updated the following files:\nA new/c.txt\nM sub/b.txt\nM d.txt\nD gone.txt\n"
    apply_plan(plan)
    assert contents(tmp_path) == {
        "sub/b.txt": "one\nTWO\nthree\n",
        "new/c.txt": "see\n",
        "d.txt": "def f():\n    return 3\nend\n",
    }


def test_paths_are_shown_as_joined_and_judged_as_resolved(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    plan = plan_patch(patch_text("*** Add File: ../outside.txt", "+hi"), str(work))
    assert list(plan.changes) == [f"{work}/../outside.txt"]
    assert plan.targets == (f"{tmp_path}/outside.txt",)


def test_a_working_directory_behind_a_link_is_shown_by_its_real_path(tmp_path: Path) -> None:
    """The user may work through a link. What is shown and judged is where the files are."""
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    write_files(tmp_path, {"real/a": "1\n"})
    for name in ("a", f"{tmp_path}/link/a", f"{tmp_path}/real/a"):
        plan = plan_patch(patch_text(f"*** Update File: {name}", "@@", "-1", "+2"), str(tmp_path / "link"))
        assert list(plan.changes) == list(plan.targets) == [f"{tmp_path}/real/a"]
    places = Places(resolve_places([f"{tmp_path}/link"]))
    further = plan_patch(patch_text(f"*** Delete File: {tmp_path}/link/a"), f"{tmp_path}/link/sub", places)
    assert further.targets == (f"{tmp_path}/real/a",)


def test_a_missing_base_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=r"Failed to enter .*/none: No such file or directory \(os error 2\)"):
        plan_patch(patch_text("*** Add File: a", "+x"), f"{tmp_path}/none")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("*** Update File: none", "@@", "-a"), "Failed to read file to update {}/none: No such file or directory (os error 2)"),
        (("*** Update File: no/ne", "@@", "-a"), "Failed to read file to update {}/no/ne: No such file or directory (os error 2)"),
        (("*** Update File: f/ne", "@@", "-a"), "Failed to read file to update {}/f/ne: Not a directory (os error 20)"),
        (("*** Update File: dir", "@@", "-a"), "Failed to read file to update {}/dir: Is a directory (os error 21)"),
        (("*** Update File: bin", "@@", "-a"), "Failed to read file to update {}/bin: stream did not contain valid UTF-8"),
        (("*** Update File: f", "@@ def", "-one"), "Failed to find context 'def' in {}/f"),
        (("*** Update File: f", "@@", "-two", " three"), 'Failed to find expected lines ["two", "three"] in {}/f'),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_when_planned(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    write_files(tmp_path, {"f": "one\n", "bin": b"\xff\xfe\x00\n", "dir/x": "x\n"})
    with pytest.raises(PatchError) as caught:
        plan_patch(patch_text(*lines), str(tmp_path))
    assert str(caught.value) == message.format(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("*** Delete File: none",), "Failed to delete file none"),
        (("*** Delete File: dir",), "Failed to delete file dir"),
        (("*** Delete File: f/x",), "Failed to delete file f/x"),
        (("*** Add File: dir", "+x"), "Failed to write file dir"),
        (("*** Add File: f/x", "+x"), "Failed to create parent directories for f/x"),
        (("*** Update File: f", "*** Move to: dir", "@@", "-one"), "Failed to write file dir"),
        (("*** Update File: f", "*** Move to: g/x", "@@", "-one"), "Failed to create parent directories for g/x"),
        (("*** Delete File: none", "*** Delete File: dir"), "Failed to delete file none"),
    ],
)
def test_what_fails_on_applying_is_planned_and_leaves_everything(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    write_files(tmp_path, {"f": "one\n", "g": "1\n", "dir/x": "x\n"})
    before = tree_of(tmp_path)
    plan = plan_patch(patch_text("*** Add File: first/new", "+hi", *lines, "*** Add File: last", "+hi"), str(tmp_path))
    assert f"{tmp_path}/first/new" in plan.changes
    with pytest.raises(PatchError) as caught:
        apply_plan(plan)
    assert str(caught.value) == message
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize(
    ("lines", "after", "summary"),
    [
        pytest.param(
            ("*** Update File: a", "@@", "-1", "+one", "*** Update File: ./a", "@@", " one", "-2"),
            {"a": "one\n3\n", "b": "x\n"},
            "M a\n",
            id="two updates",
        ),
        pytest.param(
            ("*** Update File: a", "@@", "-1", "*** Update File: a", "*** Move to: c", "@@", "-2"),
            {"c": "3\n", "b": "x\n"},
            "M c\n",
            id="an update and then a move",
        ),
        pytest.param(
            ("*** Delete File: a", "*** Add File: a", "+new"), {"a": "new\n", "b": "x\n"}, "M a\n", id="deleted and added"
        ),
        pytest.param(
            ("*** Update File: a", "*** Move to: c", "@@", "-1", "*** Add File: a", "+new"),
            {"a": "new\n", "b": "x\n", "c": "2\n3\n"},
            "A a\nM c\n",
            id="moved away and added anew",
        ),
        pytest.param(
            ("*** Delete File: b", "*** Update File: a", "*** Move to: b", "@@", "-1"),
            {"b": "2\n3\n"},
            "M b\n",
            id="moved to a deleted place",
        ),
        pytest.param(
            ("*** Update File: a", "*** Move to: ./a", "@@", "-1"), {"a": "2\n3\n", "b": "x\n"}, "M a\n", id="moved to itself"
        ),
    ],
)
def test_sequences_on_one_file_that_make_sense(tmp_path: Path, lines: tuple[str, ...], after: dict[str, str], summary: str) -> None:
    write_files(tmp_path, {"a": "1\n2\n3\n", "b": "x\n"})
    plan = plan_patch(patch_text(*lines), str(tmp_path))
    apply_plan(plan)
    assert contents(tmp_path) == after
    assert plan.summary == "Success. Updated the following files:\n" + summary


@pytest.mark.parametrize(
    "lines",
    [
        ("*** Add File: n", "+1", "*** Add File: n", "+2"),
        ("*** Add File: n", "+1", "*** Delete File: n"),
        ("*** Add File: n", "+1", "*** Update File: n", "@@", "-1", "+2"),
        ("*** Update File: a", "@@", "-1", "*** Delete File: a"),
        ("*** Update File: a", "@@", "-1", "*** Add File: x/../a", "+2"),
        ("*** Delete File: a", "*** Delete File: ./a"),
        ("*** Delete File: a", "*** Update File: a", "@@", "-1"),
        ("*** Update File: a", "*** Move to: b", "@@", "-1", "*** Update File: b", "@@", "-x"),
        ("*** Update File: b", "@@", "-x", "*** Update File: a", "*** Move to: b", "@@", "-1"),
        ("*** Update File: a", "*** Move to: b", "@@", "-1", "*** Update File: b", "*** Move to: a", "@@", "-x"),
        ("*** Update File: a", "*** Move to: c", "@@", "-1", "*** Update File: b", "*** Move to: c", "@@", "-x"),
    ],
)
def test_other_sequences_on_one_file_are_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    write_files(tmp_path, {"a": "1\n2\n3\n", "b": "x\n"})
    with pytest.raises(PatchError, match="multiple operations target"):
        plan_patch(patch_text(*lines), str(tmp_path))


def test_a_file_that_is_replaced_is_shown_as_what_it_is(tmp_path: Path) -> None:
    """An addition over an existing file takes its content away: the question shows that."""
    write_files(tmp_path, {"a": "old\n", "b": "b\n", "bin": b"\xff"})
    plan = plan_patch(
        patch_text("*** Add File: a", "+new", "*** Add File: bin", "+text", "*** Update File: b", "*** Move to: c", "@@", " b"),
        str(tmp_path),
    )
    assert plan.changes == {
        f"{tmp_path}/a": UpdateFile("@@ -1 +1 @@\n-old\n+new\n"),
        f"{tmp_path}/bin": AddFile("text\n"),
        f"{tmp_path}/b": UpdateFile("", move_path=f"{tmp_path}/c"),
    }
    assert plan.overwrites == (f"{tmp_path}/a", f"{tmp_path}/bin")
    assert plan.summary.splitlines()[1:] == ["A a", "A bin", "M c"]


def test_a_change_that_changes_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n"})
    before = (tmp_path / "a").stat()
    plan = plan_patch(patch_text("*** Update File: a", "@@", "-1", "+1"), str(tmp_path))
    apply_plan(plan)
    assert plan.changes == {f"{tmp_path}/a": UpdateFile("")}
    assert (tmp_path / "a").stat() == before


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("a\x00b", "control characters"),
        ("a\tb", "control characters"),
        ("a\x1b[31mb", "control characters"),
        ("a\u2028b", "control characters"),
        ("a\x85b", "control characters"),
        ("safe\u202etxt.exe", "direction of writing"),
        ("a/", "names a directory"),
        ("a/..", "names a directory"),
        (".", "names a directory"),
        ("x" * 256, "longer than 255 bytes"),
        ("d/" * 2048 + "x", "4097 bytes long"),
    ],
)
@pytest.mark.parametrize("form", ["add", "delete", "update", "move"])
def test_paths_no_file_should_have_are_refused_in_words(tmp_path: Path, path: str, word: str, form: str) -> None:
    write_files(tmp_path, {"f": "1\n"})
    lines = {
        "add": (f"*** Add File: {path}", "+x"),
        "delete": (f"*** Delete File: {path}",),
        "update": (f"*** Update File: {path}", "@@", "-1"),
        "move": ("*** Update File: f", f"*** Move to: {path}", "@@", "-1"),
    }[form]
    with pytest.raises(PatchError, match=f"cannot be patched: .*{word}") as caught:
        plan_patch(patch_text(*lines), str(tmp_path))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_a_move_onto_a_file_that_is_there_is_an_overwrite_and_one_to_a_new_place_is_none(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n", "b": "x\n", "c": "2\n"})
    body = patch_text(
        *("*** Update File: a", "*** Move to: b", "@@", "-1", "+one", "*** Update File: c", "*** Move to: d", "@@", "-2", "+two")
    )
    plan = plan_patch(body, str(tmp_path))
    assert plan.overwrites == (f"{tmp_path}/b",)
    apply_plan(plan)
    assert contents(tmp_path) == {"b": "one\n", "d": "two\n"}


def test_of_a_deleted_file_a_million_characters_are_shown_and_of_a_longer_one_none(tmp_path: Path) -> None:
    write_files(tmp_path, {"shown": "x" * 1_048_576, "long": "x" * 1_048_577})
    plan = plan_patch(patch_text("*** Delete File: shown", "*** Delete File: long"), str(tmp_path))
    assert plan.changes == {f"{tmp_path}/shown": DeleteFile("x" * 1_048_576), f"{tmp_path}/long": DeleteFile("")}


def test_the_files_of_a_patch_are_bounded_together() -> None:
    assert MAX_TOTAL_BYTES == 268_435_456


def test_of_several_files_together_the_limit_is_as_large_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.tools.patch.plan.MAX_TOTAL_BYTES", 10)
    write_files(tmp_path, {"a": "12345\n", "b": "123\n", "one": "x", "more": "1234567890\n"})
    both = ("*** Delete File: a", "*** Update File: b", "@@", "-123", "+a line that is longer than all of them")
    assert len(plan_patch(patch_text(*both), str(tmp_path)).changes) == 2
    for lines in ((*both, "*** Delete File: one"), ("*** Delete File: more",), (*both, "*** Delete File: more")):
        with pytest.raises(PatchError, match="the files of this patch are larger than 10 bytes together; split it"):
            plan_patch(patch_text(*lines), str(tmp_path))


@pytest.mark.slow
def test_the_files_of_a_patch_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path) -> None:
    count = MAX_TOTAL_BYTES // MAX_FILE_BYTES
    names = [f"f{number}" for number in range(count)]
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.truncate(MAX_FILE_BYTES)  # sparse
    (tmp_path / "one").write_text("x")
    deletions = [f"*** Delete File: {name}" for name in names]
    assert len(plan_patch(patch_text(*deletions), str(tmp_path)).changes) == count
    with pytest.raises(PatchError, match=f"the files of this patch are larger than {MAX_TOTAL_BYTES} bytes together; split it"):
        plan_patch(patch_text(*deletions, "*** Delete File: one"), str(tmp_path))


def test_a_change_is_shown_with_one_line_before_and_after_it(tmp_path: Path) -> None:
    write_files(tmp_path, {"f": "a\nb\nc\nd\ne\n"})
    plan = plan_patch(patch_text("*** Update File: f", "@@", "-c", "+C"), str(tmp_path))
    assert plan.changes == {f"{tmp_path}/f": UpdateFile("@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n")}


def test_two_deeds_that_do_not_go_together_are_named_in_order(tmp_path: Path) -> None:
    write_files(tmp_path, {"f": "a\n"})
    update = ("*** Update File: f", "@@", "-a", "+b")
    move = ("*** Update File: f", "*** Move to: g", "@@", "-b", "+c")
    for lines, deeds in (
        ((*update, "*** Delete File: f"), "first update, then delete"),
        ((*update, *move, "*** Delete File: f"), "first move away, then delete"),
    ):
        with pytest.raises(PatchError) as caught:
            plan_patch(patch_text(*lines), str(tmp_path))
        expected = f"multiple operations target {tmp_path}/f: {deeds}. Make one operation of them, or send two patches"
        assert str(caught.value) == expected


def test_what_is_overwritten_and_what_moves_is_told_from_what_is_deleted(tmp_path: Path) -> None:
    write_files(tmp_path, {name: f"{name}\n" for name in ("dropped", "again", "over", "target", "source", "left", "kept")})
    plan = plan_patch(
        patch_text(
            *("*** Delete File: dropped", "*** Delete File: again", "*** Add File: again", "+new", "*** Add File: over", "+new"),
            *("*** Update File: source", "*** Move to: target", "@@", "-source", "+moved"),
            *("*** Update File: left", "*** Move to: fresh", "@@", "-left", "+moved", "*** Add File: left", "+new"),
            *("*** Update File: kept", "@@", "-kept", "+changed"),
        ),
        str(tmp_path),
    )
    assert plan.overwrites == (str(tmp_path / "over"), str(tmp_path / "target"))
    assert [edit.spot.written for edit in plan.edits if edit.moved] == ["source"]
    assert [(source.written, target.written) for source, target in plan.moves] == [("source", "target"), ("left", "fresh")]
    apply_plan(plan)
    made = {"again": "new", "over": "new", "target": "moved", "fresh": "moved", "left": "new", "kept": "changed"}
    assert contents(tmp_path) == {name: f"{text}\n" for name, text in made.items()}


def test_an_update_starts_from_what_an_editor_has_not_saved_and_says_so(tmp_path: Path) -> None:
    write_files(tmp_path, {name: f"{name}\n" for name in ("changed", "moved", "dropped", "over")})
    unsaved = {str(tmp_path / name): "typed\n" for name in ("changed", "moved", "dropped", "over", "not there")}
    deeds = (
        *("*** Update File: changed", "@@", "-typed", "+Typed"),
        *("*** Update File: moved", "*** Move to: fresh", "@@", "-typed", "+Moved"),
        *("*** Delete File: dropped", "*** Add File: over", "+new"),
    )
    made = plan_patch(patch_text(*deeds), str(tmp_path), unsaved=unsaved)
    assert made.unsaved == ("changed", "moved")
    assert made.changes[f"{tmp_path}/changed"] == UpdateFile("@@ -1 +1 @@\n-changed\n+Typed\n")
    apply_plan(made)
    assert contents(tmp_path) == {"changed": "Typed\n", "fresh": "Moved\n", "over": "new\n"}
    with pytest.raises(PatchError, match="No such file or directory"):
        plan_patch(patch_text("*** Update File: not there", "@@", "-typed", "+x"), str(tmp_path), unsaved=unsaved)
    assert plan_patch(patch_text("*** Update File: over", "@@", "-new", "+x"), str(tmp_path)).unsaved == ()
