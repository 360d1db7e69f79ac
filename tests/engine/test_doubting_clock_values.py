"""To the second: when a clock is believed, what is told of it, and what is kept of the last look."""

import json
import os
import time
from pathlib import Path

import pytest

from understudy.engine.services.retention import DoubtingClock

HOUR, DAY = 3600.0, 86_400.0
BEGIN = 1_700_000_000.0
PUT_RIGHT = "the clock was put right: it is believed again, for what is too old to be kept"


def doubt(hours: int) -> str:
    return (
        f"the clock is {hours} hours ahead of the last time that a server was at work here: it was set forward, or no server ran. "
        "Nothing is deleted for its age by it before a server has run for an hour"
    )


class Bench:
    """A clock and a stopwatch that are set by hand."""

    def __init__(self, folder: Path, *, boot: str = "first") -> None:
        self.path = folder / "last"
        self.clock = self.stopwatch = 0.0
        self.start(boot)

    def start(self, boot: str) -> None:
        self.kept = DoubtingClock(self.path, lambda: BEGIN + self.clock, lambda: self.stopwatch, lambda: boot)

    def look(self, clock: float, stopwatch: float) -> float:
        self.clock, self.stopwatch = clock, stopwatch
        return self.kept.now() - BEGIN


def test_an_hour_ahead_is_believed_and_a_second_more_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path)
    assert bench.look(HOUR + 10, 10) == HOUR + 10
    assert caplog.messages == []
    assert bench.look(2 * HOUR + 11, 10) == HOUR + 10
    assert caplog.messages == [doubt(1)]
    assert bench.look(2 * HOUR + 10, 10) == 2 * HOUR + 10  # an hour ahead of what was believed
    assert caplog.messages == [doubt(1), PUT_RIGHT]
    assert bench.look(2 * HOUR + 12, 12) == 2 * HOUR + 12
    assert len(caplog.messages) == 2


def test_a_clock_that_is_set_back_is_believed_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert Bench(tmp_path).look(-5 * DAY, 60) == -5 * DAY
    assert caplog.messages == []


def test_a_doubt_lasts_for_an_hour_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path)
    assert bench.look(2.4 * DAY, 0) == 0
    assert bench.look(2.4 * DAY + 60, 60) == 60
    assert bench.look(2.4 * DAY + 3599, 3599) == 3599
    assert bench.look(2.4 * DAY + 3600, 3600) == 2.4 * DAY + 3600
    assert caplog.messages == [doubt(58)]


def test_a_clock_that_says_less_than_when_the_doubt_began_has_to_stand_for_another_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.look(10 * DAY, 0)
    assert bench.look(10 * DAY, 1000) == 1000  # it stands still, which is no less
    assert bench.look(5 * DAY, 2000) == 2000
    assert bench.look(5 * DAY, 5599) == 5599
    assert bench.look(5 * DAY, 5600) == 5 * DAY


def test_after_the_hour_only_what_the_clock_stood_by_is_believed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.look(10 * DAY, 0)
    assert bench.look(20 * DAY, 1000) == 1000
    assert bench.look(20 * DAY, 3600) == 10 * DAY + 3600
    assert bench.look(20 * DAY, 3601) == 10 * DAY + 3601


def test_a_day_is_how_long_a_machine_may_have_been_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(tmp_path)
    bench.look(0, 500)
    bench.clock, bench.stopwatch = DAY, 5
    bench.start("second")
    assert bench.look(DAY, 5) == DAY
    assert caplog.messages == []
    bench.clock = 2 * DAY + 1
    bench.start("third")
    assert bench.look(2 * DAY + 1, 5) == DAY
    assert caplog.messages == [doubt(24)]


def test_what_a_stopwatch_says_is_only_compared_within_one_run_of_the_machine(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.look(0, 500)
    bench.clock, bench.stopwatch = 3 * HOUR, 600
    bench.start("first")
    assert bench.look(3 * HOUR, 600) == 100  # the machine has run all the time: 100 seconds have passed
    bench.clock, bench.stopwatch = 6 * HOUR, 599
    bench.start("first")  # the stopwatch went back, so it is none to go by
    assert bench.look(6 * HOUR, 599) == 6 * HOUR


def test_where_runs_of_the_machine_have_no_names_each_start_is_taken_for_another_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, boot="")
    bench.look(0, 500)
    bench.clock, bench.stopwatch = 3 * HOUR, 600
    bench.start("")
    assert bench.look(3 * HOUR, 600) == 3 * HOUR


def test_a_doubt_is_kept_with_the_seconds_that_it_has_lasted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.look(60, 60)
    assert json.loads(bench.path.read_bytes()) == {
        "time": BEGIN + 60, "boot": "first", "elapsed": 60, "doubted": None, "stood": 0
    }  # fmt: skip
    bench.look(DAY, 100)
    bench.look(DAY + 50, 150)
    assert json.loads(bench.path.read_bytes()) == {
        "time": BEGIN + 150, "boot": "first", "elapsed": 150, "doubted": BEGIN + DAY, "stood": 50
    }  # fmt: skip
    bench.start("first")
    assert bench.look(DAY + 3599, 3699) == 3699
    assert bench.look(DAY + 3600, 3700) == DAY + 3600
    assert json.loads(bench.path.read_bytes()) == {
        "time": BEGIN + DAY + 3600, "boot": "first", "elapsed": 3700, "doubted": None, "stood": 0
    }  # fmt: skip
    assert os.listdir(tmp_path) == ["last"]


def test_the_clocks_of_this_machine_are_used(tmp_path: Path) -> None:
    before = time.time()
    assert before <= DoubtingClock(tmp_path / "last").now() <= time.time()
    kept = json.loads((tmp_path / "last").read_bytes())
    assert kept["elapsed"] > 0
    names = Path("/proc/sys/kernel/random/boot_id")
    assert kept["boot"] == (names.read_text().strip() if names.exists() else "")
