"""The bell: everybody but the one who rang hears it, also when that one is gone."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from tests.store.records import append, new_id, noticed, open_log, opened
from understudy.store.sqlite.hints import CELLS, SIZE, Bell
from understudy.testing.waiting import WAIT_SECONDS, Watched

RINGER = """
import sys
from pathlib import Path
from understudy.testing.waiting import Watched
from understudy.store.sqlite.hints import Bell
bell = Bell(Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    bell.ring()
    print("rung", flush=True)
"""


def test_it_is_heard_by_all_but_the_one_who_rang(tmp_path: Path) -> None:
    with closing(Bell(tmp_path / "bell")) as one, closing(Bell(tmp_path / "bell")) as other:
        mine, theirs = one.heard(), other.heard()
        one.ring()
        assert one.heard() == mine
        assert other.heard() != theirs
        theirs = other.heard()
        assert other.heard() == theirs


def test_a_ring_of_another_process_is_heard_and_outlives_it(tmp_path: Path) -> None:
    with closing(Bell(tmp_path / "bell")) as bell:
        ringer = subprocess.Popen(
            [sys.executable, "-c", RINGER, str(tmp_path / "bell")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert ringer.stdin is not None
        assert ringer.stdout is not None
        assert ringer.stdout.readline() == "ready\n"
        before = bell.heard()
        ringer.stdin.write("\n")
        ringer.stdin.flush()
        assert ringer.stdout.readline() == "rung\n"
        os.kill(ringer.pid, signal.SIGKILL)
        ringer.wait(WAIT_SECONDS)
        ringer.stdin.close()
        ringer.stdout.close()
        after = bell.heard()
        assert after != before
        with closing(Bell(tmp_path / "bell")) as successor:  # has the cell that was freed
            assert bell.heard() == after
            successor.ring()
            assert bell.heard() != after


def test_who_finds_no_cell_free_is_heard_and_takes_everything_for_changed(tmp_path: Path) -> None:
    with ExitStack() as opened_ones:
        bells = [opened_ones.enter_context(closing(Bell(tmp_path / "bell"))) for _ in range(CELLS + 1)]
        assert bells[0].heard() == bells[0].heard()
        assert bells[-1].heard() != bells[-1].heard()
        for late in bells[-2:]:
            before = bells[0].heard()
            late.ring()
            assert bells[0].heard() != before


def test_a_bell_that_cannot_be_opened_is_tried_again_with_the_next_ring(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with closing(Bell(folder / "bell")) as bell:
        bell.ring()
        assert bell.heard() != bell.heard()
        folder.mkdir()
        bell.ring()
        assert bell.heard() == bell.heard()
        assert (folder / "bell").stat().st_size == SIZE


async def test_a_store_hears_other_stores_and_not_itself(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    heard: list[str] = []
    watched = Watched()

    def told(who: str) -> None:
        heard.append(who)
        watched.change()

    await append(log, opened(name))
    for one, who in ((log, "log"), (other, "other")):
        one.listen(name, lambda who=who: told(who))
    for number in (2, 3):
        heard.clear()
        await append(log, noticed(name, 1, number))
        await watched.until(lambda: heard or None, "a hint")
        assert set(heard) == {"other"}
    log.close()
    other.close()
