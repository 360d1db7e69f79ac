"""Conversation ids as callers spell them, and the words for one that is none."""

import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.protocol.ids import new_uuid, read_uuid

CANONICAL = "67e55044-10b1-426f-9247-bb680e5fe0c8"
CHARACTER = "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found"
LENGTH = "invalid length: expected length 32 for simple format, found"


@pytest.mark.parametrize(
    "spelled",
    [
        CANONICAL,
        CANONICAL.upper(),
        CANONICAL.replace("-", ""),
        f"urn:uuid:{CANONICAL}",
        f"{{{CANONICAL}}}",
        f"{{{CANONICAL.upper()}}}",
    ],
)
def test_every_spelling_of_an_id_is_the_same_id(spelled: str) -> None:
    assert read_uuid(spelled) == CANONICAL


@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        ("", f"{LENGTH} 0"),
        ("abc", f"{LENGTH} 3"),
        ("a" * 33, f"{LENGTH} 33"),
        ("not-a-uuid", f"{CHARACTER} `n` at 1"),
        ("67e55044 10b1", f"{CHARACTER} ` ` at 9"),
        ("urn:uuid:xyz", f"{CHARACTER} `x` at 10"),
        ("{67z}", f"{CHARACTER} `z` at 4"),
        ("{67e5", f"{CHARACTER} `{{` at 1"),
        ("67e55044-10b1-426f-9247", "invalid group count: expected 5, found 4"),
        (f"{CANONICAL}-0", "invalid group count: expected 5, found 6"),
        ("-", "invalid group count: expected 5, found 2"),
        ("67e55044-10b1-426f-9247-bb680e5fe0c", "invalid group length in group 4: expected 12, found 11"),
        ("67e5504-10b1-426f-9247-bb680e5fe0c88", "invalid group length in group 0: expected 8, found 7"),
        ("67e55044-10b-1426f-9247-bb680e5fe0c8", "invalid group length in group 1: expected 4, found 3"),
    ],
)
def test_what_is_no_id_is_told_why(spelled: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_uuid(spelled)
    assert str(caught.value) == reason


@given(st.uuids(), st.sampled_from(["{}", "urn:uuid:{}", "{{{}}}"]), st.booleans())
def test_any_uuid_reads_back(value: uuid.UUID, shape: str, upper: bool) -> None:
    text = str(value).upper() if upper else str(value)
    assert read_uuid(shape.format(text)) == str(value)


@given(st.text(max_size=60))
def test_any_text_gives_an_id_or_a_reason(text: str) -> None:
    try:
        read = read_uuid(text)
    except ValueError as error:
        read = str(error)
    assert read.startswith("invalid ") or uuid.UUID(read)


def test_a_process_and_its_child_give_out_different_ids() -> None:
    new_uuid()  # so that some are left over
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read().decode() != new_uuid()
