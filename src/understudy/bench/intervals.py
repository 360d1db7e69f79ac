"""Intervals for small samples: Wilson's for a share, Newcombe's for the difference of two paired shares, a bootstrap for ratios.

Tasks are the sample. Repetitions of a task are averaged first, so counts may be fractions; that makes intervals at most too wide.
"""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

Z = 1.959963984540054  # 95 %
RESAMPLES = 10_000
FEWEST_FOR_BOOTSTRAP = 5
SEED = 20_260_101  # the same interval for the same results, every time


class Interval(NamedTuple):
    low: float
    high: float


def wilson(solved: float, tasks: int) -> Interval:
    """For a share of `tasks`, from 0 to 1. Holds for few tasks and for shares near 0 and 1, unlike the normal one."""
    if tasks == 0:
        return Interval(0.0, 1.0)
    share = solved / tasks
    spread = Z * math.sqrt(share * (1 - share) / tasks + Z * Z / (4 * tasks * tasks))
    centre, scale = share + Z * Z / (2 * tasks), 1 + Z * Z / tasks
    return Interval(max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def paired_difference(both: float, first_only: float, second_only: float, neither: float) -> Interval:
    """Newcombe's interval (1998, method 10) for the share that the first solved minus the share that the second did."""
    total = both + first_only + second_only + neither
    tasks = round(total)
    if tasks == 0:
        return Interval(-1.0, 1.0)
    first, second = (both + first_only) / total, (both + second_only) / total
    low1, high1 = wilson(both + first_only, tasks)
    low2, high2 = wilson(both + second_only, tasks)
    correlation = _correlation(both, first_only, second_only, neither)

    def spread(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))

    difference = first - second
    low, high = difference - spread(first - low1, high2 - second), difference + spread(high1 - first, second - low2)
    return Interval(max(-1.0, low), min(1.0, high))


def _correlation(both: float, first_only: float, second_only: float, neither: float) -> float:
    """Of the two outcomes, with Newcombe's continuity correction, which only ever weakens it."""
    product = (both + first_only) * (second_only + neither) * (both + second_only) * (first_only + neither)
    if product <= 0:
        return 0.0
    covariance = both * neither - first_only * second_only
    if covariance > 0:
        covariance = max(0.0, covariance - (both + first_only + second_only + neither) / 2)
    return covariance / math.sqrt(product)


def sign_test(wins: int, losses: int) -> float:
    """The exact chance of a split at least as uneven if both are equally good: McNemar's exact test, with one repetition."""
    decided = wins + losses
    if decided == 0:
        return 1.0
    tail = sum(math.comb(decided, count) for count in range(min(wins, losses) + 1)) / 2**decided
    return min(1.0, 2 * tail)


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> tuple[float, Interval | None] | None:
    """The first sum over the second, and its interval by a paired bootstrap over tasks, if there are enough of them."""
    below = sum(second for _, second in pairs)
    if not pairs or below <= 0:
        return None
    ratio = sum(first for first, _ in pairs) / below
    if len(pairs) < FEWEST_FOR_BOOTSTRAP:
        return ratio, None
    chance = random.Random(SEED)
    ratios: list[float] = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=len(pairs))
        under = sum(second for _, second in drawn)
        if under > 0:
            ratios.append(sum(first for first, _ in drawn) / under)
    ratios.sort()
    edge = int(len(ratios) * 0.025)
    return ratio, Interval(ratios[edge], ratios[-1 - edge])
