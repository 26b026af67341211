"""Floors for networks whose accelerators are few or small.

Where not every site can sum, streams cross cuts unsummed, and the demand of `schedules.floors` (as
if all sums happened) is too hopeful. When all trees of the network are known, the least number of
messages that any of them sends over a cut is a floor as well: splitting traffic among trees makes
an average of their loads, and no average is below the least.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION
from schedules.cost import CostModel
from schedules.network import FloatArray
from schedules.partitions import sizes
from schedules.pool import CostedTree, TreePool, leaving

FloatTable = NDArray[np.float32]


def cut_demand(
    model: CostModel, collective: str, pool: TreePool, cuts: Sequence[int]
) -> FloatArray:
    """Return (2^n, C) the messages that must leave each cut, for `aggregation` or `innetwork`.

    Args:
        model: the network and its capabilities.
        collective: of which collective.
        pool: all trees of the network.
        cuts: masks of sites.
    """
    trees = [pool.costed(model, number) for number in range(len(pool.trees))]
    sums = _aggregated if collective == AGGREGATION else _innetwork
    demand = sums(model, trees, np.array(cuts))
    demand[:, sizes(model.network.size) < 2] = 0
    return np.ascontiguousarray(demand.T).astype(np.float64)


def down_demand(model: CostModel, pool: TreePool) -> FloatArray:
    """Return (2^n, N) the streams that must reach each island as a root of `aggregation`."""
    size = model.network.size
    own = (np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1).astype(np.int16)
    least = np.full((size, 1 << size), np.inf)
    for number in range(len(pool.trees)):
        others = pool.costed(model, number).arriving - own
        for root in range(size):
            reaching = leaving(others[root], model.fan_in[root])
            least[root] = np.minimum(least[root], reaching)
    return np.ascontiguousarray((least * own).T)


def _leaving_hops(tree: CostedTree, cuts: NDArray[np.int64]) -> FloatTable:
    """Return (C, H) ones where a hop leaves a cut."""
    inside = cuts[:, None] >> tree.hops[:, 0] & 1
    outside = 1 - (cuts[:, None] >> tree.hops[:, 1] & 1)
    return (inside * outside).astype(np.float32)


def _aggregated(
    model: CostModel, trees: Sequence[CostedTree], cuts: NDArray[np.int64]
) -> FloatTable:
    size = model.network.size
    masks = np.arange(1 << size)
    demand = np.zeros((len(cuts), len(masks)), dtype=np.float32)
    for root in range(size):
        least = np.full_like(demand, np.inf)
        for tree in trees:
            up = tree.towards[root]
            crossing = _leaving_hops(tree, cuts)[:, up] @ tree.streams[up].astype(np.float32)
            np.minimum(least, crossing, out=least)
        demand += least * (masks >> root & 1)
    return demand


def _innetwork(
    model: CostModel, trees: Sequence[CostedTree], cuts: NDArray[np.int64]
) -> FloatTable:
    size = model.network.size
    least = np.full((len(cuts), 1 << size), np.inf, dtype=np.float32)
    for tree in trees:
        hops = _leaving_hops(tree, cuts)
        streams = tree.streams.astype(np.float32)
        copies = np.minimum(tree.beyond, 1).astype(np.float32)
        for root in range(size):
            impossible = leaving(tree.arriving[root], model.fan_in[root]) != 1
            carried = np.where(tree.towards[root][:, None], streams, copies)
            if not impossible[sizes(size) >= 2].all():
                np.minimum(least, _crossing(hops, carried, impossible), out=least)
    return least


def _crossing(hops: FloatTable, carried: FloatTable, impossible: NDArray[np.bool_]) -> FloatTable:
    carried[:, impossible] = 0
    crossing = hops @ carried
    crossing[:, impossible] = np.inf
    return np.asarray(crossing, dtype=np.float32)
