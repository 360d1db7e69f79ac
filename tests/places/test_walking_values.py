"""Opening without following a link, step by step, and telling what was opened, as expected values."""

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.places import walking

KINDS = ("folder", "file", "fifo", "socket") if sys.platform == "linux" else ("folder", "file")  # elsewhere others are not opened


def make(place: Path, kind: str) -> Path:
    match kind:
        case "folder":
            place.mkdir()
        case "file":
            place.touch()
        case "fifo":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.relpath(place))  # the name of a socket may not be long
        case _:
            place.symlink_to("somewhere")
    return place


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


def error_of(act: Callable[[], int]) -> tuple[int | None, str | None]:
    with pytest.raises(OSError) as raised:
        os.close(act())
    return raised.value.errno, raised.value.strerror


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_link_is_opened_and_a_folder_is_told_from_the_others(tmp_path: Path, kind: str) -> None:
    place = make(tmp_path / "it", kind)
    descriptor = walking.open_plain(str(place))
    assert os.path.samestat(os.fstat(descriptor), os.lstat(place))
    assert walking.is_folder(descriptor) is (kind == "folder")
    os.close(descriptor)


@pytest.mark.parametrize("flags", [walking.ANYTHING, walking.FOLDER])
def test_a_step_onto_a_link_is_refused_as_one(tmp_path: Path, flags: int) -> None:
    make(tmp_path / "link", "link")
    folder = os.open(tmp_path, os.O_RDONLY)
    assert error_of(lambda: walking.step(folder, b"link", flags))[0] == errno.ELOOP
    for kind in KINDS[1:]:
        make(tmp_path / kind, kind)
        assert error_of(lambda kind=kind: walking.step(folder, kind.encode(), walking.FOLDER))[0] == errno.ENOTDIR
    os.close(folder)


def test_a_walk_leaves_nothing_open_but_what_it_walked_to(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    make(tmp_path / "a" / "file", "file")
    make(tmp_path / "a" / "link", "link")
    before = open_descriptors()
    descriptor = walking.open_plain(str(tmp_path / "a" / "b"))
    assert len(open_descriptors() - before) == 1
    os.close(descriptor)
    for name, number in (("a/link", errno.ELOOP), ("no", errno.ENOENT), ("a/file/x", errno.ENOTDIR)):
        assert error_of(lambda name=name: walking.open_plain(str(tmp_path / name)))[0] == number
    with pytest.raises(OSError):
        walking.open_pinned(str(tmp_path / "a"), 0, 1)
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("device", "inode", "is_it"),
    [
        (0, 0, True),  # the same; what is added to each number
        (1, 0, False),
        (-1, 0, False),
        (0, 1, False),
        (0, -1, False),
        (1, 1, False),
    ],
)
def test_a_pinned_place_is_opened_where_it_is_what_stood_there(tmp_path: Path, device: int, inode: int, is_it: bool) -> None:
    status = os.stat(tmp_path)
    pin = (status.st_dev + device, status.st_ino + inode)
    if is_it:
        descriptor = walking.open_pinned(str(tmp_path), *pin)
        assert os.path.samestat(os.fstat(descriptor), status)
        os.close(descriptor)
    else:
        told = f"{tmp_path} is not what stood there when this conversation began: put that back, or begin a new conversation"
        assert error_of(lambda: walking.open_pinned(str(tmp_path), *pin)) == (errno.ESTALE, told)


def test_a_device_that_is_not_known_and_a_place_where_nothing_stood_are_not_compared(tmp_path: Path) -> None:
    status = os.stat(tmp_path)
    for device, inode in ((0, status.st_ino), (status.st_dev + 1, 0)):
        os.close(walking.open_pinned(str(tmp_path), device, inode))
    assert error_of(lambda: walking.open_pinned(str(tmp_path), 0, status.st_ino + 1))[0] == errno.ESTALE


def test_a_pinned_place_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    make(tmp_path / "link", "link")
    make(tmp_path / "file", "file")

    def opening(path: str) -> tuple[int | None, str | None]:
        return error_of(lambda: walking.open_pinned(path, 1, 1))

    linked = "is, or lies behind, a symbolic link that this conversation did not begin with: put back what stood there"
    assert opening(f"{tmp_path}/link") == (errno.ESTALE, f"{tmp_path}/link {linked}")
    assert opening(f"{tmp_path}/link/x") == (errno.ESTALE, f"{tmp_path}/link/x {linked}")
    replaced = "is not what stood there when this conversation began: put that back, or begin a new conversation"
    assert opening(f"{tmp_path}/file/x") == (errno.ESTALE, f"{tmp_path}/file/x {replaced}")
    assert opening(f"{tmp_path}/missing")[0] == errno.ENOENT
    for number in (errno.EACCES, errno.EOVERFLOW):

        def fails(_: bytes | str, number: int = number) -> int:
            raise OSError(number, "in its own words")

        assert error_of(lambda fails=fails: walking.open_pinned("/", 1, 1, fails)) == (number, "in its own words")


def test_those_with_a_link_on_their_way_are_told_from_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for kind in ("file", "socket"):
        make(tmp_path / "real" / kind, kind)
    plain = [f"{tmp_path}/{name}" for name in ("real", "real/file", "real/socket", "real/missing")]
    behind = [f"{tmp_path}/{name}" for name in ("link", "link/file", "link/missing/deeper")]
    odd = ["real/file", f"/{tmp_path}/real", f"{tmp_path}/real/../real"]
    linked: set[str] = set()
    asked = [*plain, *behind, *odd]
    found = walking.real_paths(asked, linked)
    assert linked & set(asked) == {*behind, *odd}
    assert found[len(plain) :] == [
        *(f"{tmp_path}/real{rest}" for rest in ("", "/file", "/missing/deeper")),
        *(f"{tmp_path}/{name}" for name in ("real/file", "real", "real")),
    ]


@pytest.mark.parametrize(
    ("path", "parent", "is_beneath"),
    [
        (b"/a/b", b"/a", True),
        (b"/a", b"/a", True),
        (b"/a", b"/a/b", False),
        (b"/ab", b"/a", False),
        (b"/b", b"/a", False),
        (b"/a", b"/b", False),
        (b"/a", b"/", True),
        (b"/", b"/", True),
        (b"/a", b"", True),
        (b"/a/b", b"+/a", False),
    ],
)
def test_what_lies_beneath_a_folder(path: bytes, parent: bytes, is_beneath: bool) -> None:
    assert walking.beneath(path, parent) is is_beneath
