"""What a round costs: the load of every direction, the transfer time and the latency.

    transfer = the largest of (messages over a direction or access port) x message / rate
    latency  = the longest one-way path delay on the way
    round    = transfer + latency

Loads are counted in messages of M bits, separately for each direction, because that is what a
counter on a link can confirm. What a clique of n islands puts on the network, by collective:

    exchange     each sends its message to each other by unicast: n(n-1) routes, a message each
    ring         each sends 2(n-1)/n of a message to its successor (see `schedules.ring`)
    multicast    each sends one message up; a tree copies it to the others, who sum
    aggregation  each sends n-1 messages up, one for each receiver; trees sum them on the way in
    innetwork    one tree sums all messages up to a root switch, one tree copies the sum down

Latency is the longest route or tree path; for `innetwork` up to the root plus down from it; for
`ring` the longest chain of its 2(n-1) steps. Cliques of a round run at the same time, so their
loads add up on shared links.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from schedules.capabilities import (
    AGGREGATION,
    EXCHANGE,
    INNETWORK,
    MULTICAST,
    RING,
    Capabilities,
)
from schedules.network import FloatArray, Network
from schedules.ring import best_ring, ring_cost, ring_share
from schedules.steiner import steiner_tree
from schedules.trees import Tree, tree_from, tree_to, upward_streams
from topologies.errors import UserError
from topologies.model import Topology

UNLIMITED_FAN_IN = 1 << 30
FEWEST_LINKS = "fewest links"
LEAST_DELAY = "least delay"
BITS_PER_MBIT = 1_000_000
NANOSECONDS = 1e-9

Clique = tuple[int, ...]


@dataclass(frozen=True)
class CarriedTree:
    """A tree that carries a share of a clique's messages.

    Attributes:
        kind: `multicast` (copies, root to members) or `aggregation` (sums, members to root).
        tree: where it runs.
        members: sites of the receiving or sending islands.
        share: part of each message that takes this tree.
    """

    kind: str
    tree: Tree
    members: Clique
    share: float = 1.0


@dataclass(frozen=True)
class CliqueWork:
    """What one clique does in a round.

    Attributes:
        members: site numbers, in ring order for a ring.
        trees: one or more for each root; for `innetwork` pairs of an aggregation tree and the
            multicast tree of the same root and share that follows it.
    """

    members: Clique
    trees: tuple[CarriedTree, ...] = ()


@dataclass(frozen=True, eq=False)
class RoundCost:
    """The cost of a round.

    Attributes:
        loads: (D,) messages over every direction.
        transfer_units: transfer time in units of one message over the slowest direction.
        latency_ns: longest one-way path delay on the way.
        traversals: messages times WAN links crossed.
        pairs: ordered pairs of islands whose contributions meet.
        groups: trees that must be installed.
    """

    loads: FloatArray
    transfer_units: float
    latency_ns: int
    traversals: float
    pairs: int
    groups: int


@dataclass(frozen=True, eq=False)
class CostModel:
    """A network and what it can do: everything the cost of a round depends on but the round."""

    network: Network
    capabilities: Capabilities

    @classmethod
    def of(cls, topology: Topology, capabilities: Capabilities) -> CostModel:
        """Make the cost model; raises UserError when capabilities name what is not there."""
        capabilities.check(topology)
        return cls(Network.of(topology), capabilities)

    @cached_property
    def tree_network(self) -> Network:
        """The network as trees may use it."""
        links = self.capabilities.multicast_links
        return self.network if links is None else self.network.on_links(links)

    @cached_property
    def fan_in(self) -> tuple[int, ...]:
        """By site, the streams its accelerator can sum into one; 0 where there is none."""
        found = [self.capabilities.accelerator(code) for code in self.network.codes]
        return tuple(0 if a is None else a.fan_in or UNLIMITED_FAN_IN for a in found)

    @cached_property
    def slowness(self) -> FloatArray:
        """(D,) slowest rate over own rate, accelerator inputs included."""
        found = [self.capabilities.accelerator(code) for code in self.network.codes]
        rates = self.network.rate_mbps.copy()
        rates[self.network.accelerator(0) :] = [inf if a is None else a.rate_mbps for a in found]
        return np.asarray(self.network.reference_mbps / rates, dtype=np.float64)

    @cached_property
    def hop_weights(self) -> FloatArray:
        """(N, N) a link's cost in a tree of fewest links: one, and a trifle for its delay."""
        network = self.tree_network
        weights = np.full((network.size, network.size), inf)
        usable = network.wan[network.usable]
        delay = network.wan_delay_ns[network.usable]
        scale = max(1, int(delay.sum())) if len(delay) else 1
        weights[usable[:, 0], usable[:, 1]] = 1 + delay / (1000 * scale)
        return weights

    def seconds_per_unit(self, message_bits: float) -> float:
        """Return the time of one message over the slowest direction."""
        return message_bits / (self.network.reference_mbps * BITS_PER_MBIT)

    def round_cost(self, collective: str, works: Iterable[CliqueWork]) -> RoundCost:
        """Return the cost of cliques that work at the same time."""
        loads = np.zeros(len(self.slowness))
        latency, pairs, groups = 0, 0, 0
        for work in works:
            loads += clique_loads(self, collective, work)
            latency = max(latency, clique_latency_ns(self, collective, work))
            pairs += len(work.members) * (len(work.members) - 1)
            groups += len(work.trees)
        transfer = float((loads * self.slowness).max()) if len(loads) else 0.0
        wan = float(loads[: self.network.wan_count].sum())
        return RoundCost(loads, transfer, latency, wan, pairs, groups)


# --- load and latency of one clique -------------------------------------------------------------


def clique_loads(model: CostModel, collective: str, work: CliqueWork) -> FloatArray:
    """Return (D,) the messages a clique puts on every direction."""
    loads = np.zeros(len(model.slowness))
    if len(work.members) < 2:
        return loads
    if collective == EXCHANGE:
        for source in work.members:
            for target in work.members:
                if source != target:
                    loads[model.network.route_columns(source, target)] += 1
    elif collective == RING:
        share = ring_share(len(work.members))
        for source, target in _ring_hops(work.members):
            loads[model.network.route_columns(source, target)] += share
    for carried in work.trees:
        _add_tree(model, collective, carried, loads)
    return loads


def _ring_hops(order: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(order, [*order[1:], order[0]], strict=True))


def _add_tree(model: CostModel, collective: str, carried: CarriedTree, loads: FloatArray) -> None:
    if carried.kind == MULTICAST:
        _add_multicast(model.network, carried, loads, from_island=collective == MULTICAST)
    else:
        _add_aggregation(model, carried, loads, to_island=collective == AGGREGATION)


def _add_multicast(
    network: Network, carried: CarriedTree, loads: FloatArray, from_island: bool
) -> None:
    if from_island:
        loads[network.up(carried.tree.root)] += carried.share
    for hop in carried.tree.hops:
        loads[network.wan_column[hop]] += carried.share
    for member in carried.members:
        loads[network.down(member)] += carried.share


def _add_aggregation(
    model: CostModel, carried: CarriedTree, loads: FloatArray, to_island: bool
) -> None:
    network = model.network
    streams = upward_streams(carried.tree, carried.members, model.fan_in)
    for member in carried.members:
        loads[network.up(member)] += carried.share
    for parent, child in carried.tree.hops:
        loads[network.wan_column[child, parent]] += carried.share * streams.upward[child]
    for site, taken in streams.summed.items():
        loads[network.accelerator(site)] += carried.share * taken
    if to_island:
        loads[network.down(carried.tree.root)] += carried.share * streams.at_root


def clique_latency_ns(model: CostModel, collective: str, work: CliqueWork) -> int:
    """Return the longest one-way path delay a clique's message meets on the way."""
    members, network = work.members, model.network
    if len(members) < 2:
        return 0
    if collective == EXCHANGE:
        return int(network.delay_ns[np.ix_(members, members)].max())
    if collective == RING:
        return ring_cost(network, members).latency_ns
    ends = [_tree_latency_ns(network, collective, carried) for carried in work.trees]
    if collective != INNETWORK:
        return max(ends)
    return max(up + down for up, down in zip(ends[::2], ends[1::2], strict=True))


def _tree_latency_ns(network: Network, collective: str, carried: CarriedTree) -> int:
    depth = carried.tree.depths_ns(network, downwards=carried.kind == MULTICAST)
    farthest = max(depth[m] + int(network.access_delay_ns[m]) for m in carried.members)
    at_island = collective != INNETWORK
    return farthest + (int(network.access_delay_ns[carried.tree.root]) if at_island else 0)


# --- what a clique does unless told otherwise ----------------------------------------------------


def clique_work(
    model: CostModel, collective: str, members: Collection[int], style: str = FEWEST_LINKS
) -> CliqueWork | None:
    """Return the ring order or trees of a clique on its own; None when its trees cannot exist.

    Args:
        model: the network and its capabilities.
        collective: one of `COLLECTIVES`.
        members: site numbers.
        style: `FEWEST_LINKS` shares one Steiner tree, `LEAST_DELAY` gives each root its own
            least-delay tree. A ring is ordered for load or for latency alike.
    """
    clique = tuple(sorted(members))
    if len(clique) < 2 or collective == EXCHANGE:
        return CliqueWork(clique)
    if collective == RING:
        return CliqueWork(best_ring(model.network, clique, style == LEAST_DELAY))
    if (model.tree_network.next_hop[np.ix_(clique, clique)] < 0).any():
        return None
    if collective == INNETWORK:
        return _innetwork_work(model, clique, style)
    if style == LEAST_DELAY:
        grow = tree_from if collective == MULTICAST else tree_to
        found = [grow(model.tree_network, root, clique) for root in clique]
    else:
        shared = _shared_tree(model, clique)
        found = [Tree.rooted(shared.hops, root) for root in clique]
    return CliqueWork(clique, tuple(_carried(collective, tree, clique) for tree in found))


def _carried(collective: str, tree: Tree, clique: Clique) -> CarriedTree:
    others = tuple(member for member in clique if member != tree.root)
    return CarriedTree(collective, tree.pruned(others), others)


def _shared_tree(model: CostModel, clique: Clique) -> Tree:
    weights = np.maximum(model.hop_weights, model.hop_weights.T)
    return steiner_tree(weights, clique[0], clique)


def _innetwork_work(model: CostModel, clique: Clique, style: str) -> CliqueWork | None:
    """Choose the root that sums everything, by latency, then links, then code."""
    shared = _shared_tree(model, clique)
    reachable = np.flatnonzero(model.tree_network.next_hop[clique[0]] >= 0).tolist()
    roots = reachable if style == LEAST_DELAY else sorted(shared.sites)
    best: tuple[tuple[int, int, int], CliqueWork] | None = None
    for root in roots:
        work = _innetwork_at(model, clique, root, shared if style == FEWEST_LINKS else None)
        if work is not None:
            links = sum(len(carried.tree.hops) for carried in work.trees)
            key = (clique_latency_ns(model, INNETWORK, work), links, root)
            if best is None or key < best[0]:
                best = key, work
    return None if best is None else best[1]


def _innetwork_at(
    model: CostModel, clique: Clique, root: int, shared: Tree | None
) -> CliqueWork | None:
    if shared is None:
        up = tree_to(model.tree_network, root, clique)
        down = tree_from(model.tree_network, root, clique)
    else:
        up = down = Tree.rooted(shared.hops, root).pruned(clique)
    if upward_streams(up, clique, model.fan_in).at_root != 1:
        return None
    trees = (CarriedTree(AGGREGATION, up, clique), CarriedTree(MULTICAST, down, clique))
    return CliqueWork(clique, trees)


# --- the same for site codes: a round somebody else thought of -----------------------------------


def cost_of_round(
    topology: Topology,
    cliques: Iterable[Collection[str]],
    collective: str,
    capabilities: Capabilities,
    style: str = FEWEST_LINKS,
) -> RoundCost:
    """Return the cost of a round given by site codes, with the trees `clique_work` chooses.

    Raises:
        UserError: for an unknown site or collective, an island in two cliques, a collective that
            the capabilities do not permit, or a clique that the tree links do not connect.
    """
    capabilities.permitted(collective)
    model = CostModel.of(topology, capabilities)
    works = []
    for clique in numbered_cliques(model.network, cliques):
        work = clique_work(model, collective, clique, style)
        if work is None:
            raise UserError(_why_impossible(model, collective, clique))
        works.append(work)
    return model.round_cost(collective, works)


def numbered_cliques(network: Network, cliques: Iterable[Collection[str]]) -> list[Clique]:
    """Return cliques as site numbers; raises UserError for unknown or repeated islands."""
    number = {code: index for index, code in enumerate(network.codes)}
    seen: set[str] = set()
    numbered = []
    for clique in cliques:
        for code in clique:
            if code not in number:
                known = ", ".join(network.codes)
                raise UserError(f"{code} is no site of {network.topology.name}: {known}")
            if code in seen:
                raise UserError(f"{code} is in a round twice")
            seen.add(code)
        numbered.append(tuple(sorted(number[code] for code in clique)))
    return numbered


def _why_impossible(model: CostModel, collective: str, clique: Clique) -> str:
    names = "{" + ",".join(model.network.codes[site] for site in clique) + "}"
    apart = np.argwhere(model.tree_network.next_hop[np.ix_(clique, clique)] < 0)
    if len(apart):
        a, b = (model.network.codes[clique[i]] for i in apart[0])
        return f"clique {names} is disconnected: no multicast link leads from {a} to {b}"
    return f"clique {names}: no accelerator can sum all of it for collective {collective}"
