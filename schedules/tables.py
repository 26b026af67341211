"""Costs of every clique of a small network, so that a round is a sum of table rows.

A *style* is one way for every clique to do its collective: which ring order, which trees. Tree
collectives have up to three (a shared tree of least load and fewest links, a shared tree of least
latency, a least-delay tree for each root), since no single one is best for every message size.
A style that some clique cannot follow has infinite load there.

A *floor* holds for every style: what access ports and cuts of the network demand of a clique
whatever its trees are. A round can take no less than the floors of its cliques added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import AGGREGATION, EXCHANGE, INNETWORK, MULTICAST
from schedules.cost import (
    CarriedTree,
    CliqueWork,
    CostModel,
)
from schedules.network import FloatArray, IntArray
from schedules.partitions import members, sizes
from schedules.pool import (
    CostedTree,
    CountArray,
    TreePool,
    between_islands,
    farthest,
    leaving,
    longest_within,
    summed,
)
from schedules.trees import Hop, Tree

Loads = tuple[IntArray, CountArray]


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


# --- trees ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Option:
    """A tree (and a root, for `innetwork`) offered to every clique.

    Attributes:
        number: tells options apart.
        units: (2^n,) time of the busiest direction.
        crossed: (2^n,) WAN links crossed.
        latency_ns: (2^n,) longest path.
        possible: (2^n,) whether a clique can use it.
        loads: gives columns and (columns, 2^n) messages on them.
    """

    number: int
    units: FloatArray
    crossed: FloatArray
    latency_ns: IntArray
    possible: NDArray[np.bool_]
    loads: Callable[[], Loads]


@dataclass(eq=False)
class _Best:
    """The best option of every clique so far, by three keys in order."""

    keys: FloatArray
    number: IntArray

    @classmethod
    def none(cls, count: int) -> _Best:
        return cls(np.full((3, count), np.inf), np.full(count, -1, dtype=np.int64))

    def offer(self, number: int, keys: FloatArray, possible: NDArray[np.bool_]) -> None:
        less, equal = keys < self.keys, keys == self.keys
        better = less[0] | (equal[0] & (less[1] | (equal[1] & less[2])))
        better &= possible
        self.number[better] = number
        self.keys[:, better] = keys[:, better]


Options = Callable[[frozenset[int] | None], Iterator[_Option]]


def _best_of(
    model: CostModel, collective: str, options: Options, work: Callable[[int, int], CliqueWork]
) -> list[Style]:
    """Pick, for every clique, the option of least load and the option of least latency."""
    access = _access_loads(model, collective)
    at_least = np.max(access[1] * model.slowness[access[0], None], axis=0)
    count = 1 << model.network.size
    by_load, by_latency = _Best.none(count), _Best.none(count)
    for option in options(None):
        units = np.maximum(at_least, option.units).round(9)
        keys = np.stack([units, option.crossed, option.latency_ns])
        by_load.offer(option.number, keys, option.possible)
        by_latency.offer(option.number, keys[[2, 0, 1]], option.possible)
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
    loads[:, access[0]] = access[1].T
    for option in options(frozenset(chosen.tolist())):
        rows = np.flatnonzero(chosen == option.number)
        latency[rows] = option.latency_ns[rows]
        columns, messages = option.loads()
        loads[np.ix_(rows, columns)] = messages[:, rows].T
    _forbid(model, loads, chosen >= 0)
    wan = loads[:, : model.network.wan_count].sum(axis=1)
    return Style(collective, loads, latency, wan, lambda mask: work(int(chosen[mask]), mask))


def _forbid(model: CostModel, loads: FloatArray, possible: NDArray[np.bool_]) -> None:
    """Make cliques impossible that have no option or that the tree links leave apart."""
    size = model.network.size
    masks = np.arange(1 << size)
    apart = np.zeros(1 << size, dtype=np.bool_)
    for site in range(size):
        apart |= (masks >> site & 1 == 1) & ~_reached(model, site)
    forbidden = np.flatnonzero((apart | ~possible) & (sizes(size) >= 2))
    limited = np.flatnonzero(model.slowness > 0)
    loads[np.ix_(forbidden, limited)] = np.inf
    loads[sizes(size) < 2] = 0


def _reached(model: CostModel, root: int) -> NDArray[np.bool_]:
    """Return (2^n,) whether tree links lead from a site to all of a mask."""
    beyond = np.flatnonzero(model.tree_network.next_hop[root] < 0).tolist()
    masks = np.arange(1 << model.network.size)
    return np.asarray(masks & sum(1 << site for site in beyond) == 0)


def _members(size: int) -> CountArray:
    """Return (N, 2^n) ones where a site is a member of a mask."""
    own = np.arange(1 << size)[None, :] >> np.arange(size)[:, None] & 1
    return own.astype(np.int16)


def _access_loads(model: CostModel, collective: str) -> Loads:
    network, size = model.network, model.network.size
    counts, own = sizes(size), _members(size)
    others, one = own * (counts - 1), own * (counts >= 2)
    up = others if collective == AGGREGATION else one
    down = others if collective == MULTICAST else one
    columns = np.arange(network.up(0), network.accelerator(0))
    return columns, np.vstack([up, down])


# --- multicast and aggregation --------------------------------------------------------------------


def _shared(model: CostModel, pool: TreePool, collective: str) -> list[Style]:
    """One tree for all roots of a clique."""
    tree_loads = _multicast_loads if collective == MULTICAST else _aggregation_loads
    always = np.ones(1 << model.network.size, dtype=np.bool_)

    def option(number: int) -> _Option:
        costed = pool.costed(model, number)
        loads = tree_loads(model, costed)
        columns, messages = loads
        units = np.max(messages * model.slowness[columns, None], axis=0)
        crossed = messages[columns < model.network.wan_count].sum(axis=0)
        latency = longest_within(between_islands(model.network, costed.wan_delay_ns))
        return _Option(number, units, crossed, latency, always, lambda: loads)

    def options(wanted: frozenset[int] | None) -> Iterator[_Option]:
        for number in range(len(pool.trees)):
            if wanted is None or number in wanted:
                yield option(number)

    def work(chosen: int, mask: int) -> CliqueWork:
        clique = members(mask)
        trees = [_carried(collective, pool.trees[chosen], root, clique) for root in clique]
        return CliqueWork(clique, tuple(trees))

    return _best_of(model, collective, options, work)


def _carried(kind: str, edges: tuple[Hop, ...], root: int, clique: tuple[int, ...]) -> CarriedTree:
    others = tuple(member for member in clique if member != root)
    return CarriedTree(kind, Tree.rooted(edges, root).pruned(others), others)


def _multicast_loads(model: CostModel, costed: CostedTree) -> Loads:
    """Each member sends over every link behind which other members are."""
    counts = sizes(model.network.size)
    return costed.columns, (counts - costed.beyond) * (costed.beyond > 0)


def _aggregation_loads(model: CostModel, costed: CostedTree) -> Loads:
    """Each member beyond a link is a root towards which the streams behind the link flow."""
    network, size = model.network, model.network.size
    own = _members(size)
    others = costed.arriving - own
    down = own * _by_site(leaving, others, model.fan_in, range(size))
    taken = own * _by_site(summed, others, model.fan_in, range(size))
    sites = costed.hops[:, 0]
    on_hops = _by_site(summed, costed.entering, model.fan_in, sites) * costed.beyond
    np.add.at(taken, sites, on_hops)
    columns = [costed.columns, np.arange(network.down(0), network.accelerator(size))]
    return np.concatenate(columns), np.vstack([costed.streams * costed.beyond, down, taken])


def _by_site(
    rule: Callable[[CountArray, int], CountArray],
    arriving: CountArray,
    fan_in: Sequence[int],
    sites: Iterable[int],
) -> CountArray:
    rows = [rule(streams, fan_in[site]) for streams, site in zip(arriving, sites, strict=True)]
    return np.stack(rows)


def _own_trees(model: CostModel, pool: TreePool, collective: str) -> Style:
    """A least-delay tree for each root: no path is longer than it must be."""
    network, size = model.network, model.network.size
    numbers = pool.least_delay_from if collective == MULTICAST else pool.least_delay_to
    rooted = _rooted_multicast if collective == MULTICAST else _rooted_aggregation
    loads = np.zeros((1 << size, len(model.slowness)))
    columns, messages = _access_loads(model, collective)
    kept = slice(None) if collective == MULTICAST else slice(size)
    loads[:, columns[kept]] = messages[kept].T
    own = _members(size)
    for root, number in enumerate(numbers):
        columns, messages = rooted(model, pool.costed(model, number), root)
        np.add.at(loads.T, columns, messages * own[root])
    _forbid(model, loads, np.ones(1 << size, dtype=np.bool_))
    latency = longest_within(model.tree_network.delay_ns)
    wan = loads[:, : network.wan_count].sum(axis=1)

    def work(mask: int) -> CliqueWork:
        clique = members(mask)
        trees = [_carried(collective, pool.trees[numbers[r]], r, clique) for r in clique]
        return CliqueWork(clique, tuple(trees))

    return Style(collective, loads, latency, wan, work)


def _rooted_multicast(model: CostModel, costed: CostedTree, root: int) -> Loads:
    away = ~costed.towards[root]
    return costed.columns[away], np.minimum(costed.beyond[away], 1)


def _rooted_aggregation(model: CostModel, costed: CostedTree, root: int) -> Loads:
    """Load of the members' streams towards a root whose own island sends nothing."""
    network = model.network
    columns, messages = _upwards(model, costed, root)
    others = costed.arriving[root] - _members(network.size)[root]
    fan_in = model.fan_in[root]
    ends = [network.accelerator(root), network.down(root)]
    rows = [summed(others, fan_in), leaving(others, fan_in)]
    return np.concatenate([columns, ends]), np.vstack([messages, rows])


def _upwards(model: CostModel, costed: CostedTree, root: int) -> Loads:
    """Load of streams on the hops towards a root and on the accelerators before it."""
    up = costed.towards[root]
    sites = costed.hops[up, 0]
    taken = _by_site(summed, costed.entering[up], model.fan_in, sites)
    columns = np.concatenate([costed.columns[up], model.network.accelerator(0) + sites])
    return columns, np.vstack([costed.streams[up], taken])


# --- innetwork ------------------------------------------------------------------------------------


def _innetwork(model: CostModel, pool: TreePool) -> list[Style]:
    """One tree up to a root switch and down again, for every tree and root."""
    size = model.network.size
    reached = [_reached(model, root) for root in range(size)]

    def options(wanted: frozenset[int] | None) -> Iterator[_Option]:
        for tree in range(len(pool.trees)):
            if wanted is None or not wanted.isdisjoint(range(tree * size, (tree + 1) * size)):
                for option in _roots(model, pool.costed(model, tree), tree, reached):
                    if wanted is None or option.number in wanted:
                        yield option

    def work(chosen: int, mask: int) -> CliqueWork:
        clique, edges = members(mask), pool.trees[chosen // size]
        tree = Tree.rooted(edges, chosen % size).pruned(clique)
        kinds = (AGGREGATION, MULTICAST)
        return CliqueWork(clique, tuple(CarriedTree(kind, tree, clique) for kind in kinds))

    return _best_of(model, INNETWORK, options, work)


def _roots(
    model: CostModel, costed: CostedTree, tree: int, reached: Sequence[NDArray[np.bool_]]
) -> Iterator[_Option]:
    network, size = model.network, model.network.size
    copies = np.minimum(costed.beyond, 1)[costed.back]
    taken = _by_site(summed, costed.entering, model.fan_in, costed.hops[:, 0])
    slowness = model.slowness[:, None]
    on_hop = np.maximum(
        np.maximum(
            costed.streams * slowness[costed.columns],
            copies * slowness[costed.columns[costed.back]],
        ),
        taken * slowness[network.accelerator(0) + costed.hops[:, 0]],
    )
    both_ways = costed.streams + copies
    access = network.access_delay_ns
    latency = farthest(costed.wan_delay_ns + access) + farthest(costed.wan_delay_ns.T + access)
    for root in range(size):
        up = costed.towards[root]
        fan_in, arriving = model.fan_in[root], costed.arriving[root]
        at_root = summed(arriving, fan_in) * model.slowness[network.accelerator(root)]
        yield _Option(
            number=tree * size + root,
            units=np.maximum(np.max(on_hop[up], axis=0, initial=0.0), at_root),
            crossed=both_ways[up].sum(axis=0),
            latency_ns=latency[root],
            possible=(leaving(arriving, fan_in) == 1) & reached[root],
            loads=partial(_innetwork_loads, model, costed, root),
        )


def _innetwork_loads(model: CostModel, costed: CostedTree, root: int) -> Loads:
    up = costed.towards[root]
    columns, messages = _upwards(model, costed, root)
    back = costed.back[up]
    at_root = summed(costed.arriving[root], model.fan_in[root])
    return (
        np.concatenate([columns, costed.columns[back], [model.network.accelerator(root)]]),
        np.vstack([messages, np.minimum(costed.beyond[back], 1), at_root]),
    )
