"""The network as arrays: what every cost, tree and bound of this package computes on.

A round is judged by the load it puts on each *direction* (WAN links, access ports up and down,
accelerator inputs), so a network is at heart three tables: the rate of every direction, the
least-delay next hop from everywhere to everywhere, and the one-way delay between islands. They are
numpy arrays here because an optimizer asks for them millions of times; names come back only at the
edge, in plans and messages.

Columns of the direction axis come in a fixed order: WAN directions sorted by code, then the way up
of every island, then the way down, then the input of every site's accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from topologies.errors import UserError
from topologies.model import Direction, Topology
from topologies.routing import Routes, nanoseconds

ACCELERATOR_SUFFIX = ".accelerator"
NANOSECONDS_PER_SECOND = 1_000_000_000
TABLED_SITES = 64

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Network:
    """A topology and its routes as arrays, sites and directions numbered from zero.

    Attributes:
        topology: what it was made from.
        codes: site codes; a site's number is its place here.
        wan: (W, 2) numbers of the two ends of each WAN direction, source first.
        rate_mbps: (D,) rate of every direction; accelerator inputs are unlimited here.
        wan_delay_ns: (W,) one-way delay of each WAN direction.
        access_delay_ns: (N,) one-way delay of each island's access port.
        next_hop: (N, N) `next_hop[at, to]` is the neighbour on the route, `at` itself when there,
            -1 where no route leads.
        delay_ns: (N, N) one-way delay from island to island, access ports included.
        wan_hops: (N, N) WAN links on the route.
        usable: (W,) whether a WAN direction may be used at all.
    """

    topology: Topology
    codes: tuple[str, ...]
    wan: IntArray
    rate_mbps: FloatArray
    wan_delay_ns: IntArray
    access_delay_ns: IntArray
    next_hop: IntArray
    delay_ns: IntArray
    wan_hops: IntArray
    usable: NDArray[np.bool_]

    @classmethod
    def of(cls, topology: Topology, routes: Routes | None = None) -> Network:
        """Number a topology's sites and directions.

        Raises:
            UserError: when some site cannot reach another.
        """
        network = cls._of(topology, routes, lambda way: True)
        _refuse_disconnected(topology, network.next_hop)
        return network

    def on_links(self, links: Collection[tuple[str, str]]) -> Network:
        """Return the same sites and columns with routes over some links only.

        Sites that those links leave apart keep `next_hop` -1 towards each other.
        """
        wanted = {frozenset(link) for link in links}

        def usable(way: Direction) -> bool:
            return frozenset((way.source, way.target)) in wanted

        return self._of(self.topology, None, usable)

    @classmethod
    def _of(
        cls, topology: Topology, routes: Routes | None, usable: Callable[[Direction], bool]
    ) -> Network:
        codes = topology.codes
        number = {code: index for index, code in enumerate(codes)}
        ways = topology.wan_directions()
        wan = np.array([(number[d.source], number[d.target]) for d in ways], dtype=np.int64)
        wan = wan.reshape(-1, 2)
        wan_delay = np.array([nanoseconds(s.one_way_delay_ms) for s in ways.values()], np.int64)
        access = [topology.access[code] for code in codes]
        access_delay = np.array([nanoseconds(s.one_way_delay_ms) for s in access], np.int64)
        allowed = np.array([usable(way) for way in ways], dtype=np.bool_)
        if routes is None:
            next_hop = _least_delay_hops(len(codes), wan[allowed], wan_delay[allowed])
        else:
            next_hop = _next_hop_table(codes, number, routes)
        delay, hops = _accumulate(next_hop, wan, wan_delay)
        delay = delay + access_delay[:, None] + access_delay[None, :]
        np.fill_diagonal(delay, 0)
        return cls(
            topology=topology,
            codes=codes,
            wan=wan,
            rate_mbps=np.array(
                [s.rate_mbps for s in (*ways.values(), *access, *access)] + [np.inf] * len(codes)
            ),
            wan_delay_ns=wan_delay,
            access_delay_ns=access_delay,
            next_hop=next_hop,
            delay_ns=delay,
            wan_hops=hops,
            usable=allowed,
        )

    @property
    def size(self) -> int:
        """How many sites there are."""
        return len(self.codes)

    @property
    def wan_count(self) -> int:
        """How many WAN directions there are."""
        return len(self.wan)

    @cached_property
    def reference_mbps(self) -> float:
        """The slowest rate of the network; loads are counted in messages at this rate."""
        return float(self.rate_mbps.min())

    @cached_property
    def slowness(self) -> FloatArray:
        """(D,) reference rate over own rate: 1 where slowest, 0 where unlimited."""
        return self.reference_mbps / self.rate_mbps

    def up(self, site: int) -> int:
        """Return the column of an island's way up to its switch."""
        return self.wan_count + site

    def down(self, site: int) -> int:
        """Return the column of an island's way down from its switch."""
        return self.wan_count + self.size + site

    def accelerator(self, site: int) -> int:
        """Return the column of the input of a site's accelerator."""
        return self.wan_count + 2 * self.size + site

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The direction of every column."""
        wan = [Direction(self.codes[a], self.codes[b]) for a, b in self.wan]
        up = [Direction.up(code) for code in self.codes]
        down = [Direction.down(code) for code in self.codes]
        accelerators = [Direction(code, code + ACCELERATOR_SUFFIX) for code in self.codes]
        return (*wan, *up, *down, *accelerators)

    @cached_property
    def wan_column(self) -> IntArray:
        """(N, N) column of the WAN direction from one site to its neighbour, -1 where none is."""
        table = np.full((self.size, self.size), -1, dtype=np.int64)
        table[self.wan[:, 0], self.wan[:, 1]] = np.arange(self.wan_count)
        return table

    def route_columns(self, source: int, target: int) -> list[int]:
        """Return the columns a packet crosses from island to island: up, WAN directions, down."""
        columns, at = [self.up(source)], source
        while at != target:
            onward = int(self.next_hop[at, target])
            columns.append(int(self.wan_column[at, onward]))
            at = onward
        return [*columns, self.down(target)]

    def crossings(self, members: Sequence[int]) -> NDArray[np.uint8]:
        """Return (k, k, D) ones where the route between two of k members crosses a direction."""
        if self.size <= TABLED_SITES:
            rows = np.asarray(members, dtype=np.int64)
            return self._all_crossings[rows[:, None], rows[None, :]]
        return self._crossings(members)

    @cached_property
    def _all_crossings(self) -> NDArray[np.uint8]:
        return self._crossings(range(self.size))

    def _crossings(self, members: Sequence[int]) -> NDArray[np.uint8]:
        count = len(members)
        crossed = np.zeros((count, count, len(self.rate_mbps)), dtype=np.uint8)
        for i, source in enumerate(members):
            for j, target in enumerate(members):
                if source != target:
                    crossed[i, j, self.route_columns(source, target)] = 1
        return crossed


def _next_hop_table(codes: tuple[str, ...], number: dict[str, int], routes: Routes) -> IntArray:
    table = np.full((len(codes), len(codes)), -1, dtype=np.int64)
    np.fill_diagonal(table, np.arange(len(codes)))
    for (at, to), onward in routes.next_hops.items():
        table[number[at], number[to]] = number[onward]
    return table


def _least_delay_hops(size: int, wan: IntArray, wan_delay_ns: IntArray) -> IntArray:
    """Return the next hops of `topologies.routing`, by its rule, for a thousand sites in seconds.

    The rule: every hop counts a nanosecond at least, and of neighbours that are equally near to the
    target the first takes it. Whole nanoseconds stay exact in double precision.
    """
    table = np.full((size, size), -1, dtype=np.int64)
    length = np.maximum(wan_delay_ns, 1).astype(np.float64)
    graph = csr_matrix((length, (wan[:, 0], wan[:, 1])), shape=(size, size))
    distance = dijkstra(graph)
    for hop in np.lexsort((wan[:, 0], -wan[:, 1])).tolist():
        at, neighbour = wan[hop]
        on_time = length[hop] + distance[neighbour] == distance[at]
        table[at, on_time & np.isfinite(distance[at])] = neighbour
    np.fill_diagonal(table, np.arange(size))
    return table


def _refuse_disconnected(topology: Topology, next_hop: IntArray) -> None:
    apart = np.argwhere(next_hop < 0)
    if len(apart):
        source, target = (topology.codes[site] for site in apart[0])
        raise UserError(f"{topology.name} is disconnected: no route from {source} to {target}")


def _accumulate(
    next_hop: IntArray, wan: IntArray, wan_delay_ns: IntArray
) -> tuple[IntArray, IntArray]:
    """Walk all routes at once, a hop a step, and add up their delays and hops."""
    size = len(next_hop)
    step = np.zeros((size, size), dtype=np.int64)
    step[wan[:, 0], wan[:, 1]] = wan_delay_ns
    target = np.broadcast_to(np.arange(size), (size, size))
    at = np.broadcast_to(np.arange(size)[:, None], (size, size)).copy()
    at[next_hop < 0] = target[next_hop < 0]
    delay, hops = np.zeros_like(step), np.zeros_like(step)
    while (moving := at != target).any():
        onward = next_hop[at, target]
        delay += np.where(moving, step[at, onward], 0)
        hops += moving
        at = onward
    return delay, hops
