"""All candidate trees of a small network side by side: one array axis over trees, one over cliques.

Looking for the cheapest tree at given prices is then a product of arrays, for every tree, root and
clique at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import INNETWORK
from schedules.cost import CostModel
from schedules.network import FloatArray, IntArray
from schedules.pool import MOST_STREAMS, CountArray, TreePool, farthest

Table = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees as any clique would load them: T trees, N roots, H hops, 2^n masks.

    Attributes:
        towards: (T, N, H) ones where a hop leads towards a root.
        columns: (T, H) column of each hop.
        accelerators: (T, H) column of the accelerator before a hop.
        streams: (T, H, 2^n) streams up over a hop.
        taken: (T, H, 2^n) streams that the accelerator before the hop takes in.
        copies: (T, H, 2^n) copies down over a hop.
        out: (T, N, 2^n) streams that leave a root for its island, or for the way down.
        taken_at_root: (T, N, 2^n) streams that a root's accelerator takes in.
        up_ns: (T, N, 2^n) longest way up to a root.
        down_ns: (T, N, 2^n) longest way down from a root.
    """

    towards: Table
    columns: IntArray
    accelerators: IntArray
    streams: Table
    taken: Table
    copies: Table
    out: Table
    taken_at_root: Table
    up_ns: FloatArray
    down_ns: FloatArray

    @classmethod
    def of(cls, model: CostModel, pool: TreePool, collective: str) -> Forest:
        """Gather the tables.

        For `innetwork` a root is a switch and its own island a member like others; for `multicast`
        and `aggregation` it is the island that sends or receives, and no way leads to itself.
        """
        network, size = model.network, model.network.size
        trees = [pool.costed(model, number) for number in range(len(pool.trees))]
        sites = np.stack([tree.hops[:, 0] for tree in trees])
        masks = np.arange(1 << size)
        own = masks[None, :] >> np.arange(size)[:, None] & 1
        arriving = np.stack([tree.arriving for tree in trees])
        meeting = arriving if collective == INNETWORK else arriving - own.astype(np.int16)
        fan_in = np.minimum(np.array(model.fan_in), MOST_STREAMS)
        at_root = _taken(meeting, fan_in[None, :, None])
        entering = np.stack([tree.entering for tree in trees])
        others = masks[None, :] & ~(1 << np.arange(size)[:, None])
        ends = np.broadcast_to(masks, others.shape) if collective == INNETWORK else others
        delay = np.stack([tree.wan_delay_ns for tree in trees])
        return cls(
            towards=np.stack([tree.towards for tree in trees]).astype(np.float32),
            columns=np.stack([tree.columns for tree in trees]),
            accelerators=network.accelerator(0) + sites,
            streams=np.stack([tree.streams for tree in trees]).astype(np.float32),
            taken=_taken(entering, fan_in[sites][:, :, None]).astype(np.float32),
            copies=np.stack([np.minimum(tree.beyond, 1) for tree in trees]).astype(np.float32),
            out=np.where(at_root >= 2, meeting - at_root + 1, meeting).astype(np.float32),
            taken_at_root=at_root.astype(np.float32),
            up_ns=_longest(model, delay.transpose(0, 2, 1), ends, collective),
            down_ns=_longest(model, delay, ends, collective),
        )

    def down_costs(self, prices: FloatArray) -> Table:
        """Return (T, N, 2^n) the price of the hops down from every root."""
        return self._costs(self.copies, 1 - self.towards, prices)

    def up_costs(self, prices: FloatArray) -> Table:
        """Return (T, N, 2^n) the price of the hops and accelerators up to every root."""
        costs = self._costs(self.streams, self.towards, prices)
        price = prices[self.accelerators]
        if price.any():
            taken = self.taken * price[:, :, None].astype(np.float32)
            costs = costs + np.matmul(self.towards, taken)
        return costs

    def _costs(self, messages: Table, leading: Table, prices: FloatArray) -> Table:
        """Add up hops that cost anything and lead the right way: mostly few have a price."""
        priced = np.flatnonzero(prices[: self._hop_of.shape[1]] > 0)
        hops = self._hop_of[:, priced]
        cost = np.where(hops >= 0, prices[priced], 0.0).astype(np.float32)
        each = np.arange(len(hops))[:, None]
        carried = messages[each, hops] * cost[:, :, None]
        chosen = leading.transpose(0, 2, 1)[each, hops].transpose(0, 2, 1)
        return np.asarray(np.matmul(chosen, carried), dtype=np.float32)

    @cached_property
    def _hop_of(self) -> IntArray:
        """(T, W) place of the hop over a WAN direction in every tree, -1 where it has none."""
        places = np.full((len(self.columns), int(self.columns.max()) + 1), -1, dtype=np.int64)
        each = np.arange(len(self.columns))[:, None]
        places[each, self.columns] = np.arange(self.columns.shape[1])
        return places


def _taken(arriving: CountArray, fan_in: IntArray) -> CountArray:
    taken = np.minimum(arriving, fan_in)
    return np.where(taken >= 2, taken, 0).astype(np.int16)


def _longest(model: CostModel, delay: IntArray, ends: IntArray, collective: str) -> FloatArray:
    """Return (T, N, 2^n) the longest way between roots and the islands at their other ends."""
    access = model.network.access_delay_ns
    at_root = 0 if collective == INNETWORK else access[:, None]
    rows = np.arange(len(access))[:, None]
    return np.stack([farthest(tree + access)[rows, ends] + at_root for tree in delay]) * 1.0
