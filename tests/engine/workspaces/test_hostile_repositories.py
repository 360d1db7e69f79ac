"""Repositories that mean harm, or only are odd: nothing of them is run, and what they hold is kept as it is."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import ENV, git, project, refs, store
from understudy.config.store import WorkspaceSettings
from understudy.engine.workspaces.cloning import check_size, clone, make_folder
from understudy.engine.workspaces.git import Git
from understudy.engine.workspaces.restoring import Kept, Restoring
from understudy.engine.workspaces.snapshots import Snapshot, Snapshots, ref_of
from understudy.errors import WorkspaceFailed
from understudy.protocol.records import Workspace


class Bench:
    """A clone, and what keeps it."""

    def __init__(self, folder: Path, source: Path, **more: object) -> None:
        self.root, self.kept = folder / "workspaces", store(folder / "kept.git")
        self.source, self.clone, self.own = source, self.root / "c", folder / "own.git"
        settings = {"folder": self.root, "snapshots": str(self.kept), **more}
        self.settings = WorkspaceSettings(**settings)  # pyright: ignore[reportArgumentType]
        self.snapshots = Snapshots(str(self.clone), str(self.own), self.settings, os.environ)

    async def make(self, commit: str = "") -> str:
        owner = make_folder(str(self.clone), str(self.root))
        return await clone(str(self.source), commit, str(self.clone), self.settings, os.environ, owner)

    async def save(self, turn: str = "1") -> Snapshot:
        taken = await self.snapshots.take("c", turn, str(self.source))
        await self.snapshots.push(taken.commit, ref_of("c", turn))
        assert refs(self.kept)[ref_of("c", turn)] == taken.commit
        return taken

    async def restore(self, taken: Snapshot, turn: str = "1") -> None:
        shutil.rmtree(self.clone)
        workspace = Workspace("git", str(self.clone), str(self.source))
        await Restoring(self.settings, os.environ).make(workspace, Kept(ref_of("c", turn), taken.commit, turn))

    def listed(self, commit: str) -> dict[str, str]:
        rows = [row.split("\t") for row in git(self.kept, "ls-tree", "-r", commit).splitlines()]
        return {name: about.split()[0] for about, name in rows}


def tells(folder: Path, name: str) -> tuple[str, Path]:
    """A program that leaves a sign when it is run."""
    sign, program = folder / f"{name}.ran", folder / f"{name}.sh"
    program.write_text(f"#!/bin/sh\ntouch {sign}\ncat\n")
    program.chmod(0o755)
    return str(program), sign


async def test_nothing_that_a_repository_names_is_run(tmp_path: Path) -> None:
    program, sign = tells(tmp_path, "evil")
    source = project(tmp_path / "source", {"a.txt": "a\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    (source / ".gitmodules").write_text(f'[submodule "s"]\n\tpath = s\n\turl = ext::{program}\n\tupdate = !{program}\n')
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{git(source, 'rev-parse', 'HEAD')},s")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "two")
    bench = Bench(tmp_path, source)
    await bench.make()
    settings = ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.sshCommand", "core.pager")
    for name in settings:
        git(bench.clone, "config", name, program)
    git(bench.clone, "config", "alias.ls-files", f"!{program}")
    for hook in ("pre-commit", "post-checkout", "pre-push", "post-index-change", "reference-transaction"):
        shutil.copy(program, bench.clone / ".git" / "hooks" / hook) if (bench.clone / ".git" / "hooks").is_dir() else None
    nested = bench.clone / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    for name in settings:
        git(nested, "config", name, program)
    (nested / "inside.txt").write_text("kept\n")
    (bench.clone / "a.txt").write_text("changed\n")
    taken = await bench.save()
    assert bench.listed(taken.commit) == {
        ".gitattributes": "100644",
        ".gitmodules": "100644",
        "a.txt": "100644",
        "nested/inside.txt": "100644",
    }
    await bench.restore(taken)
    assert (bench.clone / "a.txt").read_text() == "changed\n"
    assert (bench.clone / "nested" / "inside.txt").read_text() == "kept\n"
    assert not sign.exists()


async def test_a_source_that_can_only_be_reached_by_a_program_is_not(tmp_path: Path) -> None:
    program, sign = tells(tmp_path, "helper")
    source = project(tmp_path / "source")
    bench = Bench(tmp_path, source)
    bench.source = Path("ext::" + program)
    with pytest.raises(WorkspaceFailed, match="transport 'ext' not allowed"):
        await bench.make()
    assert not sign.exists()


async def test_what_stands_in_a_workspace_is_kept_byte_for_byte(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"a.txt": "a\n", ".gitattributes": "* text=auto eol=crlf ident\n"})
    bench = Bench(tmp_path, source)
    await bench.make()
    content = {
        "crlf.txt": b"one\r\ntwo\n",
        "id.txt": b"$Id$\n",
        "zero": b"\0\1",
        "-x": b"dash",
        "new\nline": b"n",
        "\u00e4 b": b"u",
    }
    content["not-utf8-\udcff"] = b"bytes"
    for name, data in content.items():
        (bench.clone / name).write_bytes(data)
    (bench.clone / "link").symlink_to("/etc/passwd")
    (bench.clone / "a.txt").unlink()
    taken = await bench.save()
    await bench.restore(taken)
    for name, data in content.items():
        assert (bench.clone / name).read_bytes() == data
    assert (bench.clone / "link").readlink() == Path("/etc/passwd")
    assert not (bench.clone / "a.txt").exists()
    assert (bench.clone / ".git" / "info" / "attributes").exists() is False


async def test_files_that_cannot_be_kept_are_named_and_keep_nothing_else_from_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, project(tmp_path / "source"), most_mb=1)
    await bench.make()
    os.mkfifo(bench.clone / "fifo")
    (bench.clone / "large").write_bytes(os.urandom(2 << 20))
    (bench.clone / ".GIT").mkdir()
    (bench.clone / ".GIT" / "config").write_text("x")
    (bench.clone / "fine").write_text("fine\n")
    taken = await bench.save()
    assert "fine" in bench.listed(taken.commit)
    assert taken.left_out == (".GIT/config: its name is git's own", "large: it is too large to be kept (2 MB)")


async def test_a_folder_whose_place_a_link_has_taken_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    bench = Bench(tmp_path, project(tmp_path / "source", {"d/secret": "mine\n", "b": "b\n"}))
    await bench.make()
    shutil.rmtree(bench.clone / "d")
    (bench.clone / "d").symlink_to(tmp_path / "elsewhere")
    (bench.clone / "b").unlink()
    (bench.clone / "b").mkdir()
    (bench.clone / "b" / "c").write_text("c\n")
    taken = await bench.save()
    assert bench.listed(taken.commit) == {"b/c": "100644", "d": "120000"}
    (bench.clone / "d").unlink()
    (bench.clone / "d").mkdir()
    (bench.clone / "d" / "x").write_text("x\n")
    assert bench.listed((await bench.save("2")).commit) == {"b/c": "100644", "d/x": "100644"}


async def test_ignored_files_are_kept_only_where_they_are_named_or_tracked(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {".gitignore": "*.env\nbuilt/\n"})
    (source / "forced.env").write_text("f")
    git(source, "add", "-f", "forced.env")
    git(source, "commit", "-qm", "forced")
    bench = Bench(tmp_path, source, also=("kept.env", "built/some"))
    await bench.make()
    for name in ("secret.env", "kept.env", "built/some/x", "built/other/y", "later", "staged.env"):
        (bench.clone / name).parent.mkdir(parents=True, exist_ok=True)
        (bench.clone / name).write_text(name)
    git(bench.clone, "add", "-f", "staged.env")
    (bench.clone / ".git" / "info").mkdir(exist_ok=True)
    first = bench.listed((await bench.save()).commit)
    assert set(first) == {".gitignore", "forced.env", "kept.env", "built/some/x", "later", "staged.env"}
    (bench.clone / ".git" / "info" / "exclude").write_text("later\n")
    (bench.clone / "forced.env").write_text("changed")
    taken = await bench.save("2")
    assert set(bench.listed(taken.commit)) == set(first) - {"later"}
    assert git(bench.kept, "show", f"{taken.commit}:forced.env") == "changed"


async def test_the_users_index_branches_and_stash_stay_as_they_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path, project(tmp_path / "source"))
    await bench.make()
    (bench.clone / "README.md").write_text("stashed\n")
    git(bench.clone, "stash")
    (bench.clone / "README.md").write_text("staged\n")
    git(bench.clone, "add", "README.md")
    (bench.clone / "README.md").write_text("not staged\n")
    before = (bench.clone / ".git" / "index").read_bytes(), git(bench.clone, "for-each-ref"), git(bench.clone, "stash", "list")
    taken = await bench.save()
    assert before == (
        (bench.clone / ".git" / "index").read_bytes(),
        git(bench.clone, "for-each-ref"),
        git(bench.clone, "stash", "list"),
    )
    assert git(bench.kept, "show", f"{taken.commit}:README.md") == "not staged"


async def test_a_small_repository_that_would_fill_the_disk_is_not_written_out(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"a": "a" * 100_000})
    blob = git(source, "rev-parse", "HEAD:a")
    for number in range(20):
        git(source, "update-index", "--add", "--cacheinfo", f"100644,{blob},copy{number}")
    git(source, "commit", "-qm", "many")
    bench = Bench(tmp_path, source, most_mb=1)
    with pytest.raises(WorkspaceFailed, match="take more than 1 MB"):
        await bench.make()


def deep_tree(source: Path) -> str:
    """30 to the power of 12 empty folders, of which a list of files has no line."""
    tree = ""
    for level in range(13):
        folders = "".join(f"040000 tree {tree}\t{number}\n" for number in range(10, 40)) if level else ""
        done = subprocess.run(("git", "mktree"), cwd=source, env=ENV, input=folders, capture_output=True, text=True, check=True)
        tree = done.stdout.strip()
    return tree


async def test_a_repository_whose_folders_have_no_end_is_given_up(tmp_path: Path) -> None:
    source = project(tmp_path / "source")
    commit = git(source, "commit-tree", deep_tree(source), "-m", "deep")
    bench = Bench(tmp_path, source, seconds=0.2)
    with pytest.raises(WorkspaceFailed, match=r"could not be counted in 0\.2 s"):
        await check_size(Git(str(source), os.environ), commit, bench.settings)


async def test_a_submodule_in_whose_place_something_else_stands_leads_nowhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path, project(tmp_path / "source"))
    await bench.make()
    (tmp_path / "elsewhere").mkdir()
    for name in ("link/inside", "file", "fine/inside"):
        git(bench.clone, "update-index", "--add", "--cacheinfo", f"160000,{git(bench.clone, 'rev-parse', 'HEAD')},{name}")
    git(bench.clone, "commit", "-qm", "submodules")
    (bench.clone / "link").symlink_to(tmp_path / "elsewhere")
    (bench.clone / "file").write_text("file\n")
    await bench.restore(await bench.save())
    assert os.listdir(tmp_path / "elsewhere") == []
    assert (bench.clone / "file").read_text() == "file\n"
    assert (bench.clone / "fine" / "inside").is_dir()


async def test_objects_of_another_repository_are_not_borrowed(tmp_path: Path) -> None:
    other = project(tmp_path / "other", {"private": "private\n"})
    bench = Bench(tmp_path, project(tmp_path / "source"))
    await bench.make()
    (bench.clone / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (bench.clone / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    (bench.clone / ".git" / "HEAD").write_text(git(other, "rev-parse", "HEAD") + "\n")
    taken = await bench.save()
    assert set(bench.listed(taken.commit)) == {".gitignore", "README.md"}
    assert "private" not in git(bench.kept, "log", "--all", "--format=%H", "--name-only")


async def test_a_repository_without_a_commit_can_be_worked_in(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q")
    bench = Bench(tmp_path, source)
    assert await bench.make() == ""
    (bench.clone / "first").write_text("1")
    taken = await bench.save()
    await bench.restore(taken)
    assert (bench.clone / "first").read_text() == "1"


async def test_a_repository_of_ours_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path, project(tmp_path / "source"))
    await bench.make()
    await bench.save()
    (bench.own / "understudy-index").write_bytes(b"DIRC garbage")
    (bench.clone / "new").write_text("new")
    assert "new" in bench.listed((await bench.save("2")).commit)


@pytest.mark.parametrize("wanted", ["side", "v1", "id"])
async def test_a_branch_a_tag_and_a_commit_can_be_asked_for(tmp_path: Path, wanted: str) -> None:
    source = project(tmp_path / "source")
    git(source, "tag", "v1")
    git(source, "checkout", "-qb", "side")
    (source / "side").write_text("s")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "side")
    git(source, "checkout", "-q", "main")
    first = git(source, "rev-parse", "main")
    bench = Bench(tmp_path, source)
    found = await bench.make(first if wanted == "id" else wanted)
    assert found == (git(source, "rev-parse", "side") if wanted == "side" else first)
    assert git(bench.clone, "rev-parse", "HEAD") == found
    assert git(bench.clone, "branch", "--show-current") == ("side" if wanted == "side" else "")
