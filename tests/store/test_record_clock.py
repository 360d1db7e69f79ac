"""The time of records: a clock that is set back for a moment makes nothing old, and one that is put right is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.store.record_clock import RecordClock

DAY = 86_400.0


class Times:
    def __init__(self) -> None:
        self.told, self.passed = 1_800_000_000.0, 1000.0

    def go(self, seconds: float, jump: float = 0.0) -> None:
        self.told += seconds + jump
        self.passed += seconds


def clock_of(times: Times) -> RecordClock:
    return RecordClock(lambda: times.told, lambda: times.passed)


@pytest.mark.parametrize("days", [0.1, 1, 400, 9000])
def test_a_clock_that_was_set_back_is_not_believed_within_the_hour(days: float) -> None:
    times = Times()
    clock, right = clock_of(times), times.told
    times.go(10, jump=-days * DAY)
    assert clock.now() == pytest.approx(right + 10)
    times.go(2, jump=days * DAY)
    assert clock.now() == pytest.approx(right + 12)


def test_it_is_believed_once_it_has_stood_by_that_for_an_hour() -> None:
    times = Times()
    clock = clock_of(times)
    times.go(10, jump=-400 * DAY)
    clock.now()
    times.go(3601)
    assert clock.now() == times.told


def test_one_that_was_set_forward_and_put_right_is_believed_at_once() -> None:
    times = Times()
    clock = clock_of(times)
    times.go(10, jump=400 * DAY)
    assert clock.now() == times.told
    times.go(2, jump=-400 * DAY)
    assert clock.now() == times.told


def test_small_corrections_are_followed() -> None:
    times = Times()
    clock = clock_of(times)
    for jump in (-30.0, 45.0, -3000.0):
        times.go(5, jump=jump)
        assert clock.now() == times.told


def started(times: Times, newest: float, note: Path) -> RecordClock:
    return RecordClock(lambda: times.told, lambda: times.passed, newest=newest, note=note)


def test_a_process_that_starts_with_a_clock_behind_the_newest_record_goes_on_from_that(tmp_path: Path) -> None:
    times, note = Times(), tmp_path / "note"
    right = times.told
    times.go(0, jump=-400 * DAY)
    for _ in range(3):  # processes
        assert started(times, right, note).now() == pytest.approx(right)
        times.go(60)
    clock = started(times, right, note)
    times.go(10, jump=400 * DAY)
    assert clock.now() == times.told, "put right"


def test_where_a_record_is_of_the_future_the_clock_is_believed_after_an_hour_of_many_short_processes(tmp_path: Path) -> None:
    times, note = Times(), tmp_path / "note"
    future = times.told + 3000 * DAY
    for _ in range(61):
        assert started(times, future, note).now() == pytest.approx(future)
        times.go(60)
    assert started(times, future, note).now() == times.told
    times.go(DAY)
    assert started(times, future, note).now() == times.told


def test_a_note_of_an_earlier_time_does_not_count(tmp_path: Path) -> None:
    times, note = Times(), tmp_path / "note"
    right = times.told
    times.go(0, jump=-400 * DAY)
    started(times, right, note)
    times.go(1, jump=400 * DAY)
    started(times, right, note)
    times.go(2 * 3600, jump=-400 * DAY)
    assert started(times, right, note).now() == pytest.approx(right)


@pytest.mark.parametrize("content", [b"", b"nan", b"inf", b"-inf", b"1e400", b"\xff\x00", b"9" * 5000])
def test_a_damaged_note_leaves_the_clock_in_doubt(tmp_path: Path, content: bytes) -> None:
    times, note = Times(), tmp_path / "note"
    note.write_bytes(content)
    assert started(times, times.told + DAY, note).now() == pytest.approx(times.told + DAY)
