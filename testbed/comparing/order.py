"""Whether the measurement puts variants in the order that was predicted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

AS_GOOD_AS_EQUAL = 0.01
"""Predictions that differ by less say nothing about an order."""


@dataclass(frozen=True)
class Inversion:
    """Two variants of which the one predicted to be faster was measured to be slower.

    Attributes:
        faster: by prediction.
        slower: by prediction.
        predicted_ratio: slower / faster, above 1.
        measured_ratio: slower / faster, below 1.
        within_noise: whether repetitions do not tell them apart; None with too few of them.
    """

    faster: str
    slower: str
    predicted_ratio: float
    measured_ratio: float
    within_noise: bool | None


def inversions(
    predicted_s: Mapping[str, float],
    measured_s: Mapping[str, float],
    noisy: Callable[[str, str], bool | None],
) -> tuple[Inversion, ...]:
    """Return all pairs that prediction and measurement order differently.

    Args:
        predicted_s: seconds of each variant, by prediction.
        measured_s: of the same variants, measured.
        noisy: whether a difference of two variants is within the noise.
    """
    return tuple(
        Inversion(
            faster,
            slower,
            predicted_s[slower] / predicted_s[faster],
            measured_s[slower] / measured_s[faster],
            noisy(faster, slower),
        )
        for faster, slower in permutations(predicted_s, 2)
        if predicted_s[slower] > predicted_s[faster] * (1 + AS_GOOD_AS_EQUAL)
        and measured_s[slower] < measured_s[faster]
    )
