"""A server of root makes clones for whoever the folder of workspaces belongs to, with that user's rights."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.workspaces.repositories import git, project
from tests.engine.workspaces.test_hostile_repositories import Bench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="shows what a server of root does")
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """One that others may enter, too."""
    folder = Path(tempfile.mkdtemp(prefix="understudy-workspaces-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def give(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.slow
async def test_a_clone_belongs_to_whoever_the_folder_of_workspaces_belongs_to(place: Path) -> None:
    source = project(place / "source")
    give(source)
    (place / "workspaces").mkdir()
    os.chown(place / "workspaces", NOBODY, NOBODY)
    bench = Bench(place, source)
    await bench.make()
    assert {path.lstat().st_uid for path in (bench.clone, *bench.clone.rglob("*"))} == {NOBODY}
    (bench.clone / "new").write_text("new\n")
    os.chown(bench.clone / "new", NOBODY, NOBODY)
    head = git(bench.clone, "-c", f"safe.directory={bench.clone}", "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "two")
    git(bench.clone, "-c", f"safe.directory={bench.clone}", "update-ref", "refs/heads/main", head)
    give(bench.clone)
    (bench.clone / "of-root").write_text("nobody may read this\n")
    (bench.clone / "of-root").chmod(0o600)
    taken = await bench.save()
    assert set(bench.listed(taken.commit)) == {".gitignore", "README.md", "new"}
    assert taken.left_out == ("of-root: Permission denied",)
    await bench.restore(taken)
    assert {path.lstat().st_uid for path in (bench.clone, *bench.clone.rglob("*"))} == {NOBODY}
    assert (bench.clone / "new").read_text() == "new\n"
    assert git(bench.clone, "-c", f"safe.directory={bench.clone}", "rev-parse", "main") == head
