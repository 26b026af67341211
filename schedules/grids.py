"""When averaging twice averages everything: orthogonal partitions.

Averaging over the blocks of partition P, then over those of Q, leaves everyone with the mean of all
n exactly when every block A of P and B of Q share |A||B|/n members: the entry of the product of the
two averaging matrices is |A meets B| / (|A||B|), which must be 1/n. Rows and columns of a grid are
the simplest case, on which Moshpit all-reduce (arXiv:2103.03239) rotates. A grid of a subset gives
the exact mean of that subset, so grids nest: blocks that are exact already are averaged on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from schedules.partitions import MaskArray, all_partitions, members, sizes


def common_divisors(masks: MaskArray, size: int) -> NDArray[np.int64]:
    """Return (P,) the greatest common divisor of the block sizes of each partition.

    Idle members are blocks of one.
    """
    counts = sizes(size).astype(np.int64)[masks]
    divisor = np.gcd.reduce(counts, axis=1)
    return np.where(counts.sum(axis=1) < size, 1, divisor)


def orthogonal(blocks: Sequence[int], masks: MaskArray, size: int) -> NDArray[np.bool_]:
    """Return (P,) which partitions without idle members are orthogonal to one, given as masks."""
    counts = sizes(size).astype(np.int64)
    fits = np.ones(len(masks), dtype=np.bool_)
    for block in blocks:
        shared = counts[masks & np.uint16(block)] * size
        fits &= ((shared == counts[block] * counts[masks]) | (masks == 0)).all(axis=1)
    return fits


@lru_cache(maxsize=16)
def grids_of(count: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Return all ordered pairs of orthogonal partitions of `count` members, the whole excepted."""
    if count < 4:
        return ()
    masks = all_partitions(count)
    divisors = common_divisors(masks, count)
    proper = masks[(divisors > 1) & (masks[:, 0] != (1 << count) - 1)]
    found = []
    for row in proper:
        blocks = [int(mask) for mask in row if mask]
        step = gcd(*(bin(mask).count("1") for mask in blocks))
        if count % step == 0 or step > 1:
            for other in proper[orthogonal(blocks, proper, count)]:
                found.append((tuple(blocks), tuple(int(mask) for mask in other if mask)))
    return tuple(found)


def spread(mask: int, block: int) -> int:
    """Place the members of a small mask on the members of a block, in order."""
    sites = members(block)
    return sum(1 << sites[place] for place in members(mask))
