"""Where a path stands, by expected values: inside, outside, protected or masked, and the words that a person is told."""

from pathlib import Path

import pytest

from understudy.places.judging import Judge, Placement

PROTECTED = [".git", ".codex", "deep/inner", "/protected/place"]


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "ws").mkdir()
    (tmp_path / "other").mkdir()
    return str(tmp_path / "ws")


def judge(root: str, *more: str, masked: list[str] | None = None) -> Judge:
    return Judge([root, *more], PROTECTED, masked or [])


def test_each_standing_is_told_with_its_reason(root: str, tmp_path: Path) -> None:
    (tmp_path / "ws" / "link").symlink_to("../other")
    by = judge(root, masked=[f"{root}/secret"])
    expected = {
        f"{root}/a.py": ("inside", f"is in {root}"),
        f"{root}x/a.py": ("outside", "is outside of the writable directories"),
        f"{tmp_path}/other/a": ("outside", "is outside of the writable directories"),
        f"{root}/link/a": ("outside", f"leads through a symbolic link to {tmp_path}/other/a"),
        f"{root}/.git/config": ("protected", "is protected by '.git'"),
        f"{root}/sub/.codex": ("protected", "is protected by '.codex'"),
        f"{root}/x/deep/inner/y": ("protected", "is protected by 'deep/inner'"),
        "/protected/place/file": ("protected", "is protected by '/protected/place'"),
        f"{root}/secret": ("masked", f"is masked by '{root}/secret'"),
        f"{root}/secret/key": ("masked", f"is masked by '{root}/secret'"),
    }
    assert {path: by.place(path) for path in expected} == {
        path: Placement(path, place, f"{path} {words}")  # pyright: ignore[reportArgumentType]
        for path, (place, words) in expected.items()
    }


@pytest.mark.parametrize("name", ["deep/other", "inner", "deepinner", ".gitignore", "git", "xgit~1", "a/deep", "inner/deep"])
def test_what_only_looks_like_a_protected_name_is_none(root: str, name: str) -> None:
    assert judge(root).place(f"{root}/{name}").place == "inside"


@pytest.mark.parametrize(
    "name",
    [
        ".GIT",
        ".Git/hooks",
        "git~1",
        "GIT~1/config",
        ".git.",
        ".git ",
        ".git. . ",
        ".git::$INDEX_ALLOCATION",
        ".git:stream",
        ".g\u200cit",
        "\uff0egit",
        ".\u0261it".replace("\u0261", "g"),
        "sub//./.git",
    ],
)
def test_every_spelling_that_some_file_system_takes_for_a_protected_name_counts(root: str, name: str) -> None:
    assert judge(root).place(f"{root}/{name}").place == "protected"


def test_names_of_dots_and_colons_are_names(root: str) -> None:
    by = Judge([root], ["..", ":x", "ſecret"], [])
    for name in ("...", ":x", "Secret"):
        assert by.place(f"{root}/{name}").place in ("protected", "inside")
    assert by.place(f"{root}/:X").place == "protected"
    assert by.place(f"{root}/secret").place == "protected"


def test_a_root_may_itself_lie_under_a_protected_name(tmp_path: Path) -> None:
    root = tmp_path / ".git" / "ws"
    root.mkdir(parents=True)
    assert judge(str(root)).place(f"{root}/a").place == "inside"
    assert judge(str(root)).place(f"{root}/.git/a").place == "protected"
    assert judge(str(root)).place(f"{tmp_path}/.git/b").place == "protected"  # in no root: all of it counts
    nested = judge(str(tmp_path), str(root))
    assert nested.place(f"{root}/a").place == "protected"  # beneath the outer root


def test_what_would_stand_in_the_way_of_a_masked_path_counts_as_masked(root: str) -> None:
    by = judge(root, masked=[f"{root}/a/b/key"])
    assert [by.place(f"{root}/{name}").place for name in ("a", "a/b", "a/b/key", "a/b/key/x")] == ["masked"] * 4
    assert [by.place(f"{root}/{name}").place for name in ("a/c", "a/b/key2", "b")] == ["inside"] * 3
    assert by.masked_by(f"{root}/A/B/KEY") == f"{root}/a/b/key"
    assert by.masked_by(f"{root}/c") is None


def test_a_masked_path_that_is_a_link_counts_with_where_it_leads(root: str, tmp_path: Path) -> None:
    (tmp_path / "ws" / "real").write_text("x")
    (tmp_path / "ws" / "mask").symlink_to("real")
    (tmp_path / "ws" / "to_real").symlink_to("real")
    by = judge(root, masked=[f"{root}/mask"])
    assert [by.place(f"{root}/{name}").place for name in ("mask", "real", "to_real")] == ["masked"] * 3


def test_a_link_to_what_is_protected_is_protected(root: str, tmp_path: Path) -> None:
    (tmp_path / "ws" / ".git").mkdir()
    (tmp_path / "ws" / "alias").symlink_to(".git")
    assert judge(root).place(f"{root}/alias/config").place == "protected"


def test_a_protected_path_that_names_nothing_protects_nothing(root: str) -> None:
    assert Judge([root], ["", "."], []).place(f"{root}/a").place == "inside"


def test_a_root_is_inside_itself(root: str) -> None:
    assert judge(root).place(root) == Placement(root, "inside", f"{root} is in {root}")
