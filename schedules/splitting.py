"""Several trees for one message: the least busiest link that splitting traffic can reach.

One tree for each root may overload a link that cliques of a round share, while other ways stand
empty. Letting shares of a message take different trees makes the choice a linear program:

    minimize T   such that   the shares of each root's trees add up to one,
                             load of direction e x slowness of e <= T   for every e

There are too many trees to list, so they are generated: the program's dual prices say what a
message over each direction costs, and the cheapest tree at those prices either improves the program
or proves that no tree does (column generation; the packing of Steiner trees by LP duality). The
prices give a lower bound at every step: T is never less than the sum of the cheapest trees' costs.
This is the fractional optimum; splitting a message finely enough attains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.constraints import Clock
from schedules.cost import (
    FEWEST_LINKS,
    LEAST_DELAY,
    NANOSECONDS,
    CarriedTree,
    Clique,
    CliqueWork,
    CostModel,
    clique_latency_ns,
    clique_loads,
    clique_work,
)
from schedules.network import FloatArray, IntArray
from schedules.partitions import mask_of
from schedules.pool import CostedTree, CountArray, TreePool, leaving, summed
from schedules.steiner import EXACT_TERMINALS, SteinerTable, steiner_table, steiner_tree
from schedules.trees import Tree

MOST_STEPS = 200
GAP = 1e-9
LEAST_SHARE = 1e-7
TABLED_TERMINALS = 12
ROUNDING_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Commodity:
    """What must be carried: one root's tree of a clique, or a whole clique's for `innetwork`."""

    clique: Clique
    root: int | None


@dataclass(frozen=True, eq=False)
class Column:
    """One way to carry a commodity."""

    commodity: int
    trees: tuple[CarriedTree, ...]
    loads: FloatArray
    latency_ns: int

    @property
    def key(self) -> tuple[object, ...]:
        """Tells ways apart."""
        return self.commodity, *((t.kind, t.tree.root, t.tree.hops) for t in self.trees)


@dataclass(frozen=True, eq=False)
class Packing:
    """A solved program: ways with their shares, and what proves that none is better.

    Attributes:
        columns: the ways, empty when some commodity cannot be carried.
        units: transfer time.
        bound: no choice of trees within the latency cap takes less.
        cap_ns: that cap.
        prices: (D,) what a message over each direction cost in the end.
    """

    columns: list[Column]
    units: float
    bound: float
    cap_ns: float
    prices: FloatArray

    @property
    def latency_ns(self) -> int:
        """The longest path of any way, used or not."""
        return max(column.latency_ns for column in self.columns)


@dataclass(frozen=True, eq=False)
class Split:
    """How a round's traffic is split among trees.

    Attributes:
        problem: the round.
        packing: the ways it takes.
        tried: every packing solved on the way, each with a latency cap of its own.
        bound: no choice of trees has a shorter transfer.
        least_s: no choice takes less time, latency included where it counts.
    """

    problem: SplitProblem
    packing: Packing
    tried: tuple[Packing, ...]
    bound: float
    least_s: float

    def works(self) -> tuple[CliqueWork, ...]:
        """Return the cliques with their trees and shares."""
        shares = self.problem.settle(self.packing.columns, self.packing.units)
        return self.problem.works(self.packing.columns, shares)

    def seconds(self, clock: Clock) -> float:
        """Return the time of the round, computing not counted."""
        return _seconds(clock, self.packing)


Pricer = Callable[[int, FloatArray, float], tuple[Column | None, float]]


@dataclass(frozen=True, eq=False)
class SplitProblem:
    """The trees of a round as a linear program.

    Attributes:
        model: the network and its capabilities.
        collective: `multicast`, `aggregation` or `innetwork`.
        commodities: what must be carried.
        pricer: gives the cheapest way to carry a commodity at prices for a message over each
            direction, of no more latency than a cap; and a bound on its cost.
    """

    model: CostModel
    collective: str
    commodities: tuple[Commodity, ...]
    pricer: Pricer

    @classmethod
    def of(
        cls,
        model: CostModel,
        collective: str,
        cliques: Sequence[Clique],
        pool: TreePool | None = None,
    ) -> SplitProblem:
        """Set up the program for cliques that work at the same time."""
        commodities = tuple(
            Commodity(clique, root)
            for clique in cliques
            for root in ((None,) if collective == INNETWORK else clique)
        )
        if pool is not None and (pool.complete or not model.capabilities.sums_anywhere):
            pricer: Pricer = _PoolPricer(model, collective, commodities, pool)
        else:
            pricer = _SteinerPricer(model, collective, commodities)
        return cls(model, collective, commodities, pricer)

    def column(self, commodity: int, trees: tuple[CarriedTree, ...]) -> Column:
        """Cost one way to carry a commodity."""
        return _column(self.model, self.collective, self.commodities, commodity, trees)

    @cached_property
    def starting_columns(self) -> list[Column]:
        """The ways every clique would choose on its own."""
        found: dict[tuple[object, ...], Column] = {}
        for style in (LEAST_DELAY, FEWEST_LINKS):
            works = {
                clique: clique_work(self.model, self.collective, clique, style)
                for clique in {commodity.clique for commodity in self.commodities}
            }
            for number, commodity in enumerate(self.commodities):
                work = works[commodity.clique]
                if work is not None:
                    column = self.column(number, _trees_of(work, commodity.root))
                    found[column.key] = column
        return list(found.values())

    def solve(self, cap_ns: float = inf) -> Packing:
        """Return the best packing within a latency cap."""
        columns = [c for c in self.starting_columns if c.latency_ns <= cap_ns]
        for number in set(range(len(self.commodities))) - {c.commodity for c in columns}:
            column, _ = self.pricer(number, self.model.slowness, cap_ns)
            if column is None:
                return Packing([], inf, inf, cap_ns, self.model.slowness)
            columns.append(column)
        known = {column.key for column in columns}
        bound = 0.0
        for _ in range(MOST_STEPS):
            units, prices = self._master(columns)
            offers = [self.pricer(n, prices, cap_ns) for n in range(len(self.commodities))]
            bound = max(bound, sum(cost for _, cost in offers))
            fresh = [c for c, _ in offers if c is not None and c.key not in known]
            if not fresh or units <= bound * (1 + GAP):
                break
            known |= {column.key for column in fresh}
            columns += fresh
        return Packing(columns, units, min(bound, units), cap_ns, prices)

    def _master(self, columns: Sequence[Column]) -> tuple[float, FloatArray]:
        busy, matrix = self._busy_rows(columns)
        result = linprog(
            np.array([0.0] * len(columns) + [1.0]),
            A_ub=np.hstack([matrix, -np.ones((len(busy), 1))]),
            b_ub=np.zeros(len(busy)),
            A_eq=self._share_rows(columns),
            b_eq=np.ones(len(self.commodities)),
            method="highs",
        )
        prices = np.zeros(len(self.model.slowness))
        prices[busy] = -result.ineqlin.marginals * self.model.slowness[busy]
        return float(result.x[-1]), np.maximum(prices, 0.0)

    def _busy_rows(self, columns: Sequence[Column]) -> tuple[IntArray, FloatArray]:
        loads = np.array([column.loads for column in columns]).T * self.model.slowness[:, None]
        busy = np.flatnonzero(loads.any(axis=1))
        return busy.astype(np.int64), np.asarray(loads[busy], dtype=np.float64)

    def _share_rows(self, columns: Sequence[Column]) -> FloatArray:
        rows = np.zeros((len(self.commodities), len(columns) + 1))
        rows[[column.commodity for column in columns], np.arange(len(columns))] = 1
        return rows

    def settle(self, columns: Sequence[Column], units: float) -> FloatArray:
        """Choose shares that keep to the transfer units and cross the fewest links.

        Whole trees are tried first; only where they cannot keep to it are messages split.
        """
        busy, matrix = self._busy_rows(columns)
        limits = np.full(len(busy), units * (1 + GAP))
        links = np.array([c.loads[: self.model.network.wan_count].sum() for c in columns])
        shares = self._share_rows(columns)[:, :-1]
        ones = np.ones(len(self.commodities))
        whole = milp(
            links,
            integrality=np.ones(len(columns)),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(matrix, ub=limits), LinearConstraint(shares, ones, ones)],
            options={"time_limit": ROUNDING_SECONDS},
        )
        if whole.x is not None:
            return np.asarray(np.round(whole.x), dtype=np.float64)
        split = linprog(links, matrix, limits, shares, ones, method="highs")
        return np.asarray(split.x, dtype=np.float64)

    def works(self, columns: Sequence[Column], shares: FloatArray) -> tuple[CliqueWork, ...]:
        """Return the cliques with the trees that carry a share."""
        trees: dict[Clique, list[CarriedTree]] = {}
        for column, share in zip(columns, shares, strict=True):
            if share > LEAST_SHARE:
                clique = self.commodities[column.commodity].clique
                carried = [replace(tree, share=float(share)) for tree in column.trees]
                trees.setdefault(clique, []).extend(carried)
        return tuple(CliqueWork(clique, tuple(found)) for clique, found in sorted(trees.items()))


def _trees_of(work: CliqueWork, root: int | None) -> tuple[CarriedTree, ...]:
    return tuple(tree for tree in work.trees if root is None or tree.tree.root == root)


def _column(
    model: CostModel,
    collective: str,
    commodities: Sequence[Commodity],
    commodity: int,
    trees: tuple[CarriedTree, ...],
) -> Column:
    work = CliqueWork(commodities[commodity].clique, trees)
    loads = clique_loads(model, collective, work)
    return Column(commodity, trees, loads, clique_latency_ns(model, collective, work))


def split_round(
    model: CostModel,
    collective: str,
    cliques: Sequence[Clique],
    clock: Clock,
    pool: TreePool | None = None,
    enough_s: float = inf,
) -> Split | None:
    """Choose and split the trees of a round for the least time, transfer and latency together.

    Latency counts through caps: the program is solved for the least latency first, then for larger
    ones, as long as a larger one could still pay.

    Args:
        model: the network and its capabilities.
        collective: `multicast`, `aggregation` or `innetwork`.
        cliques: what works at the same time.
        clock: turns units and latency into seconds.
        pool: all or some spanning trees of the network, if they are known.
        enough_s: when nothing faster than this is of interest, the search may end with the proof
            that there is nothing faster.

    Returns:
        The split, or None when some clique cannot be carried.
    """
    problem = SplitProblem.of(model, collective, cliques, pool)
    free = problem.solve()
    if not free.columns:
        return None
    least = free.bound * clock.unit_s
    tried = [free]
    if clock.counts_latency:
        tried += _capped(problem, clock, free, enough_s)
        if pool is not None and pool.complete and free.units <= free.bound * (1 + GAP):
            least = min(enough_s, *(_seconds(clock, packing) for packing in tried))
    best = min(tried, key=lambda packing: _seconds(clock, packing))
    return Split(problem, best, tuple(tried), free.bound, least)


def _capped(problem: SplitProblem, clock: Clock, free: Packing, enough_s: float) -> list[Packing]:
    """Try latency caps: the lower the cap, the longer the transfer.

    Between two caps the transfer is no shorter than at the larger one and the latency no less than
    the smaller one, which rules most caps out unseen.
    """
    caps = _caps(problem, free.columns)
    best = min(enough_s, _seconds(clock, free))
    found = []
    spans = [(0, len(caps) - 1, free.units)]
    while spans:
        low, high, units = spans.pop()
        if low > high or units * clock.unit_s + caps[low] * NANOSECONDS >= best * (1 - GAP):
            continue
        middle = (low + high) // 2
        packing = problem.solve(caps[middle])
        if packing.columns:
            found.append(packing)
            best = min(best, _seconds(clock, packing))
        spans += [(middle + 1, high, units), (low, middle - 1, packing.units)]
    return found


def _seconds(clock: Clock, packing: Packing) -> float:
    latency = packing.latency_ns * NANOSECONDS if clock.counts_latency else 0.0
    return packing.units * clock.unit_s + latency


def _caps(problem: SplitProblem, columns: Sequence[Column]) -> list[int]:
    """Return latencies worth trying as a cap, ascending."""
    found = {column.latency_ns for column in (*columns, *problem.starting_columns)}
    if isinstance(problem.pricer, _PoolPricer):
        found |= problem.pricer.latencies()
    return sorted(found)


# --- the cheapest tree at given prices ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _CliqueTrees:
    """Every tree of the pool, as one clique would load it: T trees, H hops, N possible roots.

    Attributes:
        towards: (T, N, H) ones where a hop leads towards a root.
        columns: (T, H) column of each hop.
        streams: (T, H) streams up over a hop.
        accelerators: (T, H) column of the accelerator before a hop.
        taken: (T, H) streams that accelerator takes in.
        copies: (T, H) copies down over a hop.
        at_root: (T, N) streams that meet at a root, its own island's not counted.
        up_ns: (T, N) longest way from a member's island up to a root switch.
        down_ns: (T, N) longest way from a root switch down to a member's island.
    """

    towards: FloatArray
    columns: IntArray
    streams: CountArray
    accelerators: IntArray
    taken: CountArray
    copies: CountArray
    at_root: CountArray
    up_ns: IntArray
    down_ns: IntArray

    @classmethod
    def of(
        cls, model: CostModel, trees: Sequence[CostedTree], clique: Clique, own: bool
    ) -> _CliqueTrees:
        """Gather a clique's rows; `own` counts the island at the root as a sender."""
        mask, members = mask_of(clique), np.array(clique)
        network, size = model.network, model.network.size
        access = network.access_delay_ns
        sites = np.stack([tree.hops[:, 0] for tree in trees])
        entering = np.stack([tree.entering[:, mask] for tree in trees])
        sender = 0 if own else mask >> np.arange(size) & 1
        delays = np.stack([tree.wan_delay_ns for tree in trees])
        return cls(
            towards=np.stack([tree.towards for tree in trees]).astype(np.float64),
            columns=np.stack([tree.columns for tree in trees]),
            streams=np.stack([tree.streams[:, mask] for tree in trees]),
            accelerators=network.accelerator(0) + sites,
            taken=_taken(entering, np.array(model.fan_in)[sites]),
            copies=np.stack([np.minimum(tree.beyond[:, mask], 1) for tree in trees]),
            at_root=np.stack([tree.arriving[:, mask] - sender for tree in trees]),
            up_ns=(delays[:, members, :] + access[members, None]).max(axis=1),
            down_ns=(delays[:, :, members] + access[members]).max(axis=2),
        )

    def down_costs(self, prices: FloatArray) -> FloatArray:
        """Return (T, N) the price of the hops down from every root."""
        hops = self.copies * prices[self.columns]
        return np.asarray(hops.sum(axis=1)[:, None] - self._towards_root(hops), dtype=np.float64)

    def up_costs(self, prices: FloatArray) -> FloatArray:
        """Return (T, N) the price of the hops and accelerators on the way up to every root."""
        return self._towards_root(
            self.streams * prices[self.columns] + self.taken * prices[self.accelerators]
        )

    def _towards_root(self, hops: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("tnh,th->tn", self.towards, hops), dtype=np.float64)


def _taken(entering: CountArray, fan_in: IntArray) -> CountArray:
    taken = np.minimum(entering, fan_in)
    return np.where(taken >= 2, taken, 0).astype(np.int16)


_Ways = tuple[FloatArray, IntArray]


def _cheapest_within(ways: Sequence[_Ways], cap_ns: float) -> tuple[float, list[int]]:
    """Return the least cost, and the numbers, of one way of each kind within a total latency."""
    cost, latency = ways[0]
    if len(ways) == 1:
        within = np.where(latency <= cap_ns, cost, inf)
        place = int(within.argmin())
        return float(within[place]), [place]
    second, second_ns = ways[1]
    order = np.argsort(second_ns, kind="stable")
    cheapest = np.minimum.accumulate(second[order])
    last = np.searchsorted(second_ns[order], cap_ns - latency, side="right") - 1
    total = np.where(last >= 0, cost + cheapest[last], inf)
    place = int(total.argmin())
    if not np.isfinite(total[place]):
        return inf, []
    partner = int(order[: last[place] + 1][second[order[: last[place] + 1]].argmin()])
    return float(total[place]), [place, partner]


@dataclass(frozen=True, eq=False)
class _PoolPricer:
    """Looks at every tree of the pool; exact when the pool holds all trees."""

    model: CostModel
    collective: str
    commodities: tuple[Commodity, ...]
    pool: TreePool
    _tables: dict[Clique, _CliqueTrees] = field(default_factory=dict)

    def __call__(
        self, commodity: int, prices: FloatArray, cap_ns: float
    ) -> tuple[Column | None, float]:
        wanted = self.commodities[commodity]
        best, chosen = inf, None
        for root, ways in self._options(wanted, prices):
            cost, numbers = _cheapest_within(ways, cap_ns)
            if cost < best:
                best, chosen = cost, (root, numbers)
        if chosen is None:
            return None, inf if self.pool.complete else 0.0
        trees = self._carried(wanted.clique, *chosen)
        column = _column(self.model, self.collective, self.commodities, commodity, trees)
        return column, float(column.loads @ prices) if self.pool.complete else 0.0

    def _roots(self, wanted: Commodity) -> Sequence[int]:
        if wanted.root is not None:
            return [wanted.root]
        first = wanted.clique[0]
        reached: list[int] = np.flatnonzero(self.model.tree_network.next_hop[first] >= 0).tolist()
        return reached

    def _table(self, clique: Clique) -> _CliqueTrees:
        if clique not in self._tables:
            costed = [self.pool.costed(self.model, n) for n in range(len(self.pool.trees))]
            own = self.collective == INNETWORK
            self._tables[clique] = _CliqueTrees.of(self.model, costed, clique, own)
        return self._tables[clique]

    def _options(self, wanted: Commodity, prices: FloatArray) -> Iterator[tuple[int, list[_Ways]]]:
        """Yield roots with price and latency of every tree: up, down, or up and then down."""
        table = self._table(wanted.clique)
        up = table.up_costs(prices) if self.collective != MULTICAST else np.zeros(0)
        down = table.down_costs(prices) if self.collective != AGGREGATION else np.zeros(0)
        access = 0 if self.collective == INNETWORK else self.model.network.access_delay_ns
        up_ns, down_ns = table.up_ns + access, table.down_ns + access
        for root in self._roots(wanted):
            ways = []
            if self.collective != MULTICAST:
                cost = up[:, root] + self._at_root(table, root, prices)
                ways.append((cost, up_ns[:, root]))
            if self.collective != AGGREGATION:
                ways.append((down[:, root], down_ns[:, root]))
            yield root, ways

    def _at_root(self, table: _CliqueTrees, root: int, prices: FloatArray) -> FloatArray:
        arriving, fan_in = table.at_root[:, root], self.model.fan_in[root]
        cost = summed(arriving, fan_in) * prices[self.model.network.accelerator(root)]
        out = leaving(arriving, fan_in)
        if self.collective == INNETWORK:
            return np.where(out == 1, cost, inf)
        return np.asarray(cost + out * prices[self.model.network.down(root)], dtype=np.float64)

    def _carried(
        self, clique: Clique, root: int, numbers: Sequence[int]
    ) -> tuple[CarriedTree, ...]:
        kinds = (AGGREGATION, MULTICAST) if self.collective == INNETWORK else (self.collective,)
        own = self.collective == INNETWORK
        others = clique if own else tuple(site for site in clique if site != root)
        return tuple(
            CarriedTree(kind, Tree.rooted(self.pool.trees[n], root).pruned(others), others)
            for kind, n in zip(kinds, numbers, strict=True)
        )

    def latencies(self) -> set[int]:
        """Return every latency that some tree of some commodity has."""
        free = np.zeros(len(self.model.slowness))
        found: set[int] = set()
        for commodity in self.commodities:
            for _, ways in self._options(commodity, free):
                delays = [np.unique(latency[np.isfinite(cost)]) for cost, latency in ways]
                both = delays[0] if len(delays) == 1 else delays[0][:, None] + delays[1][None, :]
                found |= set(np.unique(both).tolist())
        return found


@dataclass(eq=False)
class _SteinerPricer:
    """Finds the cheapest of all trees by Dreyfus and Wagner, where accelerators are everywhere.

    Latency caps are beyond it: capped, it offers nothing new.
    """

    model: CostModel
    collective: str
    commodities: tuple[Commodity, ...]
    _prices: FloatArray | None = None
    _tables: dict[str, SteinerTable] | None = None

    def __call__(
        self, commodity: int, prices: FloatArray, cap_ns: float
    ) -> tuple[Column | None, float]:
        if cap_ns < inf:
            return None, 0.0
        wanted = self.commodities[commodity]
        try:
            trees, exact = self._trees(wanted, prices)
        except ValueError:
            return None, inf
        column = _column(self.model, self.collective, self.commodities, commodity, trees)
        return column, float(column.loads @ prices) if exact else 0.0

    def _trees(self, wanted: Commodity, prices: FloatArray) -> tuple[tuple[CarriedTree, ...], bool]:
        if wanted.root is not None:
            tree, exact = self._tree(self.collective, wanted.root, wanted.clique, prices)
            others = tuple(site for site in wanted.clique if site != wanted.root)
            return (CarriedTree(self.collective, tree, others),), exact
        pairs = [self._pair(root, wanted.clique, prices) for root in self._roots(wanted.clique)]
        _, trees, exact = min(pairs, key=lambda pair: pair[0])
        everywhere = len(pairs) == self.model.network.size
        return trees, exact and everywhere

    def _roots(self, clique: Clique) -> Sequence[int]:
        small = self.model.network.size <= TABLED_TERMINALS
        return range(self.model.network.size) if small else clique

    def _pair(
        self, root: int, clique: Clique, prices: FloatArray
    ) -> tuple[float, tuple[CarriedTree, ...], bool]:
        up, first = self._tree(AGGREGATION, root, clique, prices)
        down, second = self._tree(MULTICAST, root, clique, prices)
        columns = self.model.network.wan_column
        cost = sum(prices[columns[b, a]] for a, b in up.hops)
        cost += sum(prices[columns[hop]] for hop in down.hops)
        trees = CarriedTree(AGGREGATION, up, clique), CarriedTree(MULTICAST, down, clique)
        return float(cost), trees, first and second

    def _tree(self, kind: str, root: int, clique: Clique, prices: FloatArray) -> tuple[Tree, bool]:
        if self.model.network.size > TABLED_TERMINALS:
            weights = self._weights(prices)
            weights = weights if kind == MULTICAST else weights.T
            others = [site for site in clique if site != root]
            return steiner_tree(weights, root, others), len(others) <= EXACT_TERMINALS
        table = self._table(kind, prices)
        wanted = mask_of([site for site in clique if site != root])
        if not np.isfinite(table.cost[wanted, root]):
            raise ValueError("the links do not reach every terminal")
        return table.tree(root, wanted).pruned(clique), True

    def _weights(self, prices: FloatArray) -> FloatArray:
        network = self.model.tree_network
        weights = np.full((network.size, network.size), inf)
        ends = network.wan[network.usable]
        weights[ends[:, 0], ends[:, 1]] = prices[: network.wan_count][network.usable]
        return weights

    def _table(self, kind: str, prices: FloatArray) -> SteinerTable:
        if self._prices is not prices:
            self._prices, self._tables = prices, {}
        tables = self._tables if self._tables is not None else {}
        if kind not in tables:
            weights = self._weights(prices)
            weights = weights if kind == MULTICAST else weights.T
            tables[kind] = steiner_table(weights, range(self.model.network.size))
        return tables[kind]
