"""Bytes to lines: however the bytes are cut, the same lines."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.servers.pipes import LineSplitter, OverlongLine
from understudy.testing.waiting import WAIT_SECONDS

_line = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"?"))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(borders)]


@given(st.lists(_line, max_size=8), st.lists(st.integers(0, 250), max_size=12), st.sampled_from([b"\n", b"\r\n"]))
@settings(max_examples=300)
def test_lines_do_not_depend_on_where_the_bytes_are_cut(lines: list[bytes], places: list[int], end: bytes) -> None:
    data = b"".join(line + end for line in lines)
    expected = [stripped for line in lines if (stripped := (line + end[:-1]).strip(b" \t\r"))]
    splitter = LineSplitter()
    assert [line for chunk in cut(data, places) for line in splitter.feed(chunk)] == expected
    assert splitter.rest() == b""


@given(st.lists(_line, min_size=1, max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_a_last_line_without_an_end_is_kept_for_the_end_of_input(lines: list[bytes], places: list[int]) -> None:
    data = b"\n".join(lines)
    splitter = LineSplitter()
    whole = [line for chunk in cut(data, places) for line in splitter.feed(chunk)]
    assert [*whole, splitter.rest()] == [*(kept for line in lines[:-1] if (kept := line.strip(b" \t\r"))), lines[-1].strip()]


def test_byte_by_byte_it_is_the_same() -> None:
    splitter = LineSplitter()
    assert [line for byte in b'{"a":1}\r\n\r\n \n{}\n' for line in splitter.feed(bytes([byte]))] == [b'{"a":1}', b"{}"]


@pytest.mark.parametrize("chunk", [1, 7, 100, 1000])
def test_a_line_beyond_the_limit_is_dropped_and_the_next_one_is_read(chunk: int) -> None:
    splitter = LineSplitter(limit=50)
    data = b"a" * 200 + b"\n" + b"b" * 50 + b"\n" + b"c" * 51 + b"\nd\n"
    lines = [line for start in range(0, len(data), chunk) for line in splitter.feed(data[start : start + chunk])]
    if chunk > 50:
        assert lines[-1] == b"d"
        return  # a line within one chunk has cost its memory already
    assert lines == [b"a" * len(lines[0]), b"b" * 50, b"c" * len(lines[2]), b"d"]
    assert [type(line) is OverlongLine for line in lines] == [True, False, True, False]


def test_of_a_line_beyond_the_limit_only_the_beginning_is_kept() -> None:
    splitter = LineSplitter(limit=5000)
    for _ in range(100):
        assert splitter.feed(b"x" * 1000) == []
    assert splitter.rest() == b"x" * 2000
    assert isinstance(splitter.rest(), OverlongLine)
    assert splitter.feed(b"\n{}\n") == [b"x" * 2000, b"{}"]
    assert splitter.rest() == b""
    assert not isinstance(splitter.rest(), OverlongLine)


SHORT_OF_MEMORY = """
import resource
from understudy.servers.pipes import LineSplitter, LineWithoutMemory, read_message

splitter = LineSplitter()
size = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + 45 * 2**20, resource.RLIM_INFINITY))
splitter.feed(b'{"id": 7, "method": "x", "params": "' + b"a" * 1000)
for _ in range(300):
    splitter.feed(b"a" * 100_000)
line, following = splitter.feed(b'"}\\n{"id": 8, "method": "ping"}\\n')
print(type(line) is LineWithoutMemory, read_message(line), read_message(following))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
def test_a_line_for_which_there_is_no_memory_is_refused_by_its_id_and_the_next_one_is_read() -> None:
    ran = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("True Malformed(")
    assert "no memory left" in ran.stdout
    assert "7" in ran.stdout.partition("Request(")[0]
    assert "Request(id=8, method='ping'" in ran.stdout
