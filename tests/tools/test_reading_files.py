"""What `ToolContext.read_file` gives a tool, and what it refuses."""

import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from understudy.errors import ToolError
from understudy.places.file_systems import FileSystems
from understudy.places.places import pin_places
from understudy.policy.rules import NO_RULES
from understudy.protocol.items import FunctionCall
from understudy.tools.acts.files import MOST_AT_ONCE, with_file
from understudy.tools.host import ToolSettings
from understudy.tools.tool import ToolContext


class Host:
    """Reading needs nothing of a turn but its settings."""

    unsaved = None

    def __init__(self, cwd: Path, *masked: Path) -> None:
        places = pin_places(str(cwd), (), masked=[str(path) for path in masked])
        self.settings = ToolSettings(str(cwd), "never", "workspace-write", None, (str(cwd),), {}, NO_RULES, (), places)


def context(cwd: Path, *masked: Path) -> ToolContext:
    return ToolContext(cast(Any, Host(cwd, *masked)), FunctionCall("read", "{}", "call1"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file.txt").write_bytes(b"0123456789")
    return folder


async def test_the_head_of_a_file_is_read_by_a_relative_or_an_absolute_path(project: Path) -> None:
    assert await context(project).read_file("sub/file.txt", 4) == b"0123"
    assert await context(project).read_file(str(project / "sub" / "file.txt"), 100) == b"0123456789"
    assert await context(project).read_file("sub/../sub/file.txt", 0) == b""


@pytest.mark.parametrize("name", ["secret", "link", "by/secret", "hard"])
async def test_what_is_masked_is_not_read_by_any_name(project: Path, name: str) -> None:
    (project / "secret").write_text("s")
    (project / "link").symlink_to("secret")
    (project / "by").symlink_to(".")
    os.link(project / "secret", project / "hard")
    with pytest.raises(ToolError, match=f"^{name} may not be read: "):
        await context(project, project / "secret").read_file(name, 100)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.txt", "No such file or directory"),
        ("sub", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("sub/file.txt/x", "Not a directory"),
        ("", "is not a path"),
        ("a\0b", "is not a path"),
        ("\ud800", "cannot be read"),
        ("x" * 5000, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
async def test_what_cannot_be_read_is_told_with_the_reason(project: Path, path: str, reason: str) -> None:
    os.mkfifo(project / "pipe")
    (project / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=reason):
        await context(project).read_file(path, 100)


async def test_nothing_is_read_once_the_working_directory_is_another_folder(project: Path) -> None:
    reading = context(project)
    project.rename(project.with_name("old"))
    (project / "sub").mkdir(parents=True)
    (project / "sub" / "file.txt").write_text("another")
    with pytest.raises(ToolError, match="nothing was read"):
        await reading.read_file("sub/file.txt", 100)


@pytest.mark.parametrize(
    ("path", "at_once"),
    [("sub/file.txt", True), ("large", False), ("link", False), ("by/file.txt", False), ("sub/../large", False)],
)
async def test_only_what_is_small_and_near_is_read_beside_everything_else(project: Path, path: str, at_once: bool) -> None:
    """Where a link leads nobody knows beforehand; a thread waits for the rest."""
    (project / "large").write_bytes(bytes(MOST_AT_ONCE + 1))
    (project / "link").symlink_to("sub/file.txt")
    (project / "by").symlink_to("sub")
    host = cast(Any, Host(project))
    assert (await with_file(host, path, lambda file: threading.get_ident()) == threading.get_ident()) == at_once


def test_what_another_machine_may_have_is_not_near(tmp_path: Path) -> None:
    """Neither that nor what is reached by way of it."""
    remote = FileSystems()
    table = {b"/": b"ext4", b"/net": b"nfs4", b"/net/here": b"tmpfs", b"/proc": b"proc", b"/fuse": b"fuse.sshfs"}
    os.close(remote.table)
    (tmp_path / "table").write_bytes(b"".join(b"1 1 0:1 / %s rw - %s x rw\n" % each for each in table.items()))
    remote.table = os.open(tmp_path / "table", os.O_RDONLY)
    near = [
        path
        for path in (b"/a/b", b"/net/f", b"/net/here/f", b"/network/f", b"/fuse", b"/proc/1")
        if remote.is_local_all_along(path)
    ]
    remote.close()
    assert near == [b"/a/b", b"/network/f"]
