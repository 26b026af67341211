"""The best order of a ring all-reduce: what people use today, and the rank order of a run.

A ring of n members passes chunks of M/n around it 2(n-1) times: n-1 steps sum up, n-1 steps hand
the sums out (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009). Every member therefore
sends 2(n-1)/n of a message to its successor, whatever the order is. What the order decides is
which links those hops cross: a bad one crosses a link several times in the same direction, and the
busiest direction sets the pace of the whole ring.

Orders are compared by the time of the busiest direction, then by WAN links crossed, then by
latency (the longest chain of sequential steps), then by site codes. The search is exact up to nine
members, all (n-1)! orders being costed at once; above that a local search improves a tour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from schedules.network import IntArray, Network
from topologies.errors import UserError
from topologies.model import Topology

EXACT_RING_MEMBERS = 9
SEARCH_HOPS = 20_000
WALKS = 8
_FLOAT_DIGITS = 9


def ring_share(members: int) -> float:
    """Return the messages each member of a ring all-reduce sends to its successor, 2(n-1)/n."""
    return 2 * (members - 1) / members


@dataclass(frozen=True, order=True)
class RingCost:
    """How good an order is; smaller is better, field by field.

    Attributes:
        busiest: crossings of a direction times its slowness, largest over all directions.
        wan_crossings: WAN links crossed by the n hops together.
        latency_ns: longest chain of the 2(n-1) sequential steps.
    """

    busiest: float
    wan_crossings: int
    latency_ns: int


def best_ring_order(
    topology: Topology | Network, members: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return the best ring: each of these codes sends to the next, the last to the first.

    Args:
        topology: the network, or its arrays when the caller has them already.
        members: site codes that take part, at least two; all sites when None.

    Raises:
        UserError: for an unknown code or fewer than two members.
    """
    network = topology if isinstance(topology, Network) else Network.of(topology)
    numbers = _numbers(network, network.codes if members is None else members)
    return tuple(network.codes[site] for site in best_ring(network, numbers))


def _numbers(network: Network, members: Iterable[str]) -> tuple[int, ...]:
    wanted = sorted(set(members))
    unknown = [code for code in wanted if code not in network.codes]
    if unknown:
        known = ", ".join(network.codes)
        raise UserError(f"ring member {unknown[0]} is no site of {network.topology.name}: {known}")
    if len(wanted) < 2:
        raise UserError(f"a ring needs two members at least, not {len(wanted)}")
    return tuple(network.codes.index(code) for code in wanted)


def best_ring(
    network: Network, members: Sequence[int], latency_first: bool = False
) -> tuple[int, ...]:
    """Return the best order of the numbered members, exact up to `EXACT_RING_MEMBERS`.

    With `latency_first` orders are compared by latency before the busiest direction.
    """
    ordered = tuple(sorted(members))
    if len(ordered) <= EXACT_RING_MEMBERS:
        return exact_rings(network, ordered)[latency_first]
    return _local_search(network, ordered, latency_first)


def exact_rings(
    network: Network, members: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the best of all orders of sorted members: by load first, and by latency first."""
    places = orders_of(len(members))
    orders, wan, latency = _measured(network, members)
    crossed = _crossings(network.crossings(members), places)
    busiest = np.asarray(np.max(crossed * network.slowness, axis=1)).round(_FLOAT_DIGITS)
    by_load = orders[np.lexsort((latency, wan, busiest))[0]]
    by_latency = orders[np.lexsort((wan, busiest, latency))[0]]
    return tuple(by_load.tolist()), tuple(by_latency.tolist())


def every_ring(
    network: Network, members: tuple[int, ...]
) -> tuple[IntArray, NDArray[np.uint8], IntArray]:
    """Return all orders of sorted members, what each crosses and its latency.

    Returns:
        ((n-1)!, n) orders, ((n-1)!, D) crossings of every direction, ((n-1)!,) nanoseconds.
    """
    orders, _, latency = _measured(network, members)
    return orders, _crossings(network.crossings(members), orders_of(len(members))), latency


def _measured(network: Network, members: tuple[int, ...]) -> tuple[IntArray, IntArray, IntArray]:
    orders = np.asarray(members, dtype=np.int64)[orders_of(len(members))]
    following = np.roll(orders, -1, axis=1)
    wan = network.wan_hops[orders, following].sum(axis=1)
    return orders, wan, ring_latency_ns(network.delay_ns[orders, following])


def ring_cost(network: Network, order: Sequence[int]) -> RingCost:
    """Return how good one order is."""
    hops = list(zip(order, [*order[1:], order[0]], strict=True))
    crossed = np.zeros(len(network.rate_mbps))
    for source, target in hops:
        np.add.at(crossed, network.route_columns(source, target), 1)
    delays = np.array([network.delay_ns[hop] for hop in hops])
    busiest = round(float((crossed * network.slowness).max()), _FLOAT_DIGITS)
    wan = int(sum(network.wan_hops[hop] for hop in hops))
    return RingCost(busiest, wan, int(ring_latency_ns(delays[None, :])[0]))


def ring_latency_ns(hop_delay_ns: IntArray) -> IntArray:
    """Return the longest chain of 2(n-1) hops: twice around, less the cheapest two in a row.

    A chunk starts at any member and goes to its successor again and again; nothing but its own
    arrival starts the next step, so no step waits for the slowest hop elsewhere.
    """
    in_a_row = hop_delay_ns + np.roll(hop_delay_ns, -1, axis=1)
    return np.asarray(2 * hop_delay_ns.sum(axis=1) - in_a_row.min(axis=1), dtype=np.int64)


@lru_cache(maxsize=16)
def orders_of(count: int) -> NDArray[np.int8]:
    """Return ((n-1)!, n) every order of n members that begins with the first, lexicographic."""
    rest = np.array(list(permutations(range(1, count))), dtype=np.int8).reshape(-1, count - 1)
    return np.hstack([np.zeros((len(rest), 1), dtype=np.int8), rest])


def _crossings(crossings: NDArray[np.uint8], places: NDArray[np.int8]) -> NDArray[np.uint8]:
    crossed = np.zeros((len(places), crossings.shape[2]), dtype=np.uint8)
    for here, there in zip(places.T, np.roll(places, -1, axis=1).T, strict=True):
        crossed += crossings[here, there]
    return crossed


def _local_search(
    network: Network, members: tuple[int, ...], latency_first: bool
) -> tuple[int, ...]:
    """Improve the best of some tours by moving and reversing stretches, within a budget."""

    def value(order: tuple[int, ...]) -> tuple[float, ...]:
        cost = ring_cost(network, order)
        if latency_first:
            return cost.latency_ns, cost.busiest, cost.wan_crossings
        return cost.busiest, cost.wan_crossings, cost.latency_ns

    tours = [_nearest_neighbour(network, members), *_walks(network, members)]
    best = min(tours, key=value)
    worth = value(best)
    budget = SEARCH_HOPS // len(members)
    improved = True
    while improved:
        improved = False
        for candidate in islice(_neighbours(best), max(budget, 0)):
            budget -= 1
            other = value(candidate)
            if other < worth:
                best, worth, improved = candidate, other, True
                break
    return _from_smallest(best)


def _walks(network: Network, members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the order in which a walk around the least-delay tree of a member meets the others.

    A walk around a tree uses each link once in each direction, which no ring can do without where
    the link is the only way to some members.
    """
    wanted = set(members)
    for root in members[:: max(1, len(members) // WALKS)]:
        children: dict[int, set[int]] = {}
        for member in members:
            at = member
            while at != root:
                onward = int(network.next_hop[at, root])
                children.setdefault(onward, set()).add(at)
                at = onward
        yield tuple(site for site in _depth_first(children, root) if site in wanted)


def _depth_first(children: Mapping[int, Collection[int]], root: int) -> Iterator[int]:
    pending = [root]
    while pending:
        site = pending.pop()
        yield site
        pending += sorted(children.get(site, ()), reverse=True)


def _nearest_neighbour(network: Network, members: tuple[int, ...]) -> tuple[int, ...]:
    tour, left = [members[0]], set(members[1:])
    while left:
        here = tour[-1]
        tour.append(min(left, key=lambda site: (int(network.delay_ns[here, site]), site)))
        left.remove(tour[-1])
    return tuple(tour)


def _neighbours(order: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    count = len(order)
    for i in range(1, count - 1):
        for j in range(i + 1, count):
            yield order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
    for i in range(1, count):
        rest = order[:i] + order[i + 1 :]
        for j in range(1, count):
            if j != i:
                yield (*rest[:j], order[i], *rest[j:])


def _from_smallest(order: tuple[int, ...]) -> tuple[int, ...]:
    start = order.index(min(order))
    return order[start:] + order[:start]
