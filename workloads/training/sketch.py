"""A short linear summary of a long vector, from which lengths of differences can be told.

How far apart are islands that do not all hear one another in a round? Each writes down a sketch of
its parameters; `estimates` computes the distances from the sketches of all, afterwards.

A CountSketch (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002; as
an embedding: Weinberger et al., "Feature hashing for large scale multitask learning", 2009) throws
each element, with a random sign, into one of k buckets and adds up. It is linear, takes one pass
over the vector, and |S x|^2 estimates |x|^2 without bias, with a variance of at most 2 |x|^4 / k:
collisions of two elements have probability 1 / k and signs cancel all but squares.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SKETCH_SIZE = 512
SIGNIFICANT_DIGITS = 8
_STREAM = 0x5CE7C4


class CountSketch:
    """The same sketch on all islands: its buckets and signs follow from the seed."""

    def __init__(self, length: int, seed: int, size: int = SKETCH_SIZE) -> None:
        generator = np.random.default_rng((seed, _STREAM))
        self.size = size
        self._buckets = torch.from_numpy(generator.integers(0, size, length, dtype=np.int32))
        signs = 2 * generator.integers(0, 2, length, dtype=np.int8) - 1
        self._signs = torch.from_numpy(signs)

    def of(self, vector: Tensor) -> list[float]:
        """Return the sketch of a vector of the length given."""
        buckets = torch.zeros(self.size, dtype=vector.dtype)
        buckets.index_add_(0, self._buckets, vector * self._signs)
        return [float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in buckets.tolist()]
