"""Costs of cliques in networks too large for tables over all cliques.

All routes of a network lie end to end in one flat array of columns, so the load of a clique is a
gather and a count, whatever its size. Trees are those of least delay: the union of the routes from
(or to) their root, so each direction counts once for every root that crosses it.

An optimizer asks for the same cliques again and again; `CliqueCosts` remembers them. What it
answers is a choice of trees and ring order that `works` can turn into the plan's own terms, where
`schedules.cost` has the last word on what a round takes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from schedules.capabilities import AGGREGATION, EXCHANGE, INNETWORK, MULTICAST, RING
from schedules.constraints import Clock
from schedules.cost import (
    LEAST_DELAY,
    CarriedTree,
    Clique,
    CliqueWork,
    CostModel,
    clique_latency_ns,
    clique_loads,
    clique_work,
)
from schedules.network import FloatArray, IntArray, Network
from schedules.ring import ring_share
from schedules.tours import ring_crossings, ring_latency_ns, short_ring
from schedules.trees import tree_from, tree_to

REMEMBERED_CLIQUES = 20_000
GATHERED_ROUTES = 1 << 17
WHOLE_PATIENCE = 8.0
PATIENT_SITES = 120
HASTE = 0.3


@dataclass(frozen=True, eq=False)
class RouteTable:
    """Every route of a network: the WAN columns it crosses.

    Attributes:
        network: of which network.
        start: (N * N + 1,) where the route from a to b begins, at place a * N + b.
        columns: WAN columns, route after route.
    """

    network: Network
    start: IntArray
    columns: IntArray

    @classmethod
    def of(cls, network: Network) -> RouteTable:
        """Walk all routes at once, a hop a step."""
        size = network.size
        hops = network.wan_hops.ravel()
        start = np.concatenate([[0], np.cumsum(hops)]).astype(np.int64)
        columns = np.zeros(int(start[-1]), dtype=np.int64)
        route = np.flatnonzero(hops > 0)
        at, to = route // size, route % size
        place = start[route]
        while len(place):
            onward = network.next_hop[at, to]
            columns[place] = network.wan_column[at, onward]
            moving = onward != to
            at, to, place = onward[moving], to[moving], place[moving] + 1
        return cls(network, start, columns)

    def crossed(self, sources: IntArray, targets: IntArray) -> tuple[IntArray, IntArray]:
        """Return, for each crossing of these routes, the number of the route and the column."""
        route = sources * self.network.size + targets
        first, length = self.start[route], self.start[route + 1] - self.start[route]
        which = np.repeat(np.arange(len(route)), length)
        before = np.repeat(np.cumsum(length) - length, length)
        return which, self.columns[first[which] + np.arange(len(which)) - before]

    def each_to_each(self, members: IntArray) -> FloatArray:
        """Return (W,) how often the routes between all members cross each WAN direction."""
        count = self.network.wan_count
        total = np.zeros(count, dtype=np.int64)
        step = max(1, GATHERED_ROUTES // max(1, len(members)))
        for low in range(0, len(members), step):
            some = members[low : low + step]
            pairs = np.repeat(some, len(members)), np.tile(members, len(some))
            total += np.bincount(self.crossed(*pairs)[1], minlength=count)
        return total.astype(np.float64)

    def trees(self, roots: IntArray, members: IntArray, outward: bool) -> FloatArray:
        """Return (W,) how many of the roots' trees to (or from) the members use each direction."""
        total = np.zeros(self.network.wan_count)
        step = max(1, GATHERED_ROUTES // max(1, len(members)))
        for low in range(0, len(roots), step):
            some = roots[low : low + step]
            ends = np.repeat(some, len(members)), np.tile(members, len(some))
            which, columns = self.crossed(*(ends if outward else ends[::-1]))
            used = np.zeros((len(some), self.network.wan_count), dtype=np.bool_)
            used[which // len(members), columns] = True
            total += used.sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class CliqueCost:
    """What a clique costs.

    Attributes:
        units: (D,) time it keeps each direction busy; inf where it is impossible.
        latency_ns: its longest path.
        groups: trees it needs.
        detail: its ring order, or the root of its trees for `innetwork`; else its members.
    """

    units: FloatArray
    latency_ns: int
    groups: int
    detail: Clique


@dataclass(eq=False)
class CliqueCosts:
    """Answers what a clique of one collective costs, remembering recent answers."""

    model: CostModel
    collective: str
    clock: Clock
    _known: OrderedDict[Clique, CliqueCost] = field(default_factory=OrderedDict)

    @cached_property
    def routes(self) -> RouteTable:
        """The routes of unicast."""
        return RouteTable.of(self.model.network)

    @cached_property
    def tree_routes(self) -> RouteTable:
        """The routes that trees may use."""
        same = self.model.tree_network is self.model.network
        return self.routes if same else RouteTable.of(self.model.tree_network)

    def of(self, clique: Clique) -> CliqueCost:
        """Return the cost of a sorted clique."""
        known = self._known.get(clique)
        if known is None:
            known = self._cost(clique)
            self._known[clique] = known
            if len(self._known) > REMEMBERED_CLIQUES:
                self._known.popitem(last=False)
        return known

    def works(self, clique: Clique) -> CliqueWork | None:
        """Return the ring order or trees that the cost was taken for."""
        if self.collective == RING:
            return CliqueWork(self.of(clique).detail)
        if self.collective == EXCHANGE or len(clique) < 2:
            return CliqueWork(clique)
        if not self._plain:
            return clique_work(self.model, self.collective, clique, LEAST_DELAY)
        network = self.model.tree_network
        if self.collective == INNETWORK:
            root = self.of(clique).detail[0]
            up, down = tree_to(network, root, clique), tree_from(network, root, clique)
            carried = CarriedTree(AGGREGATION, up, clique), CarriedTree(MULTICAST, down, clique)
            return CliqueWork(clique, carried)
        grow = tree_from if self.collective == MULTICAST else tree_to
        return CliqueWork(
            clique,
            tuple(
                CarriedTree(self.collective, grow(network, root, clique), others)
                for root in clique
                for others in [tuple(site for site in clique if site != root)]
            ),
        )

    @cached_property
    def _plain(self) -> bool:
        """Whether every stream can be summed wherever streams meet."""
        return self.collective in (EXCHANGE, RING, MULTICAST) or (
            self.model.capabilities.sums_anywhere
        )

    def _cost(self, clique: Clique) -> CliqueCost:
        members = np.array(clique, dtype=np.int64)
        if len(members) < 2:
            return CliqueCost(np.zeros(len(self.model.slowness)), 0, 0, clique)
        if self.collective not in (EXCHANGE, RING) and self._apart(members):
            return self._impossible(clique)
        if not self._plain:
            return self._tallied(clique)
        wan, latency, groups, detail = {
            EXCHANGE: self._exchange,
            RING: self._ring,
            MULTICAST: self._multicast,
            AGGREGATION: self._aggregation,
            INNETWORK: self._innetwork,
        }[self.collective](members)
        return CliqueCost(self._units(wan, members), latency, groups, detail)

    def _apart(self, members: IntArray) -> bool:
        return bool((self.model.tree_network.next_hop[np.ix_(members, members)] < 0).any())

    def _impossible(self, clique: Clique) -> CliqueCost:
        return CliqueCost(np.full(len(self.model.slowness), np.inf), 0, 0, clique)

    def _tallied(self, clique: Clique) -> CliqueCost:
        """Count streams hop by hop, for networks where not every site can sum."""
        work = clique_work(self.model, self.collective, clique, LEAST_DELAY)
        if work is None:
            return self._impossible(clique)
        units = clique_loads(self.model, self.collective, work) * self.model.slowness
        latency = clique_latency_ns(self.model, self.collective, work)
        return CliqueCost(units, latency, len(work.trees), clique)

    def _units(self, wan: FloatArray, members: IntArray) -> FloatArray:
        network, count = self.model.network, len(members)
        up, down = access_messages(self.collective, count)
        loads = np.zeros(len(self.model.slowness))
        loads[: network.wan_count] = wan
        loads[network.up(0) + members] = up
        loads[network.down(0) + members] = down
        return loads * self.model.slowness

    def _exchange(self, members: IntArray) -> tuple[FloatArray, int, int, Clique]:
        latency = int(self.model.network.delay_ns[np.ix_(members, members)].max())
        return self.routes.each_to_each(members), latency, 0, tuple(members.tolist())

    def _ring(self, members: IntArray) -> tuple[FloatArray, int, int, Clique]:
        whole = len(members) == self.model.network.size
        patience = WHOLE_PATIENCE if len(members) <= PATIENT_SITES else 1.0
        patience = patience if whole else HASTE
        order = short_ring(self.routes, members, self.clock, patience)
        crossed = ring_crossings(self.routes, order) * ring_share(len(members))
        latency = ring_latency_ns(self.model.network, order)
        return crossed, latency, 0, tuple(order.tolist())

    def _multicast(self, members: IntArray) -> tuple[FloatArray, int, int, Clique]:
        latency = int(self.model.tree_network.delay_ns[np.ix_(members, members)].max())
        wan = self.tree_routes.trees(members, members, outward=True)
        return wan, latency, len(members), tuple(members.tolist())

    def _aggregation(self, members: IntArray) -> tuple[FloatArray, int, int, Clique]:
        latency = int(self.model.tree_network.delay_ns[np.ix_(members, members)].max())
        wan = self.tree_routes.trees(members, members, outward=False)
        return wan, latency, len(members), tuple(members.tolist())

    def _innetwork(self, members: IntArray) -> tuple[FloatArray, int, int, Clique]:
        both = up_and_down_ns(self.model.tree_network, members)
        root = int(both.argmin())
        roots = np.array([root])
        wan = self.tree_routes.trees(roots, members, outward=True)
        wan = wan + self.tree_routes.trees(roots, members, outward=False)
        return wan, int(both[root]), 2, (root,)


def access_messages(collective: str, members: int) -> tuple[float, float]:
    """Return the messages each island of a clique sends and hears through its access port."""
    if members < 2:
        return 0.0, 0.0
    if collective == RING:
        return ring_share(members), ring_share(members)
    many = float(members - 1)
    return (
        many if collective in (EXCHANGE, AGGREGATION) else 1.0,
        many if collective in (EXCHANGE, MULTICAST) else 1.0,
    )


def up_and_down_ns(network: Network, members: Sequence[int] | IntArray) -> IntArray:
    """Return (N,) the way up to each possible root plus the way down, the longest of each."""
    access = network.access_delay_ns
    members = np.asarray(members)
    to_root = switch_delay_ns(network)[members] + access[members, None]
    from_root = switch_delay_ns(network)[:, members] + access[members]
    total = to_root.max(axis=0) + from_root.max(axis=1)
    apart = (network.next_hop[members] < 0).any(axis=0)
    return np.where(apart, np.iinfo(np.int64).max, total)


def switch_delay_ns(network: Network) -> IntArray:
    """Return (N, N) delays from switch to switch, access ports left out."""
    access = network.access_delay_ns
    wan = network.delay_ns - access[:, None] - access[None, :]
    np.fill_diagonal(wan, 0)
    return wan
