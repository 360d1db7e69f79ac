"""What a search costs, counted: pages that are read, and rows of the log. They may not grow with the store.

Pages are counted by what a process asks the kernel for, with nothing in SQLite's own cache: each read is a page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.store.records import open_log
from tests.store.search.said import agent, found, printed, say, user
from understudy.testing.waiting import WAIT_SECONDS

COUNTER = """
import json, sys
from pathlib import Path
from understudy.store.search.asked import Wanted
from understudy.store.search.index import Index
from understudy.store.search.log_reader import LogReader

def reads():
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["syscr"])

rows = 0
record = LogReader.record
def counted(self, conversation, seq):
    global rows
    rows += 1
    return record(self, conversation, seq)
LogReader.record = counted
path = Path(sys.argv[1])
told = []
for wanted in json.loads(sys.argv[2]):
    index = Index(path)
    index.find(Wanted(words="zzzz"), str)  # what is opened
    index.close()
    index = Index(path)
    index.progress()
    rows, before = 0, reads()
    hits = len(index.find(Wanted(**wanted), str).hits)
    told.append((hits, reads() - before - 1, rows))
    index.close()
print(json.dumps(told))
"""

QUERIES: tuple[dict[str, Any], ...] = (
    {"words": "common"},
    {"words": "rare"},
    {"words": "nowhere"},
    {"words": "common", "role": "user"},
    {"words": "common agreed"},
    {"words": "common", "folder": "/work/3"},
    {"words": "common", "since": 5_000_000.0},
    {"words": '"common word"'},
    {"words": "common", "owner": "ann"},
    {"words": "common", "owner": "nobody"},
    {"words": "printed", "role": "user"},
)
NOTHING = {2: 60, 9: 6, 10: 30}  # of these, which find nothing: the pages that they may read


def cost(folder: Path) -> list[tuple[int, int, int]]:
    argv: Sequence[str] = [sys.executable, "-c", COUNTER, str(folder / "conversations.db"), json.dumps(QUERIES)]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=4 * WAIT_SECONDS)
    return [tuple(each) for each in json.loads(done.stdout)]


async def fill(folder: Path, conversations: int) -> None:
    log = open_log(folder)
    for number in range(conversations):
        owner = "ann" if number % 10 == 0 else "local"
        texts = [user(f"a common word {number} {turn}") for turn in range(10)]
        rest = [agent("agreed, a common one"), printed("printed " + "and more " * 20)] * 5
        rare = [agent("rare")] if number % (conversations // 4) == 0 else []
        await say(log, [*texts, *rest, *rare], owner=owner, folder=f"/work/{number % 20}", at=number * 1000.0)
    assert await found(log, "nowhere") == []
    log.close()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count what is read")
async def test_a_search_reads_what_it_shows_however_much_there_is(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    await fill(few, 60)
    await fill(many, 1200)  # twenty times as many
    small, large = cost(few), cost(many)
    for query, (hits, pages, rows), (_, pages_before, _) in zip(QUERIES, large, small, strict=True):
        assert rows == hits, query  # no record is read that is not shown
        assert hits <= 20, query
        assert pages <= max(4 * pages_before, 80), (query, pages_before, pages)  # of twenty times as much
        assert pages <= 200, (query, pages)
    for number, most in NOTHING.items():
        hits, pages, _ = large[number]
        assert hits == 0
        assert pages <= most, (QUERIES[number], pages)
