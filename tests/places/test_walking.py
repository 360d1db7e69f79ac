"""Real paths of many at once, and opening without following a link: by the walk, and by the one call that the sandbox has."""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.places import walking

NAMES = ("a", "b", "c")
_part = st.sampled_from((*NAMES, "missing", ".."))
_path = st.lists(_part, min_size=1, max_size=5).map("/".join)
_tree = st.lists(st.tuples(_path, st.sampled_from(("folder", "file", "link")), _path), max_size=8)


def test_a_path_is_plain_where_making_it_normal_changes_nothing() -> None:
    for length in range(7):
        for characters in itertools.product("/.a", repeat=length):
            path = "".join(characters)
            normal = path.startswith("/") and not path.startswith("//") and path == os.path.normpath(path)
            assert walking.is_plain(path) == normal, path


def _grow(top: Path, tree: list[tuple[str, str, str]]) -> None:
    for path, kind, target in tree:
        place = top / path.replace("..", "c")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                place.mkdir(exist_ok=True)
            elif kind == "file":
                place.touch()
            else:
                place.symlink_to(target if target.startswith("..") else top / target)
        except OSError:
            continue  # something else stands there already


@given(tree=_tree, paths=st.lists(_path, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_real_paths_of_many_are_those_of_each(
    tree: list[tuple[str, str, str]], paths: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("tree")
    _grow(top, tree)
    asked = [f"{top}/{path}" for path in paths] + ["/", "//tmp", "relative", f"{top}//a/", f"{top}/./b"]
    assert walking.real_paths(asked) == [os.path.realpath(path) for path in asked]


@pytest.mark.skipif(sys.platform != "linux", reason="the cell is only there")
@given(tree=_tree, paths=st.lists(_path, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_a_path_that_is_not_said_to_be_linked_has_no_link_on_its_way(
    tree: list[tuple[str, str, str]], paths: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Or a link by which a masked path is named would not be held in its place."""
    from understudy.sandbox.cell.protect import links_on

    top = tmp_path_factory.mktemp("tree")
    _grow(top, tree)
    asked = [f"{top}/{path}" for path in paths] + [f"{top}//a/", f"{top}/./b"]
    linked: set[str] = set()
    walking.real_paths(asked, linked)
    assert {path for path in asked if links_on(os.fsencode(path))} <= linked


def _openers() -> list[Callable[[bytes | str], int]]:
    openers: list[Callable[[bytes | str], int]] = [walking.open_plain]
    if sys.platform == "linux":
        from understudy.sandbox.cell import kernel

        openers.append(kernel.open_plain)
    return openers


def _opened(opener: Callable[[bytes | str], int], path: str) -> object:
    try:
        descriptor = opener(path)
    except OSError as error:
        return error.errno
    status = os.fstat(descriptor)
    os.close(descriptor)
    return status.st_dev, status.st_ino


@given(tree=_tree, paths=st.lists(_path, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_both_ways_to_open_without_links_open_and_refuse_the_same(
    tree: list[tuple[str, str, str]], paths: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("tree")
    _grow(top, tree)
    for path in ["/", *(f"{top}/{path}" for path in paths)]:
        results = [_opened(opener, path) for opener in _openers()]
        assert len(set(results)) == 1, (path, results)
