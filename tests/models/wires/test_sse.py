"""Splitting server-sent events: any cut of the bytes gives the same payloads, checked against a plain reading of the format."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.models.wires.sse import EventTooLarge, SseSplitter

BOM = b"\xef\xbb\xbf"
CHARACTERS = "ab: é€😀\u2028\x0b\x0c\x1c\x85{}"  # with all that other splitters of lines stumble over
ODD_LINES = (b"data", b"data:", b"data: ", b":", b": keep-alive", b"event: x", b"id: 1", b"dat", b"data\xff", BOM, b"")


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    start = draw(st.sampled_from(["", "data:", "data: "]))
    text = start + draw(st.text(alphabet=CHARACTERS, max_size=8))
    return draw(st.sampled_from([*ODD_LINES, *[text.encode()] * 8]))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    pieces = [draw(st.sampled_from([b"", BOM]))]
    for line in draw(st.lists(lines(), max_size=12)):
        pieces += [line, draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))]
    return b"".join([*pieces, draw(lines())])


def plainly_read(data: bytes) -> list[bytes]:
    """The format as its definition puts it, on all the bytes at once; an event at the end needs no blank line."""
    payloads: list[bytes] = []
    held: list[bytes] = []
    for line in [*re.split(rb"\r\n|\r|\n", data.removeprefix(BOM)), b""]:
        if line == b"":
            if held:
                payloads.append(b"\n".join(held))
            held = []
            continue
        name, _, value = line.partition(b":")
        if name == b"data":
            held.append(value.removeprefix(b" "))
    return payloads


def split(chunks: list[bytes]) -> list[bytes]:
    splitter = SseSplitter()
    payloads = [payload for piece in chunks for payload in splitter.feed(piece)]
    return [*payloads, *splitter.close()]


@settings(deadline=None)  # the machine may be busy
@given(streams(), st.data())
def test_any_cut_gives_the_same_payloads(data: bytes, choose: st.DataObject) -> None:
    cuts = sorted(choose.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    chunks = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert split(chunks) == plainly_read(data)


@settings(deadline=None)
@given(streams())
def test_bytes_one_by_one_give_the_same_payloads(data: bytes) -> None:
    assert split([bytes([byte]) for byte in data]) == plainly_read(data)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_event_is_there_as_soon_as_its_blank_line_is(end: str) -> None:
    splitter = SseSplitter()
    assert splitter.feed(f"data: one{end}".encode()) == []
    assert splitter.feed(end.encode()) == [b"one"]
    assert splitter.feed(f": alive{end}{end}data: é".encode()[:-1]) == []
    assert splitter.feed("é".encode()[-1:] + f"{end}data:two{end}{end}".encode()) == ["é\ntwo".encode()]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 50, b"data: xxxxxxxxxx\n"], ids=["one line", "many lines"])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    splitter = SseSplitter(limit=1000)
    with pytest.raises(EventTooLarge):
        any(splitter.feed(piece) for _ in range(100))


def test_events_below_the_limit_may_follow_each_other_for_ever() -> None:
    splitter = SseSplitter(limit=1000)
    assert sum(len(splitter.feed(b"data: " + b"x" * 300 + b"\n\nda")) + len(splitter.feed(b"ta: y\n\n")) for _ in range(50)) == 100
