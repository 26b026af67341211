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

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.constraints import Clock
from schedules.forest import Table
from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, sizes
from schedules.ways import WayBook

ROUNDING = 1e-6  # single precision is enough for a floor that is lowered by more than its error


@dataclass(eq=False)
class LearnedFloors:
    """Rows of floors for one collective, over all rounds of a set.

    Attributes:
        book: all ways of the network.
        masks: (P, K) the rounds.
    """

    book: WayBook
    masks: MaskArray
    _units: dict[float, FloatArray] = field(default_factory=dict)

    def learn(self, prices: FloatArray, cap_ns: float) -> None:
        """Add a row: the cost of every clique's cheapest trees at some prices within a cap."""
        costs = self._cheapest(prices, cap_ns) * (1 - ROUNDING)
        units = costs[self.masks].sum(axis=1)
        known = self._units.get(cap_ns)
        self._units[cap_ns] = units if known is None else np.maximum(known, units)

    def least_units(self, row: int) -> Callable[[IntArray], FloatArray]:
        """Return what is known of a round's transfer within latency caps."""
        known = sorted((cap, float(units[row])) for cap, units in self._units.items())

        def least(caps: IntArray) -> FloatArray:
            limits = np.array([cap for cap, _ in known])
            units = np.maximum.accumulate([units for _, units in known][::-1])[::-1]
            places = np.searchsorted(limits, caps, side="left")
            return np.append(units, 0.0)[places]

        return least

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
        size = self.book.model.network.size
        own = np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1
        if self.book.collective == INNETWORK:
            costs = self._innetwork(prices, cap_ns).min(axis=0)
        else:
            least = self._one_way(prices, cap_ns).min(axis=0)
            costs = np.where(own == 1, least, 0.0).sum(axis=0)
        ends = self._access(prices, own)
        return np.asarray(np.where(sizes(size) >= 2, costs + ends, 0.0), dtype=np.float64)

    def _one_way(self, prices: FloatArray, cap_ns: float) -> FloatArray:
        forest = self.book.forest
        if self.book.collective == MULTICAST:
            cost, latency = forest.down_costs(prices), forest.down_ns
        else:
            network = self.book.model.network
            cost, latency = forest.up_costs(prices), forest.up_ns
            ends = slice(network.down(0), network.accelerator(0))
            cost = cost + forest.out * prices[ends][None, :, None].astype(np.float32)
            cost = cost + self._at_roots(prices)
        return np.where(latency <= cap_ns, cost, inf)

    def _at_roots(self, prices: FloatArray) -> Table:
        price = prices[self.book.model.network.accelerator(0) :]
        if not price.any():
            return np.zeros((1, 1, 1), dtype=np.float32)
        return self.book.forest.taken_at_root * price[None, :, None].astype(np.float32)

    def _innetwork(self, prices: FloatArray, cap_ns: float) -> FloatArray:
        """Return (N, 2^n) costs of going up and down, each way given the other at its fastest."""
        forest = self.book.forest
        up = forest.up_costs(prices) + self._at_roots(prices)
        within = (forest.up_ns + forest.down_ns.min(axis=0) <= cap_ns) & (forest.out == 1)
        up_least = np.where(within, up, inf).min(axis=0)
        within = forest.down_ns + forest.up_ns.min(axis=0) <= cap_ns
        down_least = np.where(within, forest.down_costs(prices), inf).min(axis=0)
        return np.asarray(up_least + down_least, dtype=np.float64)

    def _access(self, prices: FloatArray, own: IntArray) -> FloatArray:
        network, members = self.book.model.network, own.sum(axis=0)
        up = own.T @ prices[network.up(0) : network.down(0)]
        down = own.T @ prices[network.down(0) : network.accelerator(0)]
        if self.book.collective == MULTICAST:
            down = down * (members - 1)
        if self.book.collective == AGGREGATION:
            up, down = up * (members - 1), np.zeros(len(members))
        return np.asarray(up + down, dtype=np.float64)
