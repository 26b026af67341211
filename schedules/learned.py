"""Floors learned from solved rounds, valid for every round.

The dual prices of a solved round say which directions were short. At the same prices every clique
has a cheapest tree, and by duality any round that keeps to the same latency cap transfers for at
least the sum of its cliques' cheapest trees. So each solved round gives one more row of floors, and
rounds that would clash at the same links are ruled out without being solved: what Benders cuts are
to a master problem.

With rows for several caps, a round whose latency lies between two caps transfers at least as long
as the rows of the larger cap say, and has more latency than the smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.constraints import Clock
from schedules.cost import CostModel
from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, sizes
from schedules.pool import MOST_STREAMS, CountArray, TreePool, farthest

ROUNDING = 1e-6  # single precision is enough for a floor that is lowered by more than its error

Table = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Forest:
    """All trees of a network as any clique would load them: T trees, N roots, H hops, 2^n masks.

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
    def of(cls, model: CostModel, pool: TreePool, collective: str) -> _Forest:
        """Gather the tables; the island at a root is a sender for `innetwork` only."""
        network, size = model.network, model.network.size
        trees = [pool.costed(model, number) for number in range(len(pool.trees))]
        sites = np.stack([tree.hops[:, 0] for tree in trees])
        access = network.access_delay_ns
        ends = 0 if collective == INNETWORK else access[:, None]
        own = np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1
        meeting = np.stack([tree.arriving for tree in trees])
        if collective != INNETWORK:
            meeting = meeting - own.astype(np.int16)
        fan_in = np.minimum(np.array(model.fan_in), MOST_STREAMS)
        at_root = _taken(meeting, fan_in[None, :, None])
        entering = np.stack([tree.entering for tree in trees])
        return cls(
            towards=np.stack([tree.towards for tree in trees]).astype(np.float32),
            columns=np.stack([tree.columns for tree in trees]),
            accelerators=network.accelerator(0) + sites,
            streams=np.stack([tree.streams for tree in trees]).astype(np.float32),
            taken=_taken(entering, fan_in[sites][:, :, None]).astype(np.float32),
            copies=np.stack([np.minimum(tree.beyond, 1) for tree in trees]).astype(np.float32),
            out=np.where(at_root >= 2, meeting - at_root + 1, meeting).astype(np.float32),
            taken_at_root=at_root.astype(np.float32),
            up_ns=np.stack([farthest(t.wan_delay_ns.T + access) + ends for t in trees]) * 1.0,
            down_ns=np.stack([farthest(t.wan_delay_ns + access) + ends for t in trees]) * 1.0,
        )

    def down_costs(self, prices: FloatArray) -> Table:
        """Return (T, N, 2^n) the price of the hops down from every root."""
        hops = self.copies * prices[self.columns][:, :, None].astype(np.float32)
        return np.asarray(np.matmul(1 - self.towards, hops), dtype=np.float32)

    def up_costs(self, prices: FloatArray) -> Table:
        """Return (T, N, 2^n) the price of the hops and accelerators up to every root."""
        hops = self.streams * prices[self.columns][:, :, None].astype(np.float32)
        price = prices[self.accelerators]
        if price.any():
            hops = hops + self.taken * price[:, :, None].astype(np.float32)
        return np.asarray(np.matmul(self.towards, hops), dtype=np.float32)


def _taken(arriving: CountArray, fan_in: IntArray) -> CountArray:
    taken = np.minimum(arriving, fan_in)
    return np.where(taken >= 2, taken, 0).astype(np.int16)


@dataclass(eq=False)
class LearnedFloors:
    """Rows of floors for one collective, over all rounds of a set.

    Attributes:
        model: the network and its capabilities.
        collective: which one.
        pool: all trees of the network.
        masks: (P, K) the rounds.
    """

    model: CostModel
    collective: str
    pool: TreePool
    masks: MaskArray
    _units: dict[float, FloatArray] = field(default_factory=dict)

    @cached_property
    def _forest(self) -> _Forest:
        return _Forest.of(self.model, self.pool, self.collective)

    def learn(self, prices: FloatArray, cap_ns: float) -> None:
        """Add a row: the cost of every clique's cheapest trees at some prices within a cap."""
        costs = self._cheapest(prices, cap_ns) * (1 - ROUNDING)
        units = costs[self.masks].sum(axis=1)
        known = self._units.get(cap_ns)
        self._units[cap_ns] = units if known is None else np.maximum(known, units)

    def seconds(self, clock: Clock, free_units: FloatArray, latency_ns: IntArray) -> FloatArray:
        """Return (P,) the least time of every round, given what is known of it otherwise.

        Args:
            clock: turns units and latency into seconds.
            free_units: (P,) least transfer at any latency.
            latency_ns: (P,) least latency at any transfer.
        """
        units = np.maximum(free_units, self._units.get(inf, np.zeros(1)))
        caps = sorted((cap for cap in self._units if cap < inf), reverse=True)
        nothing = np.zeros(len(free_units))
        least = np.full(len(free_units), np.inf)
        for cap in caps if clock.counts_latency else ():
            above = clock.seconds(units, np.maximum(latency_ns, cap).astype(np.float64), nothing)
            least = np.minimum(least, above)
            units = np.maximum(units, self._units[cap])
        at_least = clock.seconds(units, latency_ns.astype(np.float64), nothing)
        return np.asarray(np.minimum(least, at_least), dtype=np.float64)

    def _cheapest(self, prices: FloatArray, cap_ns: float) -> FloatArray:
        """Return (2^n,) the cost of every clique's cheapest trees within the cap."""
        size = self.model.network.size
        own = np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1
        if self.collective == INNETWORK:
            costs = self._innetwork(prices, cap_ns).min(axis=0)
        else:
            least = self._one_way(prices, cap_ns).min(axis=0)
            costs = np.where(own == 1, least, 0.0).sum(axis=0)
        ends = self._access(prices, own)
        return np.asarray(np.where(sizes(size) >= 2, costs + ends, 0.0), dtype=np.float64)

    def _one_way(self, prices: FloatArray, cap_ns: float) -> FloatArray:
        forest = self._forest
        if self.collective == MULTICAST:
            cost, latency = forest.down_costs(prices), forest.down_ns
        else:
            network = self.model.network
            cost, latency = forest.up_costs(prices), forest.up_ns
            ends = slice(network.down(0), network.accelerator(0))
            cost = cost + forest.out * prices[ends][None, :, None].astype(np.float32)
            cost = cost + self._at_roots(prices)
        return np.where(latency <= cap_ns, cost, inf)

    def _at_roots(self, prices: FloatArray) -> Table:
        price = prices[self.model.network.accelerator(0) :]
        if not price.any():
            return np.zeros((1, 1, 1), dtype=np.float32)
        return self._forest.taken_at_root * price[None, :, None].astype(np.float32)

    def _innetwork(self, prices: FloatArray, cap_ns: float) -> FloatArray:
        """Return (N, 2^n) costs of going up and down, each way given the other at its fastest."""
        forest = self._forest
        up = forest.up_costs(prices) + self._at_roots(prices)
        within = (forest.up_ns + forest.down_ns.min(axis=0) <= cap_ns) & (forest.out == 1)
        up_least = np.where(within, up, inf).min(axis=0)
        within = forest.down_ns + forest.up_ns.min(axis=0) <= cap_ns
        down_least = np.where(within, forest.down_costs(prices), inf).min(axis=0)
        return np.asarray(up_least + down_least, dtype=np.float64)

    def _access(self, prices: FloatArray, own: IntArray) -> FloatArray:
        network, members = self.model.network, own.sum(axis=0)
        up = own.T @ prices[network.up(0) : network.down(0)]
        down = own.T @ prices[network.down(0) : network.accelerator(0)]
        if self.collective == MULTICAST:
            down = down * (members - 1)
        if self.collective == AGGREGATION:
            up, down = up * (members - 1), np.zeros(len(members))
        return np.asarray(up + down, dtype=np.float64)
