"""What is kept of output: never more than the limits, all of it when short, else head, mark and tail."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.tools.output import MODEL_BYTES, MODEL_LINES, ForModel, HeadTail, model_text

_chunks = st.lists(st.binary(max_size=60), max_size=12)


@given(_chunks, st.integers(2, 100))
@settings(max_examples=300)
def test_head_and_tail_are_the_ends_of_all_that_was_fed(chunks: list[bytes], limit: int) -> None:
    kept, whole = HeadTail(limit), b"".join(chunks)
    for chunk in chunks:
        kept.feed(chunk)
    assert kept.length == len(whole)
    assert kept.lines == whole.count(b"\n")
    assert kept.head() == whole[:limit]
    assert kept.tail() == whole[-limit:] if whole else kept.tail() == b""
    assert kept.whole == (len(whole) <= limit)


@given(_chunks, st.integers(2, 100))
@settings(max_examples=300)
def test_the_text_is_whole_or_says_how_much_is_missing(chunks: list[bytes], limit: int) -> None:
    kept, whole = HeadTail(limit), b"".join(chunks)
    for chunk in chunks:
        kept.feed(chunk)
    text = kept.text()
    if len(whole) <= limit:
        assert text == whole.decode(errors="replace")
    else:
        found = re.search(r"\n\[\.\.\. omitted (\d+) of (\d+) bytes \.\.\.\]\n", text)
        assert found is not None
        assert int(found[2]) == len(whole)
        assert int(found[1]) == len(whole) - 2 * (limit // 2)
        assert text.startswith(whole[: limit // 2].decode(errors="replace"))
        assert text.endswith(whole[-(limit // 2) :].decode(errors="replace"))


def test_memory_does_not_grow_with_the_output() -> None:
    kept = HeadTail(1000)
    for _ in range(5000):
        kept.feed(b"x" * 997)
    assert kept.length == 5000 * 997
    assert sum(len(piece) for piece in kept._tail) <= 3000  # pyright: ignore[reportPrivateUsage]


_line = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"?"))
_output = st.one_of(
    st.lists(_line, max_size=400).map(lambda lines: b"\n".join(lines)),
    st.tuples(_line, st.integers(1, 2000)).map(lambda pair: (pair[0] + b"\n") * pair[1]),
    st.tuples(st.sampled_from([b"x", "é".encode(), "😀".encode(), b"\xff", b"\x80", b"ab\n"]), st.integers(0, 15000)).map(
        lambda pair: pair[0] * pair[1]
    ),
    st.binary(max_size=300).flatmap(lambda raw: st.integers(1, 200).map(lambda times: raw * times)),
)


@given(_output, st.integers(1, 5000))
@settings(max_examples=300, deadline=None)
def test_a_model_is_given_at_most_ten_kilobytes_and_256_lines(output: bytes, size: int) -> None:
    kept = ForModel()
    for start in range(0, len(output), size):
        kept.feed(output[start : start + size])
    text = kept.text()
    lines = output.count(b"\n") + int(bool(output) and not output.endswith(b"\n"))
    if len(output) <= MODEL_BYTES and lines <= MODEL_LINES:
        assert text == output.decode(errors="replace")
        return
    assert len(text.encode()) <= MODEL_BYTES
    assert "[... omitted " in text
    assert text.count("\n") <= MODEL_LINES + 4
    head, _, tail = text.partition("[... omitted ")
    assert output.decode(errors="replace").startswith(head.rstrip("\n")[:50].rstrip("�"))
    assert tail


def test_long_output_names_the_lines_left_out() -> None:
    kept = ForModel()
    kept.feed(b"".join(b"line %d\n" % n for n in range(1000)))
    text = kept.text()
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 998\nline 999\n")
    assert "[... omitted 744 of 1000 lines ...]" in text


def test_a_character_is_not_cut_in_half() -> None:
    kept = ForModel()
    kept.feed("é".encode() * 20_000)
    assert "�" not in kept.text()
    kept = ForModel()
    kept.feed(b"x" + "😀".encode() * 20_000)
    assert "�" not in kept.text()


def test_the_model_reads_the_outcome_as_json() -> None:
    told = json.loads(model_text('say "hi"\n', 3, 1.26))
    assert told == {"output": 'say "hi"\n', "metadata": {"exit_code": 3, "duration_seconds": 1.3}}
