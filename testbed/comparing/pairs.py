"""Whether two variants differ by more than the noise. Pure.

Variants run interleaved, so the runs of one repetition met the same machine and the same seed: they
are pairs. What is judged is their ratio. Its logarithms are taken as normal about the true one, for
which Student's t (Biometrika, 1908) gives an interval of 95 % from two values on. It is wide for
few values, as it must be: 12.7 standard errors of two, 4.3 of three, 2.8 of five. Two variants
are *within the noise* of one another when that interval contains 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """How many times as much one variant takes as another.

    Attributes:
        ratio: geometric mean of the pairs' ratios; None where a pair has no number.
        low: lower end of its interval of 95 %; None with fewer than two pairs.
        high: upper end.
        pairs: how many.
        agree: how many of them lie on the same side of 1 as the mean.
        within_noise: whether the interval contains 1; None where there is no interval.
    """

    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    agree: int
    within_noise: bool | None

    @property
    def inverse(self) -> Ratio:
        """The same pairs the other way round."""
        return Ratio(
            _inverse(self.ratio),
            _inverse(self.high),
            _inverse(self.low),
            self.pairs,
            self.agree,
            self.within_noise,
        )


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return a / b of values that belong together, place by place.

    Args:
        a: figures of one variant, by repetition.
        b: of the other, in the same repetitions.

    Raises:
        ValueError: they are not equally many.
    """
    pairs = list(zip(a, b, strict=True))
    if not pairs or not all(x > 0 and math.isfinite(x) for pair in pairs for x in pair):
        return Ratio(None, None, None, len(pairs), 0, None)
    logs = [math.log(x / y) for x, y in pairs]
    mean = fmean(logs)
    agree = sum(log * mean > 0 or log == mean == 0 for log in logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, 1, agree, None)
    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(
        ratio=math.exp(mean),
        low=math.exp(mean - reach),
        high=math.exp(mean + reach),
        pairs=len(logs),
        agree=agree,
        within_noise=mean - reach <= 0 <= mean + reach,
    )
