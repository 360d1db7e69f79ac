"""Moments are written as `datetime` would write them, whatever is kept of the second before."""

import random
from datetime import UTC, datetime

import pytest

from understudy.servers.times import rfc3339
from understudy.store.log import LATEST


def by_datetime(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 0.9996, 1.9999995, 1763500000.0, 1763500000.9999997, 4102444800.0005, LATEST])
def test_a_moment_has_milliseconds(seconds: float) -> None:
    assert rfc3339(seconds) == by_datetime(seconds)


def test_any_moments_one_after_another() -> None:
    chance = random.Random(5)
    for _ in range(2000):
        second = chance.randrange(4_000_000_000)
        for _ in range(3):
            assert rfc3339(moment := second + chance.random()) == by_datetime(moment)
