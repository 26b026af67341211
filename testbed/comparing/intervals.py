"""What a handful of repetitions says about a median. Pure.

Repetitions of an emulation cost a minute, so there are two to five of them, and nothing is known of
how they are distributed. The interval of order statistics needs to know nothing (Le Boudec,
"Performance Evaluation of Computer and Communication Systems", 2010, theorem 2.1): of n values in
order, the true median lies between the k-th smallest and the k-th largest with probability

    1 - 2 * P(B < k),   B binomial(n, 1/2)

unless the distribution has steps, where it is at least that. So the smallest and the largest of
three values hold the true median in 75 of 100 experiments, no more, and six values are the fewest
that reach 95. A bootstrap (Efron, 1979) would draw a narrower interval from three values, and would
be wrong about it: it can never look beyond the values it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.stats import binom

WANTED_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A median and where the true one may lie.

    Attributes:
        median: of the values.
        low: lower end of the interval.
        high: upper end of the interval.
        confidence: probability with which such an interval holds the true median; 0 for one value.
        values: in the order of the repetitions; infinite where a target was never reached.
    """

    median: float
    low: float
    high: float
    confidence: float
    values: tuple[float, ...]


def coverage(count: int, rank: int) -> float:
    """Return how often the `rank`-th smallest and largest of `count` values hold the median."""
    return max(0.0, 1 - 2 * float(binom.cdf(rank - 1, count, 0.5)))


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with the narrowest symmetric interval of 95 %, or the widest there is.

    Raises:
        ValueError: there is no value, or one is no number.
    """
    if not values or any(math.isnan(value) for value in values):
        raise ValueError(f"no median of {values!r}")
    ordered, count = sorted(values), len(values)
    ranks = range(1, (count + 1) // 2 + 1)
    enough = [rank for rank in ranks if coverage(count, rank) >= WANTED_CONFIDENCE]
    rank = max(enough, default=1)
    return Interval(
        median=median(ordered),
        low=ordered[rank - 1],
        high=ordered[count - rank],
        confidence=coverage(count, rank),
        values=tuple(values),
    )


def statement(count: int) -> str:
    """Return in words what intervals of so many values mean."""
    if count < 2:
        return "One run of each variant: no interval, and no telling what is noise."
    found = median_interval([float(value) for value in range(count)])
    whole = (found.low, found.high) == (0.0, count - 1.0)
    ends = "its smallest and largest value" if whole else "values in between"
    return (
        f"{count} repetitions: an interval is {ends} and holds the true median in "
        f"{100 * found.confidence:.0f} of 100 experiments"
        + ("; 6 repetitions would reach 95." if count < 6 else ".")
    )
