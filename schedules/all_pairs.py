"""What it takes to bring every pair of islands together once, whatever rounds do it.

If all pairs meet at rate r, each direction carries at least r times what the pairs that need it put
on it, and the two islands furthest apart must meet at rate r too, in rounds of no less latency.
As a round takes transfer plus latency, r x (transfer needed + longest delay) <= 1. A full clique
often attains that, which proves it.

The transfer needed: for `exchange` the routes of all pairs; for `multicast` a message of each
island inside a set S of sites must leave S, for `aggregation` one for each outside must enter it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION, EXCHANGE, MULTICAST
from schedules.constraints import Clock
from schedules.cost import NANOSECONDS, CostModel
from schedules.network import Network
from schedules.relaxations import Worth
from schedules.routed import RouteTable

NeedArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Need:
    """A bound on the rate of all pairs for rounds of one collective.

    Attributes:
        collective: of which collective.
        rate: at which all pairs can meet at most.
        worth: of pairs, adding up to one, at which no round of it is worth more per second.
    """

    collective: str
    rate: float
    worth: Worth


def all_pairs_needs(model: CostModel, clock: Clock, collectives: Sequence[str]) -> Iterator[Need]:
    """Yield the need of every collective for which there is an argument."""
    for collective in collectives:
        if collective not in (EXCHANGE, MULTICAST, AGGREGATION):
            continue
        network = model.network if collective == EXCHANGE else model.tree_network
        units, demand = (
            _routes_need(network) if collective == EXCHANGE else _cuts_need(network, collective)
        )
        delay = np.where(network.next_hop < 0, 0, network.delay_ns)
        longest = float(delay.max()) * NANOSECONDS if clock.counts_latency else 0.0
        transfer = units * clock.unit_s
        total = transfer + longest
        pairs = demand / max(float(demand.sum()), 1e-300) * (transfer / total)
        pairs[np.unravel_index(int(delay.argmax()), delay.shape)] += longest / total
        yield Need(collective, 1 / total, Worth((pairs + pairs.T) / 2))


def averaging_needs(model: CostModel, clock: Clock, collectives: Sequence[str]) -> list[Need]:
    """Return what averaging across the scarcest cut needs, for collectives that load cuts by size.

    Averaging a clique with a islands inside a cut and b outside moves at most ab/(a+b) of what the
    two sides differ by, and |S||N-S|/N must be moved in all. It puts ab messages on the cut each
    way by `exchange`, a one way and b the other by `multicast` or `aggregation`. So moving one
    takes two messages each way at least, or four both ways together.
    """
    needs = []
    for collective in collectives:
        if collective in (EXCHANGE, MULTICAST, AGGREGATION):
            network = model.network if collective == EXCHANGE else model.tree_network
            units, side = max(
                (
                    (_moved_units(network, collective, cut), n)
                    for n, cut in enumerate(_sides(network))
                ),
                default=(0.0, 0),
            )
            if units > 0:
                inside = next(cut for n, cut in enumerate(_sides(network)) if n == side)
                centred = inside - inside.mean()
                weight = np.outer(centred, centred) / float(centred @ centred)
                rate = 1 / (units * clock.unit_s)
                needs.append(Need(collective, rate, Worth.of_removal(weight)))
    return needs


def _moved_units(network: Network, collective: str, inside: NDArray[np.bool_]) -> float:
    """Return the transfer it takes to move all that the sides of a cut differ by; 0 if unknown."""
    source, target = inside[network.wan[:, 0]], inside[network.wan[:, 1]]
    rates = network.rate_mbps[: network.wan_count] * network.usable
    out, into = float(rates[source & ~target].sum()), float(rates[target & ~source].sum())
    moved = float(inside.sum()) * float((~inside).sum()) / network.size
    if min(out, into) <= 0:
        return 0.0
    least = 2 / min(out, into) if collective == EXCHANGE else 4 / (out + into)
    return moved * network.reference_mbps * least


def _routes_need(network: Network) -> tuple[float, NeedArray]:
    """Return the transfer of all pairs by unicast, and which pairs cross the busiest direction."""
    routes = RouteTable.of(network)
    everyone = np.arange(network.size)
    crossed = routes.each_to_each(everyone) * network.slowness[: network.wan_count]
    ports = (network.size - 1) * network.slowness[network.up(0) : network.accelerator(0)]
    demand = np.zeros((network.size, network.size))
    if len(crossed) == 0 or ports.max() >= crossed.max():
        return float(ports.max()), _port_pairs(demand, int(ports.argmax()))
    wanted = int(crossed.argmax())
    lengths = np.diff(routes.start)
    route = np.repeat(np.arange(len(lengths)), lengths)[routes.columns == wanted]
    demand[route // network.size, route % network.size] = 1
    return float(crossed.max()), demand


def _port_pairs(demand: NeedArray, port: int) -> NeedArray:
    size = len(demand)
    if port < size:
        demand[port] = 1
    else:
        demand[:, port - size] = 1
    np.fill_diagonal(demand, 0)
    return demand


def _cuts_need(network: Network, collective: str) -> tuple[float, NeedArray]:
    """Return the transfer that access ports or the scarcest cut demand, and the pairs behind it."""
    size = network.size
    slowness = network.slowness[network.up(0) : network.accelerator(0)]
    ports = slowness * np.repeat([1, size - 1] if collective == MULTICAST else [size - 1, 1], size)
    best = float(ports.max())
    demand = _port_pairs(np.zeros((size, size)), int(ports.argmax()))
    for inside, rate in cut_rates(network):
        leaving = int(inside.sum()) if collective == MULTICAST else int((~inside).sum())
        units = leaving * network.reference_mbps / rate if rate else np.inf
        if units > best * (1 + 1e-9) and np.isfinite(units):
            best = units
            demand = np.outer(inside, ~inside).astype(np.float64)
    return best, demand


def cut_rates(network: Network) -> Iterator[tuple[NDArray[np.bool_], float]]:
    """Yield sets of sites, as (N,) truths, with the rate in Mbit/s that leaves each.

    The sets are the sides of the tree of smallest cuts between all sites (Gomory and Hu, J. SIAM 9,
    1961) where that is quick to find, and the branches of least-delay trees.
    """
    wan, rates = network.wan, network.rate_mbps[: network.wan_count]
    for inside in _sides(network):
        leaving = inside[wan[:, 0]] & ~inside[wan[:, 1]] & network.usable
        yield inside, float(rates[leaving].sum())


CUT_TREE_SITES = 120


def _sides(network: Network) -> Iterator[NDArray[np.bool_]]:
    size = network.size
    for root in range(0, size, max(1, size // 16)):
        parent = network.next_hop[:, root]
        below = np.eye(size, dtype=np.bool_)
        for site in np.argsort(-network.delay_ns[:, root], kind="stable").tolist():
            if site != root and parent[site] >= 0:
                below[parent[site]] |= below[site]
        for site in range(size):
            if site != root:
                yield below[site]
                yield ~below[site]
    if size <= CUT_TREE_SITES:
        yield from _cut_tree(network)


def _cut_tree(network: Network) -> Iterator[NDArray[np.bool_]]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(network.size))
    for column, (a, b) in enumerate(network.wan.tolist()):
        if network.usable[column]:
            rate = float(network.rate_mbps[column])
            known = graph.get_edge_data(a, b, {"capacity": rate})["capacity"]
            graph.add_edge(a, b, capacity=min(rate, known))
    if not nx.is_connected(graph):
        return
    tree = nx.gomory_hu_tree(graph)
    for a, b in list(tree.edges):
        kept = tree.copy()
        kept.remove_edge(a, b)
        inside = np.zeros(network.size, dtype=np.bool_)
        inside[list(nx.node_connected_component(kept, a))] = True
        yield inside
        yield ~inside
