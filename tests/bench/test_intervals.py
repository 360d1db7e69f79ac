"""The intervals: against figures of the papers they come from, and against what must hold of any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.bench.summary import paired_difference, ratio_of_sums, sign_test, wilson

COUNTS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("solved", "tasks", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_figures(solved: int, tasks: int, low: float, high: float) -> None:
    assert wilson(solved, tasks) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(("table", "low", "high"), [((36, 12, 2, 0), 0.0569, 0.3404), ((20, 12, 2, 16), 0.0562, 0.3292)])
def test_newcombe_gives_the_published_figures(table: tuple[int, int, int, int], low: float, high: float) -> None:
    assert paired_difference(*table) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_an_interval_holds_the_difference_and_turns_over_with_the_agents(both: int, first: int, second: int, neither: int) -> None:
    total = both + first + second + neither
    low, high = paired_difference(both, first, second, neither)
    if total:
        assert -1 <= low <= (first - second) / total <= high <= 1
    turned = paired_difference(both, second, first, neither)
    assert (turned.low, turned.high) == (pytest.approx(-high), pytest.approx(-low))


def test_without_tasks_nothing_is_known() -> None:
    assert wilson(0, 0) == (0, 1)
    assert paired_difference(0, 0, 0, 0) == (-1, 1)
    assert sign_test(0, 0) == 1
    assert ratio_of_sums([]) is None


def test_the_sign_test_is_exact() -> None:
    assert sign_test(12, 2) == pytest.approx(212 / 2**14)  # 2 * (1 + 14 + 91) of 2 ** 14
    assert sign_test(2, 12) == sign_test(12, 2)
    assert sign_test(3, 3) == 1


def test_a_ratio_has_an_interval_from_five_tasks_on_and_the_same_one_every_time() -> None:
    assert ratio_of_sums([(1, 2), (3, 2)]) == (1.0, None)
    assert ratio_of_sums([(1, 0.0)] * 6) is None
    pairs = [(10.0 + n, 20.0) for n in range(8)]
    found = ratio_of_sums(pairs)
    assert found is not None
    ratio, interval = found
    assert interval is not None
    assert ratio == pytest.approx(13.5 / 20)
    assert interval.low < ratio < interval.high
    assert ratio_of_sums(pairs) == found
