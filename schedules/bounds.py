"""The least time any method could need, to print beside every plan and every measurement.

All bounds are for one operation among all islands, with M the message of each and rates per
direction; times are of transfer alone or of propagation alone. `ratio` = measured / bound.
Bounds that rest on cuts (`schedules.cuts`) hold for any rates, each direction with its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from math import isfinite

import numpy as np

from schedules.cost import BITS_PER_MBIT, NANOSECONDS
from schedules.cuts import Cut, FlowGraph, narrowest_cut, tightest_cut
from schedules.network import IntArray, Network
from topologies.errors import UserError
from topologies.model import Topology


@dataclass(frozen=True)
class Bound:
    """A time that nothing beats.

    Attributes:
        name: which bound.
        seconds: the time.
        units: the same in messages over the slowest direction; None for a latency.
        source: where the argument comes from.
        limited_by: the site, cut or path that sets it.
    """

    name: str
    seconds: float
    units: float | None
    source: str
    limited_by: str


def all_bounds(topology: Topology, message_bytes: float) -> tuple[Bound, ...]:
    """Return every bound for one operation among all islands.

    Raises:
        UserError: for a message of no bytes or a disconnected network.
    """
    if not (message_bytes > 0 and isfinite(message_bytes)):
        raise UserError(f"message_bytes {message_bytes} is not above zero")
    network = Network.of(topology)
    bits = 8 * message_bytes
    graph = FlowGraph.of(network)
    return (
        unicast_allreduce(network, bits),
        naive_exchange(network, bits),
        multicast_only(network, bits),
        aggregation_only(network, bits),
        both_technologies(network, bits),
        cut_allgather(network, bits, graph),
        cut_allreduce(network, bits, graph),
        longest_path(network),
        shared_tree_radius(network),
    )


def as_json(bounds: tuple[Bound, ...]) -> list[dict[str, object]]:
    """Return bounds as plain rows."""
    return [asdict(bound) for bound in bounds]


# --- access ports ---------------------------------------------------------------------------------


def unicast_allreduce(network: Network, bits: float) -> Bound:
    """All-reduce by unicast: 2(N-1)/N x M/C through access ports of rate C.

    N-1 transfers of every element sum it up and N-1 hand it out, 2(N-1)M in all through all ports
    together (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009); and each port alone must
    carry M, which is more where one is slow.
    """
    size = network.size
    rates = network.rate_mbps[network.up(0) : network.accelerator(0)]
    together = min(float(rates[:size].sum()), float(rates[size:].sum()))
    units = 2 * (size - 1) * network.reference_mbps / together
    source = "Patarasuk and Yuan 2009: 2(N-1) messages through all access ports together"
    alone = _access("unicast all-reduce, access ports", network, bits, 1, 1, source)
    if units < (alone.units or 0.0):
        return alone
    return Bound(alone.name, units * _unit_s(network, bits), units, source, "all access ports")


def naive_exchange(network: Network, bits: float) -> Bound:
    """Exchange of whole messages by unicast: (N-1) x M/C at every access port."""
    others = network.size - 1
    source = "N-1 whole messages through each access port"
    return _access("unicast exchange, access ports", network, bits, others, others, source)


def multicast_only(network: Network, bits: float) -> Bound:
    """Multicast without aggregation: each island hears the N-1 messages of the others."""
    source = "N-1 messages down each access port"
    return _access("multicast, access ports", network, bits, 1, network.size - 1, source)


def aggregation_only(network: Network, bits: float) -> Bound:
    """Aggregation without multicast: each island sends a copy to each of N-1 receivers."""
    source = "N-1 messages up each access port"
    return _access("aggregation, access ports", network, bits, network.size - 1, 1, source)


def both_technologies(network: Network, bits: float) -> Bound:
    """Multicast and aggregation together: M/C, since each island sends and hears M at least once.

    Shah and Blier, arXiv:2608.26453.
    """
    source = "Shah and Blier arXiv:2608.26453: one message up and one down each port"
    return _access("multicast and aggregation, access ports", network, bits, 1, 1, source)


def _access(name: str, network: Network, bits: float, up: float, down: float, source: str) -> Bound:
    size = network.size
    messages = np.array([up] * size + [down] * size)
    units = messages * network.slowness[network.up(0) : network.accelerator(0)]
    worst = int(units.argmax())
    way = network.directions[network.up(0) + worst]
    seconds = float(units[worst]) * _unit_s(network, bits)
    return Bound(name, seconds, float(units[worst]), source, str(way))


def _unit_s(network: Network, bits: float) -> float:
    return bits / (network.reference_mbps * BITS_PER_MBIT)


# --- cuts -----------------------------------------------------------------------------------------


def cut_allgather(network: Network, bits: float, graph: FlowGraph | None = None) -> Bound:
    """All-gather of M from each by unicast: the most messages in S over the rate out of S.

    ForestColl (arXiv:2402.06787): for any set S of islands and switches that leaves some island
    outside, every contribution in S must leave S, and splitting traffic over spanning trees attains
    the largest of these ratios. (ForestColl divides M among the N islands; here each has M.)
    """
    cut = tightest_cut(graph or FlowGraph.of(network))
    source = "ForestColl arXiv:2402.06787: |S| messages leave any set S that lacks an island"
    return _across("unicast all-gather, cuts", network, bits, len(cut.islands), cut, source)


def cut_allreduce(network: Network, bits: float, graph: FlowGraph | None = None) -> Bound:
    """All-reduce by any means: the sum of either side of a cut must cross it, M each way.

    This is the least all-reduce that in-network sums and copies leave (ForestColl,
    arXiv:2402.06787, counts one message of the root for each tree of a broadcast); unicast must
    also pass `unicast_allreduce`.
    """
    cut = narrowest_cut(graph or FlowGraph.of(network))
    source = "one message, the sum of one side, crosses any cut (as in ForestColl arXiv:2402.06787)"
    return _across("all-reduce by any means, cuts", network, bits, 1, cut, source)


def _across(
    name: str, network: Network, bits: float, messages: int, cut: Cut, source: str
) -> Bound:
    units = messages * network.reference_mbps / cut.rate_mbps
    return Bound(name, units * _unit_s(network, bits), units, source, _named(network, cut.islands))


def _named(network: Network, islands: Collection[int]) -> str:
    """Name the islands inside, or those outside where they are fewer."""
    inside = sorted(islands)
    outside = sorted(set(range(network.size)) - set(inside))
    fewer = inside if len(inside) <= len(outside) else outside
    names = "{" + ",".join(network.codes[site] for site in fewer) + "}"
    return f"out of {names}" if fewer is inside else f"into {names}"


# --- latency --------------------------------------------------------------------------------------


def longest_path(network: Network) -> Bound:
    """The longest least-delay path: no island knows of all others sooner."""
    source, target = np.unravel_index(int(network.delay_ns.argmax()), network.delay_ns.shape)
    seconds = int(network.delay_ns[source, target]) * NANOSECONDS
    names = f"{network.codes[source]}>{network.codes[target]}"
    return Bound("longest one-way path", seconds, None, "propagation delay", names)


def shared_tree_radius(network: Network) -> Bound:
    """The least radius of a shared tree: the longest path to its root, for the best root."""
    radii = tree_radii_ns(network)
    root = int(radii.argmin())
    seconds = int(radii[root]) * NANOSECONDS
    source = "least longest least-delay path to a root; twice this is up and down"
    return Bound("shared tree, radius", seconds, None, source, network.codes[root])


def tree_radii_ns(network: Network) -> IntArray:
    """Return (N,) the longest way between a root's switch and an island, either way."""
    access = network.access_delay_ns
    wan = network.delay_ns - access[:, None] - access[None, :]
    np.fill_diagonal(wan, 0)
    up, down = (wan + access[:, None]).max(axis=0), (wan + access[None, :]).max(axis=1)
    return np.asarray(np.maximum(up, down), dtype=np.int64)
