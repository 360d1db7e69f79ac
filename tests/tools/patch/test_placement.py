"""Inside, outside or protected: by where a file is, however its path is spelled."""

import unicodedata
from pathlib import Path
from posixpath import normpath

import pytest

from understudy.errors import PatchError
from understudy.places.judging import Placement
from understudy.places.places import Places
from understudy.places.resolving import resolve_places
from understudy.tools.patch.placement import classify_targets
from understudy.tools.patch.plan import plan_patch

from .tree import patch_text, write_files

PROTECTED = (".git", ".codex", ".agents", ".mcp.json", ".café", "/state/understudy", "conf/secret.d")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_files(tmp_path, {"work/plain": "plain\n", "work/.git/config": "x\n", "elsewhere/f": "f\n", "work-two/f": "f\n"})
    return tmp_path / "work"


def places(work: Path, *lines: str, roots: list[str] | None = None, protected: tuple[str, ...] = PROTECTED) -> list[str]:
    plan = plan_patch(patch_text(*lines), str(work))
    pinned = resolve_places(roots if roots is not None else [str(work)])
    return [found.place for found in classify_targets(plan, Places(pinned, protected=protected))]


def place_path(path: str, roots: list[str], protected: tuple[str, ...]) -> Placement:
    return Places(resolve_places(roots), protected=protected).judge.place(normpath(path))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("new", "inside"),
        ("deep/er/new", "inside"),
        ("{work}/new", "inside"),
        ("x/../new", "inside"),
        ("../work/new", "inside"),
        ("../new", "outside"),
        ("../../../../../../etc/new", "outside"),
        ("/etc/passwd.new", "outside"),
        ("../work-two/new", "outside"),
        ("../wor/new", "outside"),
        ("x/../../elsewhere/new", "outside"),
        (".github/x", "inside"),
        (".gitignore", "inside"),
        ("git", "inside"),
        ("conf/other", "inside"),
        ("secret.d/x", "inside"),
    ],
)
def test_a_path_is_judged_by_where_it_leads(work: Path, path: str, place: str) -> None:
    assert places(work, f"*** Add File: {path.format(work=work)}", "+x") == [place]


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/new/deep/er",
        "sub/.git",
        "sub/.git/hooks/post-checkout",
        ".codex/config.toml",
        ".agents/x",
        ".mcp.json",
        "sub/.mcp.json",
        "conf/secret.d/x",
        "conf/secret.d",
        "/state/understudy/log.db",
        "/state/understudy",
        "/state",
        ".GIT/config",
        ".Git/hooks/x",
        ".gıt/../.giT/x",
        ".git./config",
        ".git /config",
        ".git . ./config",
        ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config",
        ".MCP.JSON",
        ".mcp.json.",
        ".g\u200cit/config",
        ".ｇｉｔ/config",
        unicodedata.normalize("NFD", ".café") + "/x",
        unicodedata.normalize("NFC", ".CAFÉ") + "/x",
        "./.git//config",
        "x/../.git/config",
        "{work}/.git/config",
    ],
)
def test_no_spelling_gets_a_protected_path_past_the_list(work: Path, path: str) -> None:
    found = place_path(str(work / path.format(work=work)), [str(work)], PROTECTED)
    assert found.place == "protected"
    assert found.reason.startswith(found.path)


@pytest.mark.parametrize("operation", ["add", "update", "delete", "move from", "move to"])
def test_each_operation_on_a_protected_path_is_marked(work: Path, operation: str) -> None:
    lines = {
        "add": ("*** Add File: .git/hooks/new", "+x"),
        "update": ("*** Update File: .git/config", "@@", "-x"),
        "delete": ("*** Delete File: .git/config",),
        "move from": ("*** Update File: .git/config", "*** Move to: y", "@@", "-x"),
        "move to": ("*** Update File: plain", "*** Move to: .git/config", "@@", "-plain"),
    }[operation]
    assert "protected" in places(work, *lines)


def test_a_protected_path_need_not_exist(work: Path) -> None:
    """Creating the configuration that did not exist is as good as changing it."""
    assert not (work / ".codex").exists()
    assert places(work, "*** Add File: .codex/config.toml", "+x") == ["protected"]
    assert places(work, "*** Add File: .codex", "+x") == ["protected"]


def test_a_root_beneath_a_protected_name_is_still_a_root(tmp_path: Path) -> None:
    inside = tmp_path / ".codex" / "project"
    inside.mkdir(parents=True)
    assert place_path(f"{inside}/f", [str(inside)], PROTECTED).place == "inside"
    assert place_path(f"{inside}/.git/f", [str(inside)], PROTECTED).place == "protected"
    assert place_path(f"{tmp_path}/.codex/f", [str(inside)], PROTECTED).place == "protected"


def test_leave_for_a_directory_does_not_reach_its_parent_nor_what_is_protected_in_it(work: Path) -> None:
    (work / "sub").mkdir()
    roots = [str(work / "sub")]
    assert places(work, "*** Add File: sub/f", "+x", roots=roots) == ["inside"]
    assert places(work, "*** Add File: f", "+x", roots=roots) == ["outside"]
    assert places(work, "*** Add File: subway/f", "+x", roots=roots) == ["outside"]
    assert places(work, "*** Add File: sub/.git/config", "+x", roots=roots) == ["protected"]
    assert places(work, "*** Add File: sub/no/f", "+x", roots=roots, protected=(f"{work}/sub/no",)) == ["protected"]


def test_every_target_counts_the_destination_of_a_move_too(work: Path) -> None:
    move = ("*** Update File: plain", "*** Move to: ../elsewhere/f", "@@", "-plain")
    assert places(work, *move) == ["inside", "outside"]


def test_a_root_behind_a_link_is_the_directory_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert place_path(f"{tmp_path}/real/f", [f"{tmp_path}/link"], PROTECTED).place == "inside"


def test_a_link_inside_a_root_is_not_inside(work: Path) -> None:
    (work / "link").symlink_to("../elsewhere")
    (work / "hooks").symlink_to(".git/hooks")
    assert place_path(f"{work}/link/f", [str(work)], PROTECTED).place == "outside"
    assert place_path(f"{work}/hooks/f", [str(work)], PROTECTED).place == "protected"
    with pytest.raises(PatchError):
        plan_patch(patch_text("*** Add File: link/f", "+x"), str(work))


def test_the_whole_disk_as_root(work: Path) -> None:
    assert places(work, "*** Add File: ../elsewhere/f", "+x", roots=["/"]) == ["inside"]
    assert places(work, "*** Add File: .git/f", "+x", roots=["/"]) == ["protected"]


def test_no_root_at_all_is_read_only(work: Path) -> None:
    assert places(work, "*** Add File: f", "+x", roots=[]) == ["outside"]
    assert places(work, "*** Add File: .git/f", "+x", roots=[]) == ["protected"]
