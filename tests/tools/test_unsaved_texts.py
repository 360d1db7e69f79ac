"""Texts of an editor beside those of the disk: which of them are new, and how a file would hold them."""

from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.unsaved_texts import MOST_PATHS, MOST_VERSIONS, UnsavedTexts, as_file, normal

LINES = st.lists(st.text(st.characters(exclude_characters="\r\n\ufeff", exclude_categories=["Cs"]), max_size=5), max_size=6)


class Nobody:
    async def text_of(self, path: str) -> str | None:
        return None


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]), st.booleans())
def test_a_file_that_an_editor_has_opened_and_not_touched_is_what_the_disk_has(
    lines: list[str], end: str, mark: str, finished: bool
) -> None:
    on_disk = mark + end.join(lines) + (end if finished else "")
    in_editor = "\n".join(lines)
    assert normal(in_editor) == normal(on_disk)
    assert normal(in_editor + "\n") == normal(on_disk) or not finished


@given(LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_what_was_typed_is_saved_with_the_files_own_mark_and_line_ends(
    before: list[str], typed: list[str], end: str, mark: str
) -> None:
    on_disk = mark + "".join(line + end for line in before)
    made = as_file("\n".join(typed), on_disk)
    assert made.startswith(mark)
    assert normal(made) == normal("\n".join(typed))
    if before:
        assert made.count("\n") == made.count(end)
        assert made == mark or made.endswith(end)


def test_what_the_disk_held_before_is_nothing_new() -> None:
    texts = UnsavedTexts()
    texts.note_on_disk("/a", b"one\r\n")
    texts.note_on_disk("/a", b"two\n")
    texts.note_on_disk("/a", None)
    assert texts.is_outdated("/a", "one")
    assert texts.is_outdated("/a", "two\n")
    assert not texts.is_outdated("/a", "three\n")
    assert not texts.is_outdated("/b", "one")


def test_what_is_remembered_is_bounded_and_the_newest_stays() -> None:
    texts = UnsavedTexts()
    for number in range(2 * MOST_PATHS):
        texts.note_on_disk(f"/{number}", b"same")
        texts.note_likely(f"/{number}")
    for number in range(2 * MOST_VERSIONS):
        texts.note_on_disk("/a", str(number).encode())
    assert not texts.is_outdated("/0", "same")
    assert texts.is_outdated(f"/{2 * MOST_PATHS - 1}", "same")
    assert not texts.is_outdated("/a", "0")
    assert texts.is_outdated("/a", str(2 * MOST_VERSIONS - 1))
    assert len(texts.likely) == MOST_PATHS
    assert list(texts.likely)[-1] == f"/{2 * MOST_PATHS - 1}"


def test_the_editor_that_came_last_is_asked_until_it_leaves() -> None:
    texts = UnsavedTexts()
    first, second = Nobody(), Nobody()
    leave_first, leave_second = texts.lend(first), texts.lend(second)
    assert texts.editor is second
    leave_second()
    leave_second()
    assert texts.editor is first
    leave_first()
    assert texts.editor is None
