"""The diff of a turn: git's own form, over the files that patches named."""

import shutil
import subprocess
from pathlib import Path

import pytest

from understudy.errors import PatchError
from understudy.places.places import pin_places
from understudy.testing.waiting import WAIT_SECONDS
from understudy.tools.patch.plan import apply_plan, plan_patch
from understudy.tools.patch.turn_diff import TurnDiff

from .tree import contents, patch_text, write_files

ZERO = "0" * 40


def patched(diff: TurnDiff, work: Path, *lines: str) -> None:
    plan = plan_patch(patch_text(*lines), str(work))
    diff.before(plan)
    apply_plan(plan)


def test_a_file_that_has_become_another_name_of_a_masked_one_is_not_shown(tmp_path: Path) -> None:
    write_files(tmp_path, {"outside/secret": "SECRET\n", "work/kept": "x\n"})
    work = tmp_path / "work"
    places = pin_places(str(work), (), masked=[str(tmp_path / "outside")])
    plan = plan_patch(patch_text("*** Add File: new", "+x"), str(work), places)
    diff = TurnDiff()
    diff.before(plan)
    apply_plan(plan)
    assert "+x" in diff.current()
    (work / "new").unlink()
    (work / "new").hardlink_to(tmp_path / "outside" / "secret")
    assert "SECRET" not in diff.current()


def test_added_deleted_and_updated_files_outside_a_repository(tmp_path: Path) -> None:
    write_files(tmp_path, {"gone.txt": "bye\n", "old.txt": "one\ntwo\nthree\n"})
    diff = TurnDiff()
    update = ("*** Update File: old.txt", "@@", " one", "-two", "+TWO", " three")
    patched(diff, tmp_path, "*** Add File: added.txt", "+new line", *update, "*** Delete File: gone.txt")
    assert diff.current() == (
        f"diff --git a/{tmp_path}/added.txt b/{tmp_path}/added.txt\n"
        "new file mode 100644\n"
        f"index {ZERO}..86ba82a2e61b677ebd18b7186426a43fb3c81fc4\n"
        "--- /dev/null\n"
        f"+++ b/{tmp_path}/added.txt\n"
        "@@ -0,0 +1 @@\n+new line\n"
        f"diff --git a/{tmp_path}/gone.txt b/{tmp_path}/gone.txt\n"
        "deleted file mode 100644\n"
        f"index b023018cabc396e7692c70bbf5784a93d3f738ab..{ZERO}\n"
        f"--- a/{tmp_path}/gone.txt\n"
        "+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-bye\n"
        f"diff --git a/{tmp_path}/old.txt b/{tmp_path}/old.txt\n"
        "index 4cb29ea38f70d7c61b2a3a25b02e3bdf44905402..ddc897f039f57aa91e16efa6dfde386c4255206f\n"
        f"--- a/{tmp_path}/old.txt\n"
        f"+++ b/{tmp_path}/old.txt\n"
        "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
    )


def test_an_empty_file_that_came_or_went_has_no_lines_with_names_as_git_has_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    write_files(tmp_path, {"gone.txt": ""})
    diff = TurnDiff()
    patched(diff, tmp_path, "*** Add File: added.txt", "*** Delete File: gone.txt")
    empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert diff.current() == (
        f"diff --git a/added.txt b/added.txt\nnew file mode 100644\nindex {ZERO}..{empty}\n"
        f"diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\nindex {empty}..{ZERO}\n"
    )


def test_paths_are_relative_to_the_repository_and_sorted_by_where_files_are_now(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    write_files(tmp_path, {"sub/a.txt": "one\n", "sub/z.txt": "z\n"})
    diff = TurnDiff()
    patched(
        diff, tmp_path / "sub", "*** Update File: a.txt", "*** Move to: zz/b.txt", "@@", "-one", "+ONE", "*** Delete File: z.txt"
    )
    heads = [line for line in diff.current().splitlines() if line.startswith(("diff", "---", "+++"))]
    assert heads == [
        "diff --git a/sub/z.txt b/sub/z.txt",
        "--- a/sub/z.txt",
        "+++ /dev/null",
        "diff --git a/sub/a.txt b/sub/zz/b.txt",
        "--- a/sub/a.txt",
        "+++ b/sub/zz/b.txt",
    ]


def test_it_is_told_only_when_it_changed(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n"})
    diff = TurnDiff()
    assert diff.news() is None
    patched(diff, tmp_path, "*** Update File: a", "@@", "-1", "+2")
    first = diff.news()
    assert first is not None
    assert first == diff.current()
    assert "-1\n+2\n" in first
    assert diff.news() is None
    patched(diff, tmp_path, "*** Update File: a", "@@", "-2", "+3")
    second = diff.news()
    assert second is not None
    assert "-1\n+3\n" in second
    patched(diff, tmp_path, "*** Update File: a", "@@", "-3", "+1")
    assert (diff.news(), diff.news()) == ("", None)


def test_a_patch_that_failed_shows_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n", "dir/x": "x\n"})
    diff = TurnDiff()
    for target in ("none", "dir"):
        plan = plan_patch(patch_text("*** Add File: new", "+hi", f"*** Delete File: {target}"), str(tmp_path))
        diff.before(plan)
        with pytest.raises(PatchError):
            apply_plan(plan)
    assert diff.current() == ""


def test_what_commands_do_to_such_a_file_shows_too(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n"})
    diff = TurnDiff()
    patched(diff, tmp_path, "*** Update File: a", "@@", "-1", "+2")
    (tmp_path / "a").chmod(0o755)
    assert "old mode 100644\nnew mode 100755\nindex " in diff.current()
    (tmp_path / "a").write_bytes(b"\xff\x00")
    assert diff.current().endswith(f"--- a/{tmp_path}/a\n+++ b/{tmp_path}/a\nBinary files differ\n")
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to("elsewhere")
    assert "old mode 100644\nnew mode 120000\n" in diff.current()
    assert "+elsewhere\n\\ No newline at end of file\n" in diff.current()


def test_moves_are_followed_and_a_pure_rename_is_silent(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n2\n"})
    diff = TurnDiff()
    patched(diff, tmp_path, "*** Update File: a", "*** Move to: b", "@@", " 1")
    assert diff.current() == ""
    patched(diff, tmp_path, "*** Update File: b", "*** Move to: c", "@@", "-1")
    assert diff.current().startswith(f"diff --git a/{tmp_path}/a b/{tmp_path}/c\nindex ")
    patched(diff, tmp_path, "*** Update File: c", "*** Move to: a", "@@", "+1")
    assert diff.current().startswith(f"diff --git a/{tmp_path}/a b/{tmp_path}/a\nindex ")


def test_a_move_over_another_file_shows_both(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n", "b": "old\n"})
    diff = TurnDiff()
    patched(diff, tmp_path, "*** Update File: a", "*** Move to: b", "@@", " 1")
    assert [line for line in diff.current().splitlines() if line[0] in "-+" and line[1] not in "-+"] == ["-1", "-old", "+1"]


def test_a_file_added_where_another_was_moved_away_shows_both(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n"})
    diff = TurnDiff()
    patched(diff, tmp_path, "*** Update File: a", "*** Move to: b", "@@", " 1", "*** Add File: a", "+new")
    assert [line for line in diff.current().splitlines() if line[0] in "-+" and line[1] not in "-+"] == ["-1", "+new", "+1"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed (apt-get install git)")
def test_git_applies_it_and_knows_its_object_ids(tmp_path: Path) -> None:
    before = {"one": "1\n2\n3\n", "two": "a\r\nb", "gone": "g\n", "sub/moved": "x\ny\n", "sh": "#!/bin/sh\n"}
    for name in ("ours", "git"):
        write_files(tmp_path / name, before)
        (tmp_path / name / "sh").chmod(0o755)
        _git(tmp_path / name, "init", "-q")
        _git(tmp_path / name, "config", "core.autocrlf", "false")
    diff = TurnDiff()
    patched(
        diff,
        tmp_path / "ours",
        *("*** Update File: one", "@@", "-2", "+two", "*** Update File: two", "@@", "-b", "+B", "*** Delete File: gone"),
        *("*** Update File: sub/moved", "@@", "-x", "*** Add File: new/er", "+n", "*** Update File: sh", "@@", "+true"),
    )
    _git(tmp_path / "git", "apply", "-", stdin=diff.current())
    trees = [
        {path: text for path, text in contents(tmp_path / name).items() if not path.startswith(".git/")} for name in ("ours", "git")
    ]
    assert trees[0] == trees[1]
    assert f"..{_git(tmp_path / 'ours', 'hash-object', 'one').strip()}\n" in diff.current()


def _git(where: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=where, input=stdin.encode(), capture_output=True, check=True, timeout=WAIT_SECONDS
    )
    return done.stdout.decode()
