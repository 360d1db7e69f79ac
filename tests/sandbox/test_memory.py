"""Memory that is copied for a waiting cell ahead of its command: what the cell before it wrote to, and no more."""

import json
import marshal
import os
import subprocess
import sys

import pytest

from understudy.sandbox.cell.spawn import Started
from understudy.testing.waiting import WAIT_SECONDS

# A child of a process with 64 pages writes to some of them, and another one has those copied before it writes to them too.
PROGRAM = """
import ctypes, json, mmap, os, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from understudy.sandbox.cell import memory

memory.Pages.open()
held = mmap.mmap(-1, 64 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
first = ctypes.addressof(ctypes.c_char.from_buffer(held))
held[:] = bytes(len(held))
wanted = [*range(3, 33), *range(40, 50)]  # more than the interpreter writes to by itself

def write():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for page in wanted:
        held[page * mmap.PAGESIZE] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def in_child(act):
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, json.dumps(act()).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(reader, 1 << 16))

def written():
    pages = memory.Pages.open()
    write()
    return [(begin, length) for begin, length in pages.written() if first <= begin < first + len(held)]

def ahead():
    memory.copy_ahead(runs)
    return write()

runs = in_child(written)
pages = sorted(((begin - first) // mmap.PAGESIZE, length // mmap.PAGESIZE) for begin, length in runs)
print(json.dumps([pages, in_child(write) >= len(wanted), in_child(ahead) < len(wanted), held[3 * mmap.PAGESIZE]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there are cells")
def test_what_one_child_wrote_to_is_copied_ahead_for_the_next() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(sys.path)]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_SECONDS, check=True)
    pages, faults_without, spared, of_the_parent = json.loads(done.stdout)
    assert pages == [[3, 30], [40, 10]]
    assert (faults_without, spared, of_the_parent) == (True, True, 0)


@pytest.mark.parametrize("kept", [-1, 20, 3], ids=["all", "half", "nearly-nothing"])
def test_a_list_that_did_not_fit_the_pipe_does_no_harm(kept: int) -> None:
    runs = marshal.dumps([(1 << 40, 4096), (1 << 41, 8192)])
    reader, writer = os.pipe()
    os.write(writer, b"\0" + marshal.dumps([b"/work/.git"]) + (runs if kept < 0 else runs[:kept]))
    os.close(writer)
    cell = Started(1, os.open(os.devnull, os.O_RDONLY), (True, None), reader)
    assert cell.covers() == [b"/work/.git"]
    assert cell.written == ([(1 << 40, 4096), (1 << 41, 8192)] if kept < 0 else [])
    cell.close()
