"""The places of a conversation, as expected values: how they are spelled, what is said of them, what is kept of them."""

import os
from pathlib import Path

import msgspec
import pytest

from understudy.places.places import pin_places
from understudy.protocol.records import Pins


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    return work, other


def test_a_place_is_known_by_the_name_that_the_user_gave_it(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    work, other = folders
    (tmp_path / "zlink").symlink_to("work")
    places = pin_places(str(tmp_path / "zlink"), [str(other)], protected=[str(work / ".git")])
    assert places.roots == (str(work), str(other))
    assert places.protected == (str(work / ".git"),)
    spelled = {f"{tmp_path}/zlink": str(work), str(other): str(other)}
    unknown = ("/", f"{tmp_path}/m", f"{tmp_path}/zlink/x", "~")
    assert {path: places.real(path) for path in (*spelled, *unknown)} == spelled | {path: path for path in unknown}
    assert places.judge is places.judge


def test_a_place_that_is_missing_does_not_hide_that_another_was_replaced(folders: tuple[Path, Path]) -> None:
    work, other = folders
    places = pin_places(str(work), [str(other)])
    work.rmdir()
    other.rename(other.with_name("kept"))
    other.mkdir()
    assert str(places.complaint()).startswith(f"{other} is not what stood there")


def test_masked_paths_are_watched_in_each_of_the_roots(folders: tuple[Path, Path], tmp_path: Path) -> None:
    work, other = folders
    for mask in (work / "key", tmp_path / "outside"):
        mask.write_text("old")
    places = pin_places(str(work), [str(other)], masked=[str(work / "key"), str(tmp_path / "outside")])
    watch = places.watch_masks()
    (tmp_path / "new").write_text("new")
    os.replace(tmp_path / "new", tmp_path / "outside")
    assert watch.moved() is None, "it lies in no root"
    (tmp_path / "new").write_text("new")
    os.replace(tmp_path / "new", work / "key")
    assert watch.moved() == str(work / "key")


@pytest.mark.parametrize("boot", ["", "0", "zzz"])
@pytest.mark.parametrize("step", [-1, 1])
def test_after_a_start_of_the_machine_a_place_is_known_by_its_inode_alone(tmp_path: Path, boot: str, step: int) -> None:
    pins = pin_places(str(tmp_path), []).pins()
    (pin,) = pins.places
    renumbered = Pins(boot, (msgspec.structs.replace(pin, device=pin.device + step),))
    again = pin_places(str(tmp_path), [], known=renumbered)
    assert (again.complaint(), again.pins()) == (None, pins)
    replaced = msgspec.structs.replace(pin, inode=pin.inode + step)
    after = pin_places(str(tmp_path), [], known=Pins(boot, (replaced,)))
    assert after.pins() == Pins(pins.boot, (msgspec.structs.replace(replaced, device=0),))
    assert str(after.complaint()).startswith(f"{tmp_path} is not what stood there")
