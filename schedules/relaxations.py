"""What no round can be worth per second: bounds for networks of any size.

Every objective values a round by its cliques, and a clique by the pairs in it:

    worth of a clique of k = (Sum over ordered pairs i, j in it of w_ij) x discount(k)

`exchange` and `fair` discount nothing; averaging k islands removes disagreement at 1/(2k) of the
squared differences. Shared out among islands, no island's part exceeds the k-1 dearest pairs it
could have. What a round of latency l and transfer T allows is limited in turn: islands further
apart than l cannot meet, a clique of k keeps its members' access ports busy for a time that grows
with k, a ring of k is as long as the shortest tour of any k islands, a tree of radius l reaches so
many. The bound is the largest (worth allowed) / (T + l) over all T and l: intervals of l are
bounded by the worth at their upper and the time at their lower end, and halved where that is worst.

For `exchange`, links count too: how many pairs can be served a second over their routes is a linear
program, and no round serves more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from schedules.capabilities import EXCHANGE, INNETWORK, RING
from schedules.constraints import Clock, Constraints
from schedules.cost import NANOSECONDS, CostModel
from schedules.network import FloatArray, IntArray
from schedules.routed import RouteTable, access_messages, switch_delay_ns
from schedules.tours import least_tours

LATENCY_STEPS = 16
HALVINGS = 120
TRANSFER_STEPS = 400
ROOTED_SITES = 300
ROUTED_SITES = 130


@dataclass(frozen=True, eq=False)
class Worth:
    """What pairs of islands in a clique are worth.

    Attributes:
        pairs: (N, N) symmetric worth of each ordered pair, none below zero.
        averaged: whether a clique of k counts 1/(2k) of its pairs.
    """

    pairs: FloatArray
    averaged: bool = False

    @classmethod
    def of_meetings(cls, size: int) -> Worth:
        """Every ordered pair counts one."""
        return cls(np.ones((size, size)) - np.eye(size))

    @classmethod
    def of_removal(cls, weight: FloatArray) -> Worth:
        """Return <weight, I - W>: what averaging removes of the disagreement that weight weighs."""
        own = np.diag(weight)
        pairs = np.maximum(own[:, None] + own[None, :] - weight - weight.T, 0.0)
        np.fill_diagonal(pairs, 0.0)
        return cls(pairs, averaged=True)

    def discount(self, members: IntArray | float) -> FloatArray:
        """Return the factor of a clique of so many members."""
        counts = np.maximum(np.asarray(members, dtype=np.float64), 1.0)
        factors: FloatArray = 1 / (2 * counts) if self.averaged else np.ones_like(counts)
        return np.asarray(factors, dtype=np.float64)

    def of(self, clique: Sequence[int]) -> float:
        """Return the worth of a clique."""
        total = self.pairs[np.ix_(clique, clique)].sum()
        return float(total / (2 * len(clique)) if self.averaged else total)

    @cached_property
    def uniform(self) -> bool:
        """Whether all pairs are worth the same."""
        size = len(self.pairs)
        off = self.pairs[~np.eye(size, dtype=np.bool_)]
        return bool(np.allclose(off, off[0], rtol=1e-12)) if len(off) else True


@dataclass(eq=False)
class Relaxation:
    """Bounds the worth per second of any round of one collective."""

    model: CostModel
    collective: str
    clock: Clock
    constraints: Constraints

    def bound(self, worth: Worth) -> float:
        """Return what no round's worth per second exceeds."""
        by_ports = self._bound_by_ports(worth)
        if self.collective == EXCHANGE and self.model.network.size <= ROUTED_SITES:
            return min(by_ports, self._bound_by_routes(worth))
        return by_ports

    def _bound_by_routes(self, worth: Worth) -> float:
        """Bound by the linear program of which pairs to serve: routes share every direction.

        A pair in a clique counts its worth at most at the discount of a clique of two.
        """
        size = self.model.network.size
        first, second = np.triu_indices(size, 1)
        gains = 2 * worth.pairs[first, second] * float(worth.discount(2))
        result = linprog(-gains, A_ub=self._route_rows, b_ub=np.ones(self._route_rows.shape[0]))
        return float(-result.fun) / self.clock.unit_s if result.status == 0 else np.inf

    @cached_property
    def _route_rows(self) -> csr_matrix:
        """(D, pairs) time that serving a pair of islands both ways keeps a direction busy."""
        network = self.model.network
        first, second = np.triu_indices(network.size, 1)
        routes = RouteTable.of(network)
        columns, which = [], []
        for sources, targets in ((first, second), (second, first)):
            pair, column = routes.crossed(sources, targets)
            ends = [network.up(0) + sources, network.down(0) + targets]
            columns += [column, *ends]
            which += [pair, np.arange(len(first)), np.arange(len(first))]
        place = np.concatenate(columns)
        busy = network.slowness[place]
        shape = (len(network.slowness), len(first))
        return csr_matrix((busy, (place, np.concatenate(which))), shape=shape)

    def _bound_by_ports(self, worth: Worth) -> float:
        edges = self._latency_edges
        found = {span: self._within(worth, *span) for span in pairwise(edges)}
        halvings = HALVINGS if self.model.network.size <= ROOTED_SITES else HALVINGS // 5
        for _ in range(halvings if len(edges) > 2 else 0):
            span = max(found, key=lambda s: found[s])
            inside = self._levels[(self._levels > span[0]) & (self._levels < span[1])]
            if not len(inside):
                break
            middle = float(inside[len(inside) // 2])
            del found[span]
            for part in ((span[0], middle), (middle, span[1])):
                found[part] = self._within(worth, *part)
        return max(found.values(), default=0.0)

    def least_seconds(self, members: int, latency: bool = True) -> float:
        """Return what a round with a clique of so many islands takes, with or without latency."""
        if members > (self.constraints.max_clique or members):
            return np.inf
        units = float(np.sort(self._port_units[:, members])[members - 1])
        seconds = units * self.clock.unit_s
        if self.clock.counts_latency and latency:
            longest = float(self._size_ns[members])
            if members == self.model.network.size:
                longest = max(longest, float(self._pair_ns.max()))
            seconds += longest * NANOSECONDS
        return max(seconds, self._compute_s)

    # --- latency ----------------------------------------------------------------------------------

    @cached_property
    def _levels(self) -> FloatArray:
        """Latencies at which something more becomes possible, ascending."""
        size = self.model.network.size
        pairs = self._pair_ns[np.triu_indices(size, 1)].astype(np.float64)
        levels = np.unique(np.concatenate([pairs, self._size_ns]))
        levels = levels[np.isfinite(levels)]
        most = self.constraints.max_round_s
        if most is not None and self.clock.counts_latency:
            levels = levels[levels * NANOSECONDS <= most * (1 + 1e-9)]
        return np.asarray(levels, dtype=np.float64)

    @cached_property
    def _latency_edges(self) -> list[float]:
        if not self.clock.counts_latency:
            return [0.0, np.inf]
        if not len(self._levels):
            return []
        places = np.linspace(0, len(self._levels) - 1, LATENCY_STEPS).astype(int)
        return [*np.unique(self._levels[places]).tolist(), np.inf]

    @cached_property
    def _pair_ns(self) -> IntArray:
        """(N, N) least latency of any clique that two islands share."""
        network = self.model.network if self.collective == RING else self.model.tree_network
        delay = network.delay_ns
        if self.collective == RING:
            return np.asarray(delay + delay.T, dtype=np.int64)
        apart = network.next_hop < 0
        longer = np.maximum(delay, delay.T)
        if self.collective == INNETWORK and network.size <= ROOTED_SITES:
            longer = self._rooted_pairs()
        return np.asarray(np.where(apart, np.iinfo(np.int64).max, longer), dtype=np.int64)

    def _rooted_pairs(self) -> IntArray:
        network = self.model.tree_network
        access, wan = network.access_delay_ns, switch_delay_ns(network)
        least = np.full(wan.shape, np.iinfo(np.int64).max)
        for root in self._roots:
            up, down = wan[:, root] + access, wan[root] + access
            both = np.maximum(up[:, None], up[None, :]) + np.maximum(down[:, None], down[None, :])
            np.minimum(least, both, out=least)
        return least

    @cached_property
    def _roots(self) -> list[int]:
        return [site for site, fan_in in enumerate(self.model.fan_in) if fan_in >= 2]

    @cached_property
    def _size_ns(self) -> FloatArray:
        """(N + 1,) least latency of a clique of so many islands."""
        size = self.model.network.size
        if self.collective == RING:
            tours = least_tours(self.model.network.delay_ns)
            counts = np.arange(size + 1)
            return np.floor(tours * (2 - 2 / np.maximum(counts, 1)))
        if self.collective == INNETWORK and self._roots:
            return np.concatenate([[0, 0], np.sort(self._rooted, axis=1).min(axis=0)[1:]]) * 1.0
        return np.zeros(size + 1)

    @cached_property
    def _rooted(self) -> IntArray:
        """(R, N) way up to a root and down again for every island."""
        network = self.model.tree_network
        access, wan = network.access_delay_ns, switch_delay_ns(network)
        both = (wan + wan.T)[self._roots] + 2 * access[None, :]
        apart = network.next_hop[self._roots] < 0
        return np.where(apart, np.iinfo(np.int64).max, both)

    def _largest(self, level: float) -> IntArray:
        """Return (N,) the most islands in a clique of an island, at less than a latency."""
        size = self.model.network.size
        limit = min(self.constraints.max_clique or size, size)
        most: IntArray = np.full(size, limit, dtype=np.int64)
        if not self.clock.counts_latency:
            return np.asarray(most, dtype=np.int64)
        by_size = int(np.searchsorted(self._size_ns, level, side="left")) - 1
        most = np.minimum(most, max(1, by_size))
        if self.collective == INNETWORK and self._roots:
            near = self._rooted < level
            reach = np.where(near, near.sum(axis=1)[:, None], 1).max(axis=0)
            most = np.minimum(most, reach)
        return np.asarray(most, dtype=np.int64)

    # --- transfer ---------------------------------------------------------------------------------

    @cached_property
    def _port_units(self) -> FloatArray:
        """(N, N + 1) time that a clique of so many keeps an island's access port busy."""
        network = self.model.network
        sizes = range(network.size + 1)
        messages = np.array([access_messages(self.collective, count) for count in sizes])
        up = network.slowness[network.up(0) : network.down(0)]
        down = network.slowness[network.down(0) : network.accelerator(0)]
        up_units = up[:, None] * messages[None, :, 0]
        return np.asarray(np.maximum(up_units, down[:, None] * messages[None, :, 1]))

    @cached_property
    def _transfers(self) -> FloatArray:
        """Transfers at which some island may have one more in its clique, ascending."""
        values = np.unique(self._port_units[:, 2:].round(12))
        if len(values) > TRANSFER_STEPS:
            values = values[np.linspace(0, len(values) - 1, TRANSFER_STEPS).astype(int)]
        return np.asarray(values, dtype=np.float64)

    @cached_property
    def _allowed(self) -> IntArray:
        """(T, N) the largest clique of each island below the next transfer of `_transfers`."""
        below = np.append(self._transfers[1:], np.inf) * (1 - 1e-9)
        counts = [np.searchsorted(units[2:], below, side="left") + 1 for units in self._port_units]
        return np.asarray(np.array(counts).T, dtype=np.int64)

    # --- worth ------------------------------------------------------------------------------------

    def _within(self, worth: Worth, low: float, high: float) -> float:
        """Return the bound for rounds of at least one latency and less than another."""
        best = self._best_parts(worth, high)
        largest = self._largest(high)
        allowed = np.minimum(self._allowed, largest[None, :])
        total = np.take_along_axis(best.T, allowed.T, axis=1).sum(axis=0)
        if worth.uniform:
            total = np.minimum(total, self._packed(worth, allowed.max(axis=1)))
        seconds = np.maximum(self._transfers * self.clock.unit_s, 0.0)
        if self.clock.counts_latency:
            seconds = seconds + low * NANOSECONDS
        seconds = np.maximum(seconds, self._compute_s)
        rates = np.where(total > 0, total / np.maximum(seconds, 1e-300), 0.0)
        if self.constraints.max_round_s is not None:
            rates = rates[seconds <= self.constraints.max_round_s * (1 + 1e-9)]
        return float(rates.max(initial=0.0))

    def _best_parts(self, worth: Worth, level: float) -> FloatArray:
        """Return (N + 1, N) the most an island's part can be in a clique of up to so many."""
        size = self.model.network.size
        pairs = worth.pairs
        if self.clock.counts_latency:
            pairs = np.where(self._pair_ns < level, pairs, 0.0)
        parts = np.zeros((size + 1, size))
        if worth.uniform:
            others = np.minimum(np.arange(1, size)[:, None], (pairs > 0).sum(axis=1)[None, :])
            parts[2:] = others * float(worth.pairs[0, 1])
        else:
            parts[2:] = np.cumsum(-np.sort(-pairs, axis=1), axis=1).T[: size - 1]
        parts *= worth.discount(np.arange(size + 1))[:, None]
        return np.asarray(np.maximum.accumulate(parts, axis=0), dtype=np.float64)

    def _packed(self, worth: Worth, largest: IntArray) -> FloatArray:
        """Return what all cliques of equal worth add up to: as few cliques as fit, all full."""
        size = self.model.network.size
        pair = float(worth.pairs[0, 1]) if size > 1 else 0.0
        whole, rest = size // largest, size % largest
        total = whole * largest * (largest - 1.0) * worth.discount(largest)
        total = total + rest * (rest - 1.0) * worth.discount(rest)
        return np.asarray(np.maximum(total, 0.0) * pair, dtype=np.float64)

    @cached_property
    def _compute_s(self) -> float:
        """Computing of the two quickest islands: no round of two or more takes less."""
        return float(np.sort(self.clock.compute_s)[1]) if len(self.clock.compute_s) > 1 else 0.0
