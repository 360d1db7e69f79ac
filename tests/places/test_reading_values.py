"""The walk to a file that a model is given: what is judged by which path, how far it goes, and what it leaves open."""

import errno
import os
from pathlib import Path

import pytest

from understudy.places.masks import Identity, Masks
from understudy.places.reading import JudgedWalk, NotForModels, ReadLimits, Unreadable, open_for_model

NONE = Masks([])


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "f").write_bytes(b"plain")
    return tmp_path


def read(path: str, limits: ReadLimits | Masks = NONE, base: str = "/") -> bytes:
    with open(open_for_model(path, limits, base=base), "rb") as file:
        return file.read()


def refusal(path: str, limits: ReadLimits, base: str = "/") -> str:
    with pytest.raises(NotForModels) as refused:
        read(path, limits, base)
    return str(refused.value)


def pinned(folder: Path, identity: Identity) -> ReadLimits:
    return ReadLimits(NONE, pins={str(folder): identity})


def test_a_folder_on_the_way_has_to_be_what_was_pinned_there(top: Path) -> None:
    status = os.stat(top / "docs")
    device, inode = status.st_dev, status.st_ino
    for same in ((device, inode), (0, inode), (device + 1, 0)):
        assert read(f"{top}/docs/f", pinned(top / "docs", same)) == b"plain"
    for other in ((device, inode + 1), (device, inode - 1), (0, inode + 1), (device + 1, inode), (device - 1, inode)):
        told = refusal(f"{top}/docs/f", pinned(top / "docs", other))
        assert told == f"{top}/docs is not what stood there when this conversation began"


def test_in_a_base_of_its_own_nothing_is_judged_by_a_path_that_only_looks_like_another(top: Path) -> None:
    for limits in (
        ReadLimits(Masks(["/docs"])),
        ReadLimits(NONE, Unreadable(("/docs",))),
        ReadLimits(NONE, pins={"/docs": (1, 1)}),
    ):
        assert read("/docs/f", limits, str(top)) == b"plain"
    assert refusal("/docs/f", ReadLimits(Masks([str(top / "docs" / "f")])), str(top)) == "f is masked"


def test_a_link_out_of_the_base_is_judged_by_where_it_leads(top: Path) -> None:
    (top / "base").mkdir()
    (top / "base" / "door").symlink_to(top / "docs" / "f")
    base = str(top / "base")
    assert read("/door", ReadLimits(NONE, Unreadable((f"{top}/elsewhere",))), base) == b"plain"
    told = refusal("/door", ReadLimits(NONE, Unreadable((f"{top}/docs",))), base)
    assert told == "/door is not part of what a command could read, or belongs to the kernel"
    (device, inode) = (os.stat(top / "docs").st_dev, os.stat(top / "docs").st_ino)
    assert read("/door", pinned(top / "docs", (device, inode)), base) == b"plain"
    assert "is not what stood there" in refusal("/door", pinned(top / "docs", (device, inode + 1)), base)


def test_a_masked_folder_is_named_in_the_refusal_though_nothing_stood_there(top: Path) -> None:
    masks = Masks([f"{top}/later"])
    (top / "later").mkdir()
    (top / "later" / "f").write_bytes(b"secret")
    assert "masked" in refusal(f"{top}/later/f", ReadLimits(masks))


def test_what_was_walked_to_is_what_is_reached(top: Path) -> None:
    (top / "link").symlink_to("docs/../docs/f")
    with JudgedWalk(ReadLimits(NONE)) as walk:
        walk.go(f"/../..{top}/./link")
        assert walk.path == f"{top}/docs/f"
        assert os.path.samestat(os.fstat(walk.reached), os.stat(top / "docs" / "f"))


def test_a_walk_goes_up_as_far_as_its_base_and_no_further(top: Path) -> None:
    (top / "notes").write_bytes(b"notes")
    with JudgedWalk(ReadLimits(NONE), str(top)) as walk:
        for way, path in (
            ("/docs/../notes", "/notes"),
            ("/docs/../../notes", "/notes"),
            ("/../docs/f/..", "/docs"),
            ("/docs/..", "/"),
        ):
            walk.go(way)
            assert walk.path == path
            assert os.path.samestat(os.fstat(walk.reached), os.stat(f"{top}{path}"))


def test_so_many_links_and_no_more_are_followed(top: Path) -> None:
    (top / "link1").symlink_to("docs/f")
    for number in range(2, 42):
        (top / f"link{number}").symlink_to(f"link{number - 1}")
    assert read(f"{top}/link40") == b"plain"
    with pytest.raises(OSError) as raised:
        read(f"{top}/link41")
    assert raised.value.errno == errno.ELOOP


def test_so_many_folders_and_no_more_are_gone_down(top: Path) -> None:
    deep = "/".join([str(top), *("d" * (255 - (str(top).count("/"))))])
    os.makedirs(f"{deep}/d")
    for name in ("f", "d/f"):
        Path(f"{deep}/{name}").write_bytes(b"deep")
    assert f"{deep}/f".count("/") == 256
    assert read(f"{deep}/f") == b"deep"
    with pytest.raises(OSError) as raised:
        read(f"{deep}/d/f")
    assert raised.value.errno == errno.ENAMETOOLONG


def test_a_walk_leaves_nothing_open_but_the_file(top: Path) -> None:
    (top / "near").symlink_to("docs/f")
    (top / "far").symlink_to(top / "docs" / "f")
    before = set(os.listdir("/dev/fd"))
    for name in ("near", "far", "docs/../far"):
        descriptor = open_for_model(f"{top}/{name}", NONE)
        assert len(set(os.listdir("/dev/fd")) - before) == 1
        os.close(descriptor)
    refusal(f"{top}/docs", ReadLimits(NONE))
    refusal(f"{top}/far", ReadLimits(Masks([f"{top}/docs/f"])))
    assert set(os.listdir("/dev/fd")) == before
