"""The text of a patch: what is read, and each message for what is not."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.tools.patch.grammar import (
    AddOperation,
    Chunk,
    DeleteOperation,
    Patch,
    PatchSyntaxError,
    UpdateOperation,
    parse_patch,
)

from .tree import patch_text

FIRST = "The first line of the patch must be '*** Begin Patch'"
LAST = "The last line of the patch must be '*** End Patch'"
HEADERS = "Valid hunk headers: '*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"
MARKS = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"


def test_one_patch_may_add_delete_update_and_move() -> None:
    text = patch_text(
        "*** Add File: path/add.py",
        "+abc",
        "+def",
        "*** Delete File: path/delete.py",
        "*** Update File: path/update.py",
        "*** Move to: path/update2.py",
        "@@ def f():",
        "-    pass",
        "+    return 123",
        "@@",
        " end",
        "+more",
        "*** End of File",
    )
    assert parse_patch(text) == Patch(
        (
            AddOperation("path/add.py", "abc\ndef\n"),
            DeleteOperation("path/delete.py"),
            UpdateOperation(
                "path/update.py",
                (Chunk("def f():", ("-    pass", "+    return 123")), Chunk(None, (" end", "+more"), at_end=True)),
                move_to="path/update2.py",
            ),
        )
    )


@pytest.mark.parametrize(
    ("lines", "operations"),
    [
        pytest.param((), (), id="no operations at all"),
        pytest.param(("*** Add File: empty",), (AddOperation("empty", ""),), id="an added file without lines is empty"),
        pytest.param(("  *** Add File: a  ", "+x"), (AddOperation("a", "x\n"),), id="blanks around a header"),
        pytest.param(
            ("*** Update File: a", " one", "-two"),
            (UpdateOperation("a", (Chunk(None, (" one", "-two")),)),),
            id="first chunk without @@",
        ),
        pytest.param(
            ("*** Update File: a", "@@ ", "-two"),
            (UpdateOperation("a", (Chunk(None, ("-two",)),)),),
            id="@@ with only a blank after it",
        ),
        pytest.param(
            ("*** Update File: a", "", "@@", "-x", "", "", "@@", "-y"),
            (UpdateOperation("a", (Chunk(None, ("-x", "", "")), Chunk(None, ("-y",)))),),
            id="blank lines before a chunk are skipped, within one they are context",
        ),
        pytest.param(
            ("*** Update File: a", "@@ -1,2 +1,2 @@", "-x"),
            (UpdateOperation("a", (Chunk("-1,2 +1,2 @@", ("-x",)),)),),
            id="line numbers have no meaning: they are text to look for",
        ),
        pytest.param(
            ("*** Update File: a", "-x", "*** End of File", "", "@@", "-y"),
            (UpdateOperation("a", (Chunk(None, ("-x",), at_end=True), Chunk(None, ("-y",)))),),
            id="a chunk after the end of file",
        ),
        pytest.param(("*** Add File: /abs/a", "+x"), (AddOperation("/abs/a", "x\n"),), id="an absolute path"),
        pytest.param(
            ("*** Update File: a", "*** Move to: b ", "-x"),
            (UpdateOperation("a", (Chunk(None, ("-x",)),), move_to="b "),),
            id="the move line is not stripped",
        ),
    ],
)
def test_forms_that_are_read(lines: tuple[str, ...], operations: tuple[object, ...]) -> None:
    assert parse_patch(patch_text(*lines)).operations == operations


@pytest.mark.parametrize(
    "wrapped",
    [
        "\n  *** Begin Patch\n*** Add File: a\n+x\n*** End Patch  \n\n",
        " *** Begin Patch \n*** Add File: a\n+x\n *** End Patch ",
        "*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n",
        "<<EOF\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF\n",
        "<<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF",
        '<<"EOF"\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF',
    ],
)
def test_what_stands_around_a_patch_is_forgiven(wrapped: str) -> None:
    assert parse_patch(wrapped) == Patch((AddOperation("a", "x\n"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FIRST),
        ("garbage", FIRST),
        ("*** Begin Patch", LAST),
        ("*** Begin Patch\n*** Add File: x\n+hi", LAST),
        ("*** Begin Patch\n*** End Patch\nmore", LAST),
        ("<<\"EOF'\n*** Begin Patch\n*** Add File: a\n*** End Patch\nEOF", FIRST),
        ("<<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\nEOF", LAST),
    ],
)
def test_a_patch_needs_both_its_markers(text: str, message: str) -> None:
    with pytest.raises(PatchSyntaxError) as caught:
        parse_patch(text)
    assert (str(caught.value), caught.value.shell_text) == (f"invalid patch: {message}", f"Invalid patch: {message}")


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        (("*** Frob File: x",), 2, f"'*** Frob File: x' is not a valid hunk header. {HEADERS}"),
        (("*** Add File:",), 2, f"'*** Add File:' is not a valid hunk header. {HEADERS}"),
        (("*** Add File: a", "+x", "bad"), 4, f"'bad' is not a valid hunk header. {HEADERS}"),
        (("*** Delete File: a", "-x"), 3, f"'-x' is not a valid hunk header. {HEADERS}"),
        (("*** Update File: f.txt",), 2, "Update file hunk for path 'f.txt' is empty"),
        (("*** Delete File: a", "*** Update File: f.txt", "*** Move to: g"), 3, "Update file hunk for path 'f.txt' is empty"),
        (("*** Update File: f.txt", "", "*** Delete File: a"), 2, "Update file hunk for path 'f.txt' is empty"),
        (("*** Update File: f", "@@"), 4, "Update hunk does not contain any lines"),
        (("*** Update File: f", "@@", "*** End of File"), 4, "Update hunk does not contain any lines"),
        (("*** Update File: f", "@@", "xyz"), 4, f"Unexpected line found in update hunk: 'xyz'. {MARKS}"),
        (("*** Update File: f", "xyz"), 3, f"Unexpected line found in update hunk: 'xyz'. {MARKS}"),
        (("*** Update File: f", "@@", " one", "xyz"), 5, "Expected update hunk to start with a @@ context marker, got: 'xyz'"),
        (
            ("*** Update File: f", "-x", "*** End of File", "-y"),
            5,
            "Expected update hunk to start with a @@ context marker, got: '-y'",
        ),
    ],
)
def test_a_faulty_hunk_is_named_with_its_line(lines: tuple[str, ...], number: int, message: str) -> None:
    with pytest.raises(PatchSyntaxError) as caught:
        parse_patch(patch_text(*lines))
    assert str(caught.value) == f"invalid hunk at line {number}, {message}"
    assert caught.value.shell_text == f"Invalid patch hunk on line {number}: {message}"


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(PatchSyntaxError, match="surrogate"):
        parse_patch(patch_text("*** Add File: a", "+\ud800"))


_HEADERS = ("*** Add File: a", "*** Update File: b", "*** Delete File: c", "*** Move to: d")
_MARKERS = ("*** Begin Patch", "*** End Patch", "*** End of File", "***", "<<EOF", "EOF", "@@", "@@ x")
_pieces = st.sampled_from((*_HEADERS, *_MARKERS, "+x", "-x", " x", "", " ", "\r", "\x00", "é"))


@given(st.lists(_pieces | st.text(max_size=12), max_size=30))
def test_the_parser_either_reads_or_raises_its_own_error(lines: list[str]) -> None:
    for text in ("\n".join(lines), patch_text(*lines)):
        with suppress(PatchSyntaxError):
            parse_patch(text)


_path = st.text("abc/.é -", min_size=1, max_size=8).map(str.strip).filter(bool)
_line = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=8)
_chunk_lines = st.lists(st.tuples(st.sampled_from(" -+"), _line).map("".join), min_size=1, max_size=5).map(tuple)
_operations = st.one_of(
    st.builds(AddOperation, _path, st.lists(_line.map("{}\n".format), max_size=4).map("".join)),
    st.builds(DeleteOperation, _path),
    st.builds(
        UpdateOperation,
        _path,
        st.lists(st.builds(Chunk, _line.filter(str.strip), _chunk_lines, st.booleans()), min_size=1).map(tuple),
    ),
)


def _spelled(operation: AddOperation | DeleteOperation | UpdateOperation) -> list[str]:
    match operation:
        case AddOperation(path, content):
            return [f"*** Add File: {path}", *(f"+{line}" for line in content.split("\n")[:-1])]
        case DeleteOperation(path):
            return [f"*** Delete File: {path}"]
        case UpdateOperation(path, chunks):
            lines = [f"*** Update File: {path}"]
            for chunk in chunks:
                lines += [f"@@ {chunk.context}", *chunk.lines, *(["*** End of File"] if chunk.at_end else [])]
            return lines


@given(st.lists(_operations, max_size=5).map(tuple))
def test_a_patch_is_read_back_as_it_was_written(operations: tuple[AddOperation | DeleteOperation | UpdateOperation, ...]) -> None:
    lines = [line for operation in operations for line in _spelled(operation)]
    assert parse_patch(patch_text(*lines)).operations == operations
