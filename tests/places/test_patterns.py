"""Wildcards as `.gitignore` has them, against git itself and against a plain definition."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.places.ignoring import BadPattern, Glob, IgnoreRules, alternatives, path_pattern

NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
WILD = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]"]), min_size=1, max_size=4).map("".join)
PATTERNS = st.lists(st.one_of(WILD, st.just("**")), min_size=1, max_size=4).map("/".join)


def plainly(names: list[str], path: list[str]) -> bool:
    """The definition, by trying everything."""
    if not names:
        return not path
    if names[0] == "**":
        return any(plainly(names[1:], path[start:]) for start in range(len(path) + 1)) if names[1:] else bool(path)
    return bool(path) and name_fits(names[0], path[0]) and plainly(names[1:], path[1:])


def name_fits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_fits(pattern[1:], name[start:]) for start in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "[":
        end = pattern.index("]", 2)
        inner = pattern[1:end]
        fits = name[0] not in inner[1:] if inner[0] == "!" else name[0] in inner
        return fits and name_fits(pattern[end + 1 :], name[1:])
    return pattern[0] in ("?", name[0]) and name_fits(pattern[1:], name[1:])


@given(PATTERNS, PATHS)
def test_a_pattern_fits_what_its_definition_says(pattern: str, path: str) -> None:
    names = [name for name in pattern.split("/") if name]
    wanted = plainly(names if "/" in pattern else ["**", *names], path.split("/"))
    assert bool(path_pattern(pattern).match(path)) == wanted


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ("*.py", ("a.py", "x/y/a.py", ".py"), ("a.pyc", "a.py/x")),
        ("src/*.py", ("src/a.py",), ("x/src/a.py", "src/x/a.py")),
        ("/a", ("a",), ("x/a",)),
        ("**/a/**/b", ("a/b", "x/a/y/z/b"), ("a", "b", "ab")),
        ("a/**", ("a/b", "a/b/c"), ("a",)),
        ("**", ("a", "a/b"), ()),
        (r"\*", ("*",), ("a",)),
        ("[]a]", ("]", "a"), ("b",)),
        ("[a-c]x", ("bx",), ("dx",)),
        ("[z-a]", (), ("z", "a", "-")),
        ("[^a]", ("b",), ("a", "/")),
        ("[a", ("[a",), ("a",)),
        ("a/", ("a", "x/a"), ()),
        ("", (), ("", "a")),
    ],
)
def test_the_forms_that_gitignore_knows(pattern: str, fits: tuple[str, ...], others: tuple[str, ...]) -> None:
    compiled = path_pattern(pattern)
    assert [path for path in fits if not compiled.match(path)] == []
    assert [path for path in others if compiled.match(path)] == []


def test_no_pattern_backtracks() -> None:
    """With backtracking each of these would take years."""
    for pattern in ("*a" * 40 + "b", "**/*a*a/" * 20 + "b", "[!b]*" * 60 + "c"):
        assert not path_pattern(pattern).match("a" * 255)
        assert not path_pattern(pattern).match("/".join(["aaa"] * 800))


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("*.{c,h}", ["*.c", "*.h"]),
        ("{a,b{c,d}}x", ["ax", "bcx", "bdx"]),
        ("a{b", ["a{b"]),
        (r"\{a,b\}", [r"\{a,b\}"]),
        ("{,a}", ["", "a"]),
    ],
)
def test_braces_are_alternatives(pattern: str, wanted: list[str]) -> None:
    assert alternatives(pattern) == wanted


def test_braces_without_measure_are_refused() -> None:
    with pytest.raises(BadPattern, match="more than 64"):
        alternatives("{a,b,c,d}" * 10)
    with pytest.raises(BadPattern, match="longer"):
        Glob("a" * 5000)


@pytest.mark.parametrize(
    ("glob", "path", "wanted"),
    [
        (None, "x", True),
        ("*.py", "a/b.py", True),
        ("!*.py", "a/b.py", False),
        ("!*.py", "a/b.c", True),
        ("./src/*.py", "src/a.py", True),
        ("./*.py", "src/a.py", False),
        ("docs/", "docs/a/b.md", True),
        ("docs/", "x/docs/a.md", False),
    ],
)
def test_a_glob_narrows_what_is_looked_at(glob: str | None, path: str, wanted: bool) -> None:
    assert Glob(glob).fits(path) is wanted


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


LINES = st.one_of(
    PATTERNS,
    PATTERNS.map("!{}".format),
    PATTERNS.map("{}/".format),
    PATTERNS.map("/{}".format),
    st.sampled_from(["#a", "", "a ", r"\!a", r"\#a"]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(LINES, max_size=5), st.lists(PATHS, min_size=1, max_size=6, unique=True))
def test_what_git_ignores_is_left_out(repository: Path, lines: list[str], paths: list[str]) -> None:
    """By git's word on each path alone: whether a folder above it is left out is the walk's matter."""
    (repository / ".gitignore").write_text("\n".join(lines))
    rules = IgnoreRules("\n".join(lines))
    tops = sorted({path.partition("/")[0] for path in paths})
    asked = subprocess.run(
        ["git", "-c", f"core.excludesFile={os.devnull}", "check-ignore", "--no-index", "-v", "-n", "--stdin"],
        input="\n".join(tops) + "\n",
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.split("\t") for line in asked.stdout.splitlines()]
    ignored = {path: rule.split(":", 2)[2] for rule, path in said if rule != "::"}
    for top in tops:
        wanted = top in ignored and not ignored[top].startswith("!")
        assert bool(rules.leave_out(top, top, False)) == wanted
