"""The least latency of a ring of up to a dozen islands, whatever its order.

A ring's chain of steps goes twice around but for its two cheapest hops in a row, so its latency is
2 x tour - p with p the least sum of two hops in a row. A tour in which no such sum is below p may
have to be longer: the dynamic program of Held and Karp, with the last two islands as its state,
finds how long. For p between two values the tour of the smaller and the p of the larger bound the
latency; where that is least, the interval is halved.
"""

from __future__ import annotations

import numpy as np

from schedules.network import FloatArray, IntArray

HALVINGS = 24
CLOSE = 1e-4


def least_ring_latency_ns(delay_ns: IntArray, enough_ns: float = np.inf) -> float:
    """Return a lower bound on the latency of any ring of all these islands, tight to CLOSE.

    Args:
        delay_ns: (n, n) one-way delays, n from three to a dozen.
        enough_ns: a bound of this much will do.
    """
    length = delay_ns.astype(np.float64)
    count = len(length)
    shortest = _shortest_tour(length, 0.0)
    most = 2 * shortest / count
    spans = [(2 * shortest - most, 0.0, most, shortest)]
    for _ in range(HALVINGS):
        worst = min(spans)
        bound, low, high, tour = worst
        if bound >= enough_ns or high - low <= CLOSE * shortest:
            break
        middle = (low + high) / 2
        longer = _shortest_tour(length, middle)
        spans.remove(worst)
        spans.append((2 * tour - middle, low, middle, tour))
        largest = max(high, 2 * longer / count) if high == most else high
        if np.isfinite(longer):
            spans.append((2 * longer - largest, middle, largest, longer))
    return min(spans)[0]


def _shortest_tour(length: FloatArray, least_pair: float) -> float:
    """Return the shortest tour in which two hops in a row take so long at least.

    The two pairs at which the tour closes are not held to that: the result is a lower bound.
    """
    count = len(length)
    pair = length[:, :, None] + length[None, :, :] >= least_pair
    onward = np.where(pair, length[None, :, :], np.inf)
    best = {1 << site: _start(length, site) for site in range(1, count)}
    for _ in range(2, count):
        grown: dict[int, FloatArray] = {}
        for mask, path in best.items():
            step = (path[:, :, None] + onward).min(axis=0)
            for site in range(1, count):
                if not mask >> site & 1:
                    table = grown.setdefault(mask | 1 << site, np.full((count, count), np.inf))
                    np.minimum(table[:, site], step[:, site], out=table[:, site])
        best = grown
    (whole,) = best.values()
    return float((whole + length[None, :, 0]).min())


def _start(length: FloatArray, site: int) -> FloatArray:
    table = np.full(length.shape, np.inf)
    table[0, site] = length[0, site]
    return table
