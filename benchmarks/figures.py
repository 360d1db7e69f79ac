"""The few numbers that are taken of samples."""

import math
from collections.abc import Sequence
from statistics import median

__all__ = ["median", "quantile", "spread"]


def quantile(samples: Sequence[float], share: float) -> float:
    """The sample below which `share` of them lie (nearest rank)."""
    if not samples:
        return math.nan
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def spread(samples: Sequence[float]) -> float:
    """Half the range that holds the middle half of the samples, relative to their median."""
    middle = median(samples)
    return (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / middle if middle else 0.0
