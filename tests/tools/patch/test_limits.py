"""Patches and files of any size and shape end in bounded time, with a clear word where they are too much."""

from pathlib import Path

import pytest

from understudy.errors import PatchError
from understudy.tools.patch.door import MAX_FILE_BYTES
from understudy.tools.patch.plan import apply_plan, plan_patch

from .tree import patch_text, tree_of, write_files


def refused(tmp_path: Path, text: str, word: str) -> None:
    before = tree_of(tmp_path)
    with pytest.raises(PatchError, match=word) as caught:
        apply_plan(plan_patch(text, str(tmp_path)))
    assert len(str(caught.value)) < 20_000
    assert tree_of(tmp_path) == before


def test_a_patch_of_100_megabytes_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, patch_text("*** Add File: a", "+" + "x" * 100_000_000), "100000047 bytes long")


def test_a_million_operations_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, patch_text(*["*** Delete File: a"] * 500_000), "more than 2000 files")


def test_a_million_chunks_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "x\n"})
    refused(tmp_path, patch_text("*** Update File: a", *["@@", "-x"] * 1_000_000), "more than 100000 chunks")


def test_a_file_too_large_to_update_may_still_be_deleted(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    refused(tmp_path, patch_text("*** Update File: large", "@@", "-x"), "larger than 67108864 bytes")
    refused(tmp_path, patch_text("*** Add File: large", "+x"), "larger than 67108864 bytes")
    apply_plan(plan_patch(patch_text("*** Delete File: large"), str(tmp_path)))
    assert tree_of(tmp_path) == {}


def test_a_file_of_too_many_lines_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "\n" * 1_000_001})
    refused(tmp_path, patch_text("*** Update File: a", "@@", "-x"), "1000001 lines")


def test_a_large_file_with_many_chunks_is_patched(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(100_000)]
    write_files(tmp_path, {"a": "\n".join(lines) + "\n"})
    chunks = [line for number in range(0, 100_000, 100) for line in ("@@", f" line {number}", f"-line {number + 1}", "+changed")]
    apply_plan(plan_patch(patch_text("*** Update File: a", *chunks), str(tmp_path)))
    lines[1::100] = ["changed"] * 1000
    assert (tmp_path / "a").read_text() == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param("a\n" * 200_000, ["@@", *[" a"] * 50_000, "-b"], id="a long run that almost matches everywhere"),
        pytest.param("a \n" * 200_000, ["@@", *[" a"] * 50_000, "- a"] * 4, id="the same, only loosely"),
        pytest.param("a\nb\n" * 100_000, ["@@", *[" a", " b"] * 200, "-a", "-a"], id="a short period"),
        pytest.param(
            "".join("x" * (number % 7) + "\n" for number in range(200_000)) + "  end\n" * 3000,
            [line for _ in range(3000) for line in ("@@", " x", " x", " end", "-end")],
            id="every chunk searched to the end of the file, in every pass",
        ),
        pytest.param("a" * 20_000_000 + "\n", ["@@", "-" + "a" * 10_000_000], id="one long line"),
    ],
)
def test_context_made_to_be_slow_is_answered(tmp_path: Path, content: str, lines: list[str]) -> None:
    write_files(tmp_path, {"a": content})
    refused(tmp_path, patch_text("*** Update File: a", *lines), "Failed to (find|update)|more than")


@pytest.mark.slow
def test_work_beyond_the_limit_is_given_up(tmp_path: Path) -> None:
    """Each chunk stands right where the last one ended, but only loosely: first all the rest is searched for the exact lines."""
    write_files(tmp_path, {"a": "p \nq\n" * 100_000 + "p\n"})
    chunks = [line for _ in range(50_000) for line in ("@@", "-p", "-q")]
    refused(tmp_path, patch_text("*** Update File: a", *chunks), "takes too long; use smaller chunks")
