"""What nobody may read for a model, by path and by what the file is."""

import os
from pathlib import Path

import pytest

from understudy.places import masks as module
from understudy.places.masks import Masks, MaskWatch


def identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def test_a_path_is_covered_by_the_masked_one_that_it_is_or_lies_in(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    masks = Masks([f"{tmp_path}/link", f"{tmp_path}/x/../key"])
    assert masks.paths == (f"{tmp_path}/link", f"{tmp_path}/real", f"{tmp_path}/key")
    assert masks.covering(f"{tmp_path}/link/a") == f"{tmp_path}/link"
    assert masks.covering(f"{tmp_path}/real/a") == f"{tmp_path}/real"
    assert masks.covering(f"{tmp_path}/key") == f"{tmp_path}/key"
    assert [masks.covering(f"{tmp_path}{rest}") for rest in ("", "/keys", "/realm/a")] == [None] * 3


def test_what_stands_at_masked_paths_is_known_by_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x")
    (tmp_path / "folder").mkdir()
    masks = Masks([f"{tmp_path}/missing", f"{tmp_path}/key", f"{tmp_path}/folder"])
    assert masks.identities() == {identity(tmp_path / "key"), identity(tmp_path / "folder")}


def test_files_in_masked_folders_are_found_however_deep_and_links_not_followed(tmp_path: Path) -> None:
    inner = tmp_path / "folder" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    for place in (inner / "key", tmp_path / "folder" / "top"):
        place.write_text("x")
    (tmp_path / "folder" / "link").symlink_to("../outside")
    link = os.lstat(tmp_path / "folder" / "link")
    masks = Masks([f"{tmp_path}/folder", f"{tmp_path}/missing"])
    assert masks.inner_identities() == {
        identity(inner / "key"), identity(tmp_path / "folder" / "top"), (link.st_dev, link.st_ino)
    }  # fmt: skip


def test_a_second_name_of_a_file_in_a_masked_folder_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    key, free = tmp_path / "folder" / "key", tmp_path / "free"
    key.write_text("x")
    free.write_text("x")
    masks = Masks([f"{tmp_path}/folder"])
    assert not masks.may_hold(os.stat(key)), "it has one name only, and whoever opened it was judged by that"
    os.link(key, tmp_path / "second")
    os.link(free, tmp_path / "free2")
    assert masks.may_hold(os.stat(tmp_path / "second"))
    assert not masks.may_hold(os.stat(free))


def test_where_there_are_too_many_to_look_at_nothing_is_taken_for_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._MOST_SEARCHED == 100_000  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(module, "_MOST_SEARCHED", 3)
    (tmp_path / "folder").mkdir()
    (tmp_path / "free").write_text("x")
    os.link(tmp_path / "free", tmp_path / "free2")
    masks = Masks([f"{tmp_path}/folder"])
    for number in range(4):
        held, inner = masks.may_hold(os.stat(tmp_path / "free")), masks.inner_identities()
        assert (held, None if inner is None else len(inner)) == (False, number)
        (tmp_path / "folder" / str(number)).write_text("x")
    assert (masks.may_hold(os.stat(tmp_path / "free")), masks.inner_identities()) == (True, None)


def test_a_masked_path_where_something_else_came_to_stand_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    watch = MaskWatch([f"{tmp_path}/a", f"{tmp_path}/b", f"{tmp_path}/missing"])
    assert watch.moved() is None
    (tmp_path / "missing").mkdir(mode=0o700)
    (tmp_path / "missing").chmod(0o1700)  # what the sandbox puts where nothing is
    assert watch.moved() is None
    (tmp_path / "a").unlink()
    assert watch.moved() is None, "what is gone shows nothing"
    (tmp_path / "new").write_text("x")
    (tmp_path / "new").rename(tmp_path / "b")
    assert watch.moved() == f"{tmp_path}/b"
    (tmp_path / "b").unlink()
    (tmp_path / "missing").chmod(0o700)
    assert watch.moved() == f"{tmp_path}/missing"


def test_a_link_put_in_the_place_of_a_masked_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    watch = MaskWatch([f"{tmp_path}/a"])
    (tmp_path / "a").rename(tmp_path / "moved")
    (tmp_path / "a").symlink_to("moved")
    assert watch.moved() == f"{tmp_path}/a"
