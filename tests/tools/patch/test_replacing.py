"""A change by exact text: what is replaced, what is refused, and that nothing else moves."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from understudy.errors import PatchError
from understudy.tools.patch.plan import apply_plan, plan_replacement
from understudy.tools.patch.replacing import ReplaceOperation, replaced_text

TEXT = st.text("ab\n ", max_size=12)


def replaced(text: str, old: str, new: str, *, every: bool = False) -> str:
    return replaced_text(text, ReplaceOperation("f", old, new, every), "f")


@given(TEXT, st.text("xy\n", min_size=1, max_size=4), TEXT, st.text("uvw\n", max_size=4))
def test_only_the_passage_changes(before: str, old: str, after: str, new: str) -> None:
    text = f"{before}<{old}>{after}"
    assume(old != new)
    assert replaced(text, f"<{old}>", f"<{new}>") == f"{before}<{new}>{after}"


@given(TEXT, st.text("ab\n", min_size=1, max_size=2), st.text("cd", max_size=3))
def test_every_passage_changes_or_none_unless_there_is_one(text: str, old: str, new: str) -> None:
    count = text.count(old)
    if count == 0:
        with pytest.raises(PatchError, match="is not in f"):
            replaced(text, old, new, every=True)
        return
    assert replaced(text, old, new, every=True) == text.replace(old, new)
    if count > 1:
        with pytest.raises(PatchError, match=f"{count} times"):
            replaced(text, old, new)
    else:
        assert replaced(text, old, new) == text.replace(old, new)


@given(st.lists(st.text("ab ", max_size=3), min_size=2, max_size=6), st.data())
def test_line_ends_stay_the_files_own(lines: list[str], data: st.DataObject) -> None:
    text = "\r\n".join((*lines, "mark", "end", ""))
    new = data.draw(st.lists(st.text("cd", max_size=2), max_size=3).map("\n".join))
    done = replaced(text, "mark\nend", f"{new}|")
    assert "\n" not in done.replace("\r\n", "")
    assert done.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace("mark\nend", f"{new}|")


@pytest.mark.parametrize(
    ("text", "old", "reason"),
    [
        ("a\nb\n", "c", "read the file again"),
        ("  if x:\n    y\n", "if x:\n  y", "blanks or line breaks differ from the file, near line 1"),
        ("one\ntwo\n", "     1\tone\n     2\ttwo", "leave out the line numbers"),
        ("x\nx\nx\n", "x", r"3 times \(lines 1, 2, 3\)"),
        ("x\n" * 9, "x", r"9 times \(lines 1, 2, 3, 4, 5, …\)"),
        ("x", "", "is not empty"),
    ],
)
def test_what_does_not_fit_is_refused_with_advice(text: str, old: str, reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        replaced(text, old, "new")


def test_the_same_text_again_is_refused() -> None:
    with pytest.raises(PatchError, match="are the same"):
        replaced("x", "x", "x")


def test_a_byte_order_mark_and_mixed_line_ends_stay(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfa\r\nb\nc")
    apply_plan(plan_replacement(ReplaceOperation("f", "b\nc", "d"), str(tmp_path)))
    assert file.read_bytes() == b"\xef\xbb\xbfa\r\nd"


def test_an_empty_passage_makes_a_new_file_or_fills_an_empty_one(tmp_path: Path) -> None:
    apply_plan(plan_replacement(ReplaceOperation("sub/new", "", "x\n"), str(tmp_path)))
    assert (tmp_path / "sub" / "new").read_text() == "x\n"
    (tmp_path / "empty").touch()
    apply_plan(plan_replacement(ReplaceOperation("empty", "", "y\n"), str(tmp_path)))
    assert (tmp_path / "empty").read_text() == "y\n"


@pytest.mark.parametrize("path", ["link", "folder", "none", "binary"])
def test_what_cannot_be_edited_is_told(tmp_path: Path, path: str) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"x\xff")
    with pytest.raises(PatchError):
        plan_replacement(ReplaceOperation(path, "x", "y"), str(tmp_path))
    assert (tmp_path / "real").read_text() == "x"
