"""The time of records: a clock that is set back for a moment makes nothing old, and one that is put right is believed."""

from __future__ import annotations

import pytest

from understudy.engine.record_clock import RecordClock

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
