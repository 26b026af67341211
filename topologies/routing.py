"""Unicast routes: least delay, the same on every machine and in every run.

Delays are compared as whole nanoseconds: summed as floats, 0.1 + 0.2 is more than 0.3, and two
equally long ways would be told apart by rounding. Ways of equal delay are told apart by their
site codes, compared in order from the sender on, so the choice never depends on the order of a
file or of a dictionary.

That rule also makes hop-by-hop forwarding agree with whole paths: the rest of a chosen path is
itself the chosen path of the next site, so a switch needs to know the destination only. It would
fail only where a link has no delay at all, because the sites of such a link could each prefer the
other; so every hop counts as one nanosecond at least.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import networkx as nx

from topologies.errors import RunError
from topologies.model import Direction, Topology

NANOSECONDS_PER_MILLISECOND = 1_000_000


class NoRouteError(RunError):
    """Two sites that no remaining link connects."""


def nanoseconds(milliseconds: float) -> int:
    """Return a delay as whole nanoseconds, the precision in which routes are compared."""
    return round(milliseconds * NANOSECONDS_PER_MILLISECOND)


@dataclass(frozen=True)
class Routes:
    """Every unicast route of a network: where each site sends what is meant for another."""

    topology: Topology
    next_hops: Mapping[tuple[str, str], str]

    def next_hop(self, at: str, to: str) -> str:
        """Return the neighbour of `at` on the way to `to`; raises NoRouteError if none leads on."""
        try:
            return self.next_hops[at, to]
        except KeyError:
            raise NoRouteError(f"no route from {at} to {to}") from None

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """Return the site codes from `a` to `b`, both included; raises NoRouteError."""
        at, sites = a, [a]
        while at != b:
            at = self.next_hop(at, b)
            sites.append(at)
        return tuple(sites)

    def directions(self, a: str, b: str) -> tuple[Direction, ...]:
        """Return what a packet from island `a` to island `b` crosses: up, WAN links, down."""
        if a == b:
            return ()
        path = self.path(a, b)
        wan = tuple(Direction(x, y) for x, y in pairwise(path))
        return (Direction.up(a), *wan, Direction.down(b))

    def one_way_delay_ms(self, a: str, b: str) -> float:
        """Return the propagation delay from island to island, both access ports included."""
        if a == b:
            return 0.0
        specs = self.topology.directions()
        access = (specs[Direction.up(a)], specs[Direction.down(b)])
        total = sum(nanoseconds(spec.one_way_delay_ms) for spec in access) + self._wan_ns(a, b)
        return total / NANOSECONDS_PER_MILLISECOND

    @cached_property
    def _known_wan_ns(self) -> dict[tuple[str, str], int]:
        return {}

    def _wan_ns(self, a: str, b: str) -> int:
        """The delay from switch to switch, each rest of a way summed once and remembered."""
        known, specs = self._known_wan_ns, self.topology.wan_directions()
        ahead = [a]
        while ahead[-1] != b and (ahead[-1], b) not in known:
            ahead.append(self.next_hop(ahead[-1], b))
        total = known.get((ahead[-1], b), 0)
        for after, at in pairwise(reversed(ahead)):
            total += nanoseconds(specs[Direction(at, after)].one_way_delay_ms)
            known[at, b] = total
        return total


def least_delay_routes(topology: Topology, without: Collection[Direction] = ()) -> Routes:
    """Return the least-delay routes of a network, optionally without some WAN directions.

    Ties go to the path whose sequence of site codes is the smaller.
    """
    weights = {
        (way.source, way.target): max(1, nanoseconds(spec.one_way_delay_ms))
        for way, spec in topology.wan_directions().items()
        if way not in set(without)
    }
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(topology.codes)
    graph.add_weighted_edges_from((a, b, weight) for (a, b), weight in weights.items())
    distances = dict(nx.all_pairs_dijkstra_path_length(graph))
    return Routes(topology, _next_hops(topology.codes, weights, distances))


def _next_hops(
    codes: Collection[str],
    weights: Mapping[tuple[str, str], int],
    distances: Mapping[str, Mapping[str, float]],
) -> dict[tuple[str, str], str]:
    """Choose, for each site and destination, the first neighbour in code order that is on time."""
    chosen: dict[tuple[str, str], str] = {}
    for (at, neighbour), weight in sorted(weights.items()):
        for to in codes:
            rest = distances[neighbour].get(to)
            if to != at and rest is not None and weight + rest == distances[at][to]:
                chosen.setdefault((at, to), neighbour)
    return chosen
