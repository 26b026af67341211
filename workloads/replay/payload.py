"""Numbers whose mean over any islands is known exactly, and cheap to compute.

Every island draws on one pattern of whole numbers from 0 to 999 and multiplies it by a whole number
of its own from 1 to 7. Sums over up to a thousand islands are whole numbers below 2^24, which
float32 holds exactly in whatever order they are added, and so do fixed-point codes. The mean is one
division, rounded once. So a collective must give the very bits, and a lost, doubled or misplaced
part is seen. Each part of each round begins elsewhere in the pattern: an old message is no match.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workloads.errors import CollectiveError

LARGEST = 999
WEIGHTS = 7
PERIOD = 4093  # prime, so that parts and rounds do not fall into step
STRIDE = 1021


class Payload:
    """The numbers of one job; `longest` is the size of its longest message."""

    def __init__(self, longest: int, seed: int) -> None:
        drawn = np.random.default_rng(seed).integers(0, LARGEST + 1, longest + PERIOD)
        self._pattern = torch.from_numpy(drawn.astype(np.float32))

    def message(self, rank: int, number: int, part: int, elements: int) -> Tensor:
        """Return what a rank says in one part of round `number`, in a new tensor."""
        return self._window(number, part, elements) * weight(rank)

    def require_mean(self, mean: Tensor, ranks: Sequence[int], number: int, part: int) -> None:
        """Compare a mean with what it must be.

        Raises:
            CollectiveError: a number differs in any bit.
        """
        total = sum(weight(rank) for rank in ranks)
        expected = (self._window(number, part, len(mean)) * total).div_(len(ranks))
        if not torch.equal(mean, expected):
            wrong = torch.nonzero(mean != expected).flatten()
            first = int(wrong[0])
            raise CollectiveError(
                f"wrong sum in round {number}: {len(wrong)} of {len(mean)} numbers of part {part}, "
                f"the first at index {first}: {mean[first]:g} in place of {expected[first]:g}"
            )

    def _window(self, number: int, part: int, elements: int) -> Tensor:
        start = (STRIDE * (number + 1) + 13 * part) % PERIOD
        return self._pattern[start : start + elements]


def weight(rank: int) -> int:
    """Return the whole number by which a rank multiplies the pattern."""
    return 1 + rank % WEIGHTS
