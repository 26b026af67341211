"""Data whose mean is known exactly, whatever the order in which it is summed.

Whole numbers of at most 1000 have exact sums in float32 for any number of islands that fits here,
and fixed-point codes hold them exactly too. So every kind of collective must give the very bits of
the quotient, and a comparison needs no tolerance that could hide a mistake.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

LARGEST = 1000


def contribution(seed: int, rank: int, elements: int) -> Tensor:
    """Return what a rank contributes: whole numbers from -1000 to 1000 as float32."""
    generator = np.random.default_rng((seed, rank, elements))
    whole = generator.integers(-LARGEST, LARGEST, elements, endpoint=True)
    return torch.from_numpy(whole.astype(np.float32))


def expected_mean(seed: int, ranks: int, elements: int) -> Tensor:
    """Return the exact mean over all ranks, rounded once to float32."""
    total = sum(contribution(seed, rank, elements).double() for rank in range(ranks))
    assert isinstance(total, Tensor)
    return total.float() / ranks


def wrong_elements(result: Tensor, expected: Tensor) -> int:
    """Return how many elements differ in any bit."""
    return int((result.view(torch.int32) != expected.view(torch.int32)).sum())
