"""From the folders that a user names to where they are, by expected values."""

import os
from pathlib import Path

import pytest

from understudy.places.resolving import Place, is_within, look, resolve_places


def found(place: Place) -> tuple[str, str, int, int]:
    return place.spelled, place.path, place.device, place.inode


def stands(spelled: str, path: str) -> tuple[str, str, int, int]:
    status = os.lstat(path)
    return spelled, path, status.st_dev, status.st_ino


@pytest.mark.parametrize(
    ("path", "folder", "within"),
    [
        ("/a", "/", True),
        ("/", "/", True),
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/ab", "/a", False),
        ("/", "/a", False),
        ("/b", "/a", False),
    ],
)
def test_what_lies_in_a_folder(path: str, folder: str, within: bool) -> None:
    assert is_within(path, folder) is within


def test_each_place_is_where_the_users_links_lead_and_named_once(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    base = str(tmp_path)
    spelled = [f"{base}/link/", f"/{base}/real/sub", f"{base}/x/../link", f"{base}/none"]
    assert [found(place) for place in resolve_places(spelled)] == [
        stands(f"{base}/link", f"{base}/real"),
        stands(f"{base}/real/sub", f"{base}/real/sub"),
        (f"{base}/none", f"{base}/none", 0, 0),
    ]


def test_what_is_known_already_is_not_looked_up_again(tmp_path: Path) -> None:
    known = Place(str(tmp_path), "/elsewhere", 7, 8)
    assert [found(place) for place in resolve_places([str(tmp_path)], [known])] == [found(known)]
    assert resolve_places([], [known]) == []


def test_a_link_that_leads_out_of_another_place_is_not_followed_by_either_name_of_that(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "ws").symlink_to("real")
    (tmp_path / "real" / "exit").symlink_to("../out")
    base = str(tmp_path)
    for name in ("ws", "real"):
        places = resolve_places([f"{base}/{name}/exit", f"{base}/ws"])  # in whichever order they are named
        assert [found(place) for place in places] == [
            (f"{base}/{name}/exit", f"{base}/real/exit", 0, 0),
            stands(f"{base}/ws", f"{base}/real"),
        ]


def test_below_the_root_folder_every_link_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    places = resolve_places(["/", f"{tmp_path}/link"])
    assert [found(place) for place in places] == [stands("/", "/"), stands(f"{tmp_path}/link", f"{tmp_path}/real")]


def test_a_link_at_the_very_place_pins_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("link", "none"):
        assert found(look("x", f"{tmp_path}/{name}")) == ("x", f"{tmp_path}/{name}", 0, 0)
    assert found(look("x", str(tmp_path))) == stands("x", str(tmp_path))
