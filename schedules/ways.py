"""Every way to carry a message of a small network: what it loads, and how long it is.

A *way* is a tree cut back to those it must reach; for `innetwork` it is a tree up to a root switch
and another one down from it. Many spanning trees are the same once cut back, so a clique and root
have few ways of their own. They are listed once, as arrays, and the cheapest way at given prices
is a product of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.cost import CarriedTree, Clique, CostModel
from schedules.forest import Forest
from schedules.network import FloatArray, IntArray
from schedules.partitions import mask_of
from schedules.pool import TreePool
from schedules.trees import Tree

Choice = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Way:
    """One way to carry a message.

    Attributes:
        key: tells the ways of a clique and root apart.
        loads: (D,) messages on every direction.
        latency_ns: longest path.
        plant: gives its trees.
    """

    key: object
    loads: FloatArray
    latency_ns: int
    plant: Callable[[], tuple[CarriedTree, ...]]


class Ways(Protocol):
    """The ways of one clique and root."""

    def count(self) -> int:
        """Return how many there are."""

    def within(self, cap_ns: float) -> list[Way]:
        """Return all ways of no more latency than a cap."""

    def cheapest(self, prices: FloatArray, cap_ns: float) -> Way | None:
        """Return the cheapest way of no more latency than a cap; None when there is none."""

    def cheap(self, prices: FloatArray, cap_ns: float) -> list[Way]:
        """Return a few cheap ways within a cap, the cheapest among them."""

    def least_ns(self) -> float:
        """Return the least latency of any way, inf where there is no way."""

    def latencies(self) -> NDArray[np.int64]:
        """Return every latency that some way has, ascending."""


@dataclass(frozen=True, eq=False)
class _Half:
    """Ways in one direction: C trees, D directions.

    Attributes:
        loads: (C, D) messages on every direction, ports of the members left out.
        latency_ns: (C,) longest path.
        numbers: (C,) numbers of the trees.
    """

    loads: FloatArray
    latency_ns: IntArray
    numbers: IntArray

    def distinct(self, possible: NDArray[np.bool_]) -> _Half:
        """Return the possible ways without those that load the same at the same latency."""
        rows = np.flatnonzero(possible)
        keys = np.hstack([self.loads[rows], self.latency_ns[rows, None]]).astype(np.int64)
        _, first = np.unique(keys, axis=0, return_index=True)
        rows = rows[np.sort(first)]
        return _Half(self.loads[rows], self.latency_ns[rows], self.numbers[rows])


@dataclass(frozen=True, eq=False)
class _OneWay:
    """Ways from or to the island at a root, for `multicast` or `aggregation`."""

    book: WayBook
    clique: Clique
    root: int
    half: _Half

    def count(self) -> int:
        return len(self.half.numbers)

    def within(self, cap_ns: float) -> list[Way]:
        return [self._way(n) for n in np.flatnonzero(self.half.latency_ns <= cap_ns).tolist()]

    def cheapest(self, prices: FloatArray, cap_ns: float) -> Way | None:
        costs = self.half.loads @ prices
        if cap_ns < inf:
            costs = np.where(self.half.latency_ns <= cap_ns, costs, inf)
        place = int(costs.argmin()) if len(costs) else 0
        return self._way(place) if len(costs) and costs[place] < inf else None

    def cheap(self, prices: FloatArray, cap_ns: float) -> list[Way]:
        way = self.cheapest(prices, cap_ns)
        return [] if way is None else [way]

    def least_ns(self) -> float:
        return float(self.half.latency_ns.min(initial=1 << 62))

    def latencies(self) -> NDArray[np.int64]:
        return np.unique(self.half.latency_ns)

    def _way(self, place: int) -> Way:
        number = int(self.half.numbers[place])
        return Way(
            number,
            self.half.loads[place],
            int(self.half.latency_ns[place]),
            lambda: (self.book.carried(self.book.collective, self.clique, self.root, number),),
        )


@dataclass(frozen=True, eq=False)
class _UpAndDown:
    """Ways up to any root switch and down again, for `innetwork`."""

    book: WayBook
    clique: Clique
    ports: FloatArray
    halves: tuple[tuple[int, _Half, _Half], ...]

    def count(self) -> int:
        return sum(len(up.numbers) * len(down.numbers) for _, up, down in self.halves)

    def within(self, cap_ns: float) -> list[Way]:
        return [
            self._way(root, up, down, (a, b))
            for root, up, down in self.halves
            for a, first_ns in enumerate(up.latency_ns.tolist())
            for b in np.flatnonzero(down.latency_ns <= cap_ns - first_ns).tolist()
        ]

    def cheapest(self, prices: FloatArray, cap_ns: float) -> Way | None:
        found = self.cheap(prices, cap_ns)
        return min(found, key=lambda way: float(way.loads @ prices), default=None)

    def cheap(self, prices: FloatArray, cap_ns: float) -> list[Way]:
        """Return the cheapest way of every root."""
        found = []
        for root, up, down in self.halves:
            cost, places = _cheapest_pair(up, down, prices, cap_ns)
            if cost < inf:
                found.append(self._way(root, up, down, places))
        return found

    def least_ns(self) -> float:
        each = [up.latency_ns.min() + down.latency_ns.min() for _, up, down in self.halves]
        return float(min(each, default=inf))

    def latencies(self) -> NDArray[np.int64]:
        sums = [
            np.unique(up.latency_ns)[:, None] + np.unique(down.latency_ns)[None, :]
            for _, up, down in self.halves
        ]
        found = [each.ravel() for each in sums]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def _way(self, root: int, up: _Half, down: _Half, places: tuple[int, int]) -> Way:
        first, second = (int(h.numbers[n]) for h, n in zip((up, down), places, strict=True))
        return Way(
            (root, first, second),
            up.loads[places[0]] + down.loads[places[1]] + self.ports,
            int(up.latency_ns[places[0]] + down.latency_ns[places[1]]),
            lambda: (
                self.book.carried(AGGREGATION, self.clique, root, first),
                self.book.carried(MULTICAST, self.clique, root, second),
            ),
        )


def _cheapest_pair(
    up: _Half, down: _Half, prices: FloatArray, cap_ns: float
) -> tuple[float, tuple[int, int]]:
    """Return the least cost, and the places, of a way up and one down within a total latency."""
    first, second = up.loads @ prices, down.loads @ prices
    if cap_ns == inf:
        places = int(first.argmin()), int(second.argmin())
        return float(first[places[0]] + second[places[1]]), places
    order = np.argsort(down.latency_ns, kind="stable")
    cheapest = np.minimum.accumulate(second[order])
    left = cap_ns - up.latency_ns
    last = np.searchsorted(down.latency_ns[order], left, side="right") - 1
    total = np.where(last >= 0, first + cheapest[last], inf)
    place = int(total.argmin())
    if total[place] == inf:
        return inf, (0, 0)
    within = order[: last[place] + 1]
    return float(total[place]), (place, int(within[second[within].argmin()]))


@dataclass(eq=False)
class WayBook:
    """All ways of a network for one collective, listed when they are asked for.

    Attributes:
        model: the network and its capabilities.
        collective: `multicast`, `aggregation` or `innetwork`.
        pool: all or some spanning trees.
    """

    model: CostModel
    collective: str
    pool: TreePool
    _ways: dict[tuple[Clique, int | None], Ways] = field(default_factory=dict)

    @cached_property
    def forest(self) -> Forest:
        """All trees of the pool side by side."""
        return Forest.of(self.model, self.pool, self.collective)

    def ways(self, clique: Clique, root: int | None) -> Ways:
        """Return the ways of a clique and root; of any root switch for `innetwork`."""
        if (clique, root) not in self._ways:
            found: Ways
            if root is None:
                halves = tuple(self._halves(clique))
                found = _UpAndDown(self, clique, self._ports(clique, clique), halves)
            else:
                found = _OneWay(self, clique, root, self._one_way(clique, root))
            self._ways[clique, root] = found
        return self._ways[clique, root]

    def carried(self, kind: str, clique: Clique, root: int, number: int) -> CarriedTree:
        """Return a tree of the pool, cut back to a clique."""
        others = clique
        if self.collective != INNETWORK:
            others = tuple(site for site in clique if site != root)
        return CarriedTree(kind, Tree.rooted(self.pool.trees[number], root).pruned(others), others)

    def _one_way(self, clique: Clique, root: int) -> _Half:
        others = [site for site in clique if site != root]
        mask = mask_of(clique)
        if self.collective == MULTICAST:
            half, ports = self._down(mask, root), self._ports([root], others)
            possible = np.ones(len(half.numbers), dtype=np.bool_)
        else:
            half, ports = self._up(mask, root), self._ports(others, [])
            half.loads[:, self.model.network.down(root)] = self.forest.out[:, root, mask]
            possible = self.forest.out[:, root, mask] >= 1
        found = half.distinct(possible)
        return _Half(found.loads + ports, found.latency_ns, found.numbers)

    def _halves(self, clique: Clique) -> Iterator[tuple[int, _Half, _Half]]:
        mask = mask_of(clique)
        for root in np.flatnonzero(self.model.tree_network.next_hop[clique[0]] >= 0).tolist():
            up = self._up(mask, root).distinct(self.forest.out[:, root, mask] == 1)
            if len(up.numbers):
                down = self._down(mask, root)
                yield root, up, down.distinct(np.ones(len(down.numbers), dtype=np.bool_))

    def _up(self, mask: int, root: int) -> _Half:
        forest = self.forest
        towards = forest.towards[:, root]
        loads = np.zeros((len(towards), len(self.model.slowness)))
        each = np.arange(len(towards))[:, None]
        np.add.at(loads, (each, forest.columns), towards * forest.streams[:, :, mask])
        np.add.at(loads, (each, forest.accelerators), towards * forest.taken[:, :, mask])
        loads[:, self.model.network.accelerator(root)] += forest.taken_at_root[:, root, mask]
        return _Half(loads, forest.up_ns[:, root, mask].astype(np.int64), each[:, 0])

    def _down(self, mask: int, root: int) -> _Half:
        forest = self.forest
        away = 1 - forest.towards[:, root]
        loads = np.zeros((len(away), len(self.model.slowness)))
        each = np.arange(len(away))[:, None]
        np.add.at(loads, (each, forest.columns), away * forest.copies[:, :, mask])
        return _Half(loads, forest.down_ns[:, root, mask].astype(np.int64), each[:, 0])

    def _ports(self, senders: Sequence[int], receivers: Sequence[int]) -> FloatArray:
        network = self.model.network
        loads = np.zeros(len(self.model.slowness))
        loads[[network.up(site) for site in senders]] = 1
        loads[[network.down(site) for site in receivers]] = 1
        return loads
