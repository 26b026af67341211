"""Costs of every clique of a small network, so that a round is a sum of table rows.

A *style* is one way for every clique to do its collective: which ring order, which trees. Tree
collectives have up to three (a shared tree of least load and fewest links, a shared tree of least
latency, a least-delay tree for each root), since no single one is best for every message size.
A style that some clique cannot follow has infinite load there.

A *floor* holds for every style: what access ports and cuts of the network demand of a clique
whatever its trees are. A round can take no less than the floors of its cliques added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION, EXCHANGE, INNETWORK, MULTICAST, RING
from schedules.cost import (
    CarriedTree,
    CliqueWork,
    CostModel,
    clique_latency_ns,
    clique_loads,
    clique_work,
)
from schedules.network import FloatArray, IntArray
from schedules.partitions import members, sizes
from schedules.pool import (
    CostedTree,
    TreePool,
    between_islands,
    cost_tree,
    count_in,
    farthest,
    leaving,
    longest_within,
    summed,
)
from schedules.trees import Hop, Tree

Loads = dict[int, IntArray]


@dataclass(frozen=True, eq=False)
class Style:
    """One way for every clique to do a collective.

    Attributes:
        collective: which one.
        loads: (2^n, D) messages of every clique on every direction; inf where impossible.
        latency_ns: (2^n,) longest path.
        traversals: (2^n,) messages times WAN links.
        work: gives the ring order or trees of a clique's mask.
    """

    collective: str
    loads: FloatArray
    latency_ns: IntArray
    traversals: FloatArray
    work: Callable[[int], CliqueWork]


def styles(model: CostModel, collective: str, pool: TreePool | None = None) -> list[Style]:
    """Return the styles of a collective for a network of at most a dozen sites."""
    if collective == EXCHANGE:
        return [_exchange(model)]
    if collective == RING:
        return [_ring(model)]
    pool = pool or TreePool.of(model.tree_network)
    if collective == INNETWORK:
        return _innetwork(model, pool)
    return [*_shared(model, pool, collective), _own_trees(model, pool, collective)]


# --- unicast --------------------------------------------------------------------------------------


def _exchange(model: CostModel) -> Style:
    network = model.network
    size = network.size
    crossed = network.crossings(range(size)).astype(np.float64)
    both = crossed + crossed.transpose(1, 0, 2)
    loads = np.zeros((1 << size, len(model.slowness)))
    with_site = np.zeros_like(loads)
    for site in range(size):
        low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
        _sum_over_members(both[site], with_site, site)
        loads[high] = loads[low] + with_site[low]
    latency = longest_within(network.delay_ns)
    wan = loads[:, : network.wan_count].sum(axis=1)
    return Style(EXCHANGE, loads, latency, wan, lambda mask: CliqueWork(members(mask)))


def _sum_over_members(rows: FloatArray, out: FloatArray, sites: int) -> None:
    """Fill out[mask] with the sum of the rows of its members, for masks of the first sites."""
    out[0] = 0
    for site in range(sites):
        out[1 << site : 2 << site] = out[: 1 << site] + rows[site]


def _ring(model: CostModel) -> Style:
    size = model.network.size
    loads = np.zeros((1 << size, len(model.slowness)))
    latency = np.zeros(1 << size, dtype=np.int64)
    orders: dict[int, CliqueWork] = {}
    for mask in np.flatnonzero(sizes(size) >= 2).tolist():
        work = clique_work(model, RING, members(mask))
        assert work is not None
        orders[mask] = work
        loads[mask] = clique_loads(model, RING, work)
        latency[mask] = clique_latency_ns(model, RING, work)
    wan = loads[:, : model.network.wan_count].sum(axis=1)
    return Style(RING, loads, latency, wan, orders.__getitem__)


# --- trees ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Option:
    """A tree (and a root, for `innetwork`) offered to every clique."""

    number: int
    loads: Loads
    latency_ns: IntArray
    possible: NDArray[np.bool_]


@dataclass(eq=False)
class _Best:
    """The best option of every clique so far, by three keys in order."""

    keys: list[FloatArray]
    number: IntArray

    @classmethod
    def none(cls, count: int) -> _Best:
        return cls([np.full(count, np.inf) for _ in range(3)], np.full(count, -1, dtype=np.int64))

    def offer(self, number: int, keys: list[FloatArray], possible: NDArray[np.bool_]) -> None:
        better = np.zeros(len(self.number), dtype=np.bool_)
        level = np.ones(len(self.number), dtype=np.bool_)
        for mine, theirs in zip(self.keys, keys, strict=True):
            better |= level & (theirs < mine)
            level &= theirs == mine
        better &= possible
        self.number[better] = number
        for mine, theirs in zip(self.keys, keys, strict=True):
            mine[better] = theirs[better]


Options = Callable[[frozenset[int] | None], Iterator[_Option]]


def _best_of(
    model: CostModel, collective: str, options: Options, work: Callable[[int, int], CliqueWork]
) -> list[Style]:
    """Pick, for every clique, the option of least load and the option of least latency."""
    access = _access_loads(model, collective)
    count = 1 << model.network.size
    by_load, by_latency = _Best.none(count), _Best.none(count)
    for option in options(None):
        loads = access | option.loads
        units = _largest(model, loads).round(9)
        crossed = _crossed(model, loads)
        latency = option.latency_ns.astype(np.float64)
        by_load.offer(option.number, [units, crossed, latency], option.possible)
        by_latency.offer(option.number, [latency, units, crossed], option.possible)
    return [
        _style_of(model, collective, options, best.number, access, work)
        for best in (by_load, by_latency)
    ]


def _style_of(
    model: CostModel,
    collective: str,
    options: Options,
    chosen: IntArray,
    access: Loads,
    work: Callable[[int, int], CliqueWork],
) -> Style:
    count = len(chosen)
    loads = np.zeros((count, len(model.slowness)))
    latency = np.zeros(count, dtype=np.int64)
    for column, messages in access.items():
        loads[:, column] = messages
    for option in options(frozenset(chosen.tolist())):
        rows = chosen == option.number
        latency[rows] = option.latency_ns[rows]
        for column, messages in option.loads.items():
            loads[rows, column] = messages[rows]
    _forbid(model, loads, chosen >= 0)
    wan = loads[:, : model.network.wan_count].sum(axis=1)
    return Style(collective, loads, latency, wan, lambda mask: work(int(chosen[mask]), mask))


def _forbid(model: CostModel, loads: FloatArray, possible: NDArray[np.bool_]) -> None:
    """Make cliques impossible that have no option or that the tree links leave apart."""
    size = model.network.size
    apart = np.zeros(1 << size, dtype=np.bool_)
    for site, row in enumerate(model.tree_network.next_hop):
        beyond = sum(1 << other for other in np.flatnonzero(row < 0).tolist())
        masks = np.arange(1 << size)
        apart |= (masks >> site & 1 == 1) & (masks & beyond > 0)
    loads[(apart | ~possible) & (sizes(size) >= 2)] = np.inf
    loads[sizes(size) < 2] = 0


def _access_loads(model: CostModel, collective: str) -> Loads:
    network, size = model.network, model.network.size
    counts = sizes(size)
    loads: Loads = {}
    for site in range(size):
        own = np.arange(1 << size) >> site & 1
        others, one = own * (counts - 1), own * (counts >= 2)
        loads[network.up(site)] = others if collective == AGGREGATION else one
        loads[network.down(site)] = others if collective == MULTICAST else one
    return loads


def _largest(model: CostModel, loads: Loads) -> FloatArray:
    largest = np.zeros(1 << model.network.size)
    for column, messages in loads.items():
        np.maximum(largest, messages * model.slowness[column], out=largest)
    return largest


def _crossed(model: CostModel, loads: Loads) -> FloatArray:
    crossed = np.zeros(1 << model.network.size)
    for column, messages in loads.items():
        if column < model.network.wan_count:
            crossed += messages
    return crossed


# --- multicast and aggregation --------------------------------------------------------------------


def _shared(model: CostModel, pool: TreePool, collective: str) -> list[Style]:
    """One tree for all roots of a clique."""
    tree_loads = _multicast_loads if collective == MULTICAST else _aggregation_loads
    always = np.ones(1 << model.network.size, dtype=np.bool_)

    def options(wanted: frozenset[int] | None) -> Iterator[_Option]:
        for number, edges in _numbered(pool, wanted):
            costed = cost_tree(model, edges)
            latency = longest_within(between_islands(model.network, costed.wan_delay_ns))
            yield _Option(number, tree_loads(model, costed), latency, always)

    def work(chosen: int, mask: int) -> CliqueWork:
        clique = members(mask)
        trees = [_carried(collective, pool.trees[chosen], root, clique) for root in clique]
        return CliqueWork(clique, tuple(trees))

    return _best_of(model, collective, options, work)


def _numbered(
    pool: TreePool, wanted: frozenset[int] | None
) -> Iterator[tuple[int, tuple[Hop, ...]]]:
    for number, edges in enumerate(pool.trees):
        if wanted is None or number in wanted:
            yield number, edges


def _carried(kind: str, edges: tuple[Hop, ...], root: int, clique: tuple[int, ...]) -> CarriedTree:
    others = tuple(member for member in clique if member != root)
    return CarriedTree(kind, Tree.rooted(edges, root).pruned(others), others)


def _multicast_loads(model: CostModel, costed: CostedTree) -> Loads:
    """Each member sends over every link behind which other members are."""
    network, size = model.network, model.network.size
    loads: Loads = {}
    for hop in costed.hops:
        beyond = count_in(size, costed.far[hop])
        loads[int(network.wan_column[hop])] = (sizes(size) - beyond) * (beyond > 0)
    return loads


def _aggregation_loads(model: CostModel, costed: CostedTree) -> Loads:
    """Each member beyond a link is a root towards which the streams behind the link flow."""
    network, size = model.network, model.network.size
    taken = [np.zeros(1 << size, dtype=np.int64) for _ in range(size)]
    loads: Loads = {}
    for hop in costed.hops:
        site = hop[0]
        roots = count_in(size, costed.far[hop])
        loads[int(network.wan_column[hop])] = costed.streams[hop] * roots
        arriving = costed.arriving[site] - costed.streams[hop[1], site]
        taken[site] += summed(arriving, model.fan_in[site]) * roots
    for site in range(size):
        own = np.arange(1 << size) >> site & 1
        others = costed.arriving[site] - own
        loads[network.down(site)] = leaving(others, model.fan_in[site]) * own
        loads[network.accelerator(site)] = taken[site] + summed(others, model.fan_in[site]) * own
    return loads


def _own_trees(model: CostModel, pool: TreePool, collective: str) -> Style:
    """A least-delay tree for each root: no path is longer than it must be."""
    network, size = model.network, model.network.size
    numbers = pool.least_delay_from if collective == MULTICAST else pool.least_delay_to
    loads = np.zeros((1 << size, len(model.slowness)))
    for column, messages in _access_loads(model, collective).items():
        loads[:, column] = messages
    if collective == AGGREGATION:
        loads[:, network.down(0) : network.accelerator(0)] = 0
    for root, number in enumerate(numbers):
        costed = cost_tree(model, pool.trees[number])
        rooted = _rooted_multicast if collective == MULTICAST else _rooted_aggregation
        own = np.arange(1 << size) >> root & 1
        for column, messages in rooted(model, costed, root).items():
            loads[:, column] += messages * own
    _forbid(model, loads, np.ones(1 << size, dtype=np.bool_))
    latency = longest_within(model.tree_network.delay_ns)
    wan = loads[:, : network.wan_count].sum(axis=1)

    def work(mask: int) -> CliqueWork:
        clique = members(mask)
        trees = [_carried(collective, pool.trees[numbers[r]], r, clique) for r in clique]
        return CliqueWork(clique, tuple(trees))

    return Style(collective, loads, latency, wan, work)


def _rooted_multicast(model: CostModel, costed: CostedTree, root: int) -> Loads:
    return {
        int(model.network.wan_column[hop]): np.minimum(count_in(model.network.size, beyond), 1)
        for hop, beyond in costed.far.items()
        if not beyond >> root & 1
    }


def _rooted_aggregation(model: CostModel, costed: CostedTree, root: int) -> Loads:
    """Load of the members' streams towards a root whose own island sends nothing."""
    network, size = model.network, model.network.size
    loads: Loads = {}
    for hop, streams in costed.streams.items():
        if costed.far[hop] >> root & 1:
            site = hop[0]
            arriving = costed.arriving[site] - costed.streams[hop[1], site]
            loads[int(network.wan_column[hop])] = streams
            loads[network.accelerator(site)] = summed(arriving, model.fan_in[site])
    others = costed.arriving[root] - (np.arange(1 << size) >> root & 1)
    loads[network.accelerator(root)] = summed(others, model.fan_in[root])
    loads[network.down(root)] = leaving(others, model.fan_in[root])
    return loads


# --- innetwork ------------------------------------------------------------------------------------


def _innetwork(model: CostModel, pool: TreePool) -> list[Style]:
    """One tree up to a root switch and down again, for every tree and root."""
    size = model.network.size

    def options(wanted: frozenset[int] | None) -> Iterator[_Option]:
        trees = None if wanted is None else frozenset(number // size for number in wanted)
        for tree, edges in _numbered(pool, trees):
            costed = cost_tree(model, edges)
            for root in range(size):
                number = tree * size + root
                if wanted is None or number in wanted:
                    yield _rooted_innetwork(model, costed, root, number)

    def work(chosen: int, mask: int) -> CliqueWork:
        clique, edges = members(mask), pool.trees[chosen // size]
        tree = Tree.rooted(edges, chosen % size).pruned(clique)
        kinds = (AGGREGATION, MULTICAST)
        return CliqueWork(clique, tuple(CarriedTree(kind, tree, clique) for kind in kinds))

    return _best_of(model, INNETWORK, options, work)


def _rooted_innetwork(model: CostModel, costed: CostedTree, root: int, number: int) -> _Option:
    network, size = model.network, model.network.size
    loads: Loads = {}
    for hop, streams in costed.streams.items():
        back = hop[1], hop[0]
        if costed.far[hop] >> root & 1:
            site = hop[0]
            arriving = costed.arriving[site] - costed.streams[back]
            loads[int(network.wan_column[hop])] = streams
            loads[network.accelerator(site)] = summed(arriving, model.fan_in[site])
            loads[int(network.wan_column[back])] = np.minimum(count_in(size, costed.far[back]), 1)
    loads[network.accelerator(root)] = summed(costed.arriving[root], model.fan_in[root])
    access = network.access_delay_ns
    down = farthest(costed.wan_delay_ns + access[None, :])[root]
    up = farthest(costed.wan_delay_ns.T + access[None, :])[root]
    possible = leaving(costed.arriving[root], model.fan_in[root]) == 1
    return _Option(number, loads, down + up, possible & _reached(model, root))


def _reached(model: CostModel, root: int) -> NDArray[np.bool_]:
    beyond = np.flatnonzero(model.tree_network.next_hop[root] < 0).tolist()
    masks = np.arange(1 << model.network.size)
    return np.asarray(masks & sum(1 << site for site in beyond) == 0)
