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
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from schedules.capabilities import AGGREGATION, INNETWORK, MULTICAST
from schedules.constraints import Clock
from schedules.cost import (
    FEWEST_LINKS,
    LEAST_DELAY,
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
from schedules.pool import CostedTree, TreePool, leaving, summed
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
class Split:
    """How a round's traffic is split among trees.

    Attributes:
        works: the cliques with their trees and shares.
        units: transfer time of that split.
        bound: no choice of trees takes less.
    """

    works: tuple[CliqueWork, ...]
    units: float
    bound: float


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

    def starting_columns(self, cap_ns: float) -> list[Column]:
        """Return the ways every clique would choose on its own."""
        found: dict[tuple[object, ...], Column] = {}
        for style in (LEAST_DELAY, FEWEST_LINKS):
            for number, commodity in enumerate(self.commodities):
                for trees in self._styled(commodity, style):
                    column = self.column(number, trees)
                    if column.latency_ns <= cap_ns:
                        found[column.key] = column
        return list(found.values())

    def _styled(self, commodity: Commodity, style: str) -> Iterator[tuple[CarriedTree, ...]]:
        work = clique_work(self.model, self.collective, commodity.clique, style)
        if work is None:
            return
        if commodity.root is None:
            yield work.trees
        else:
            yield tuple(t for t in work.trees if t.tree.root == commodity.root)

    def solve(self, cap_ns: float = inf) -> tuple[list[Column], FloatArray, float, float]:
        """Return columns, their shares, the transfer units and a bound on them.

        The columns are empty when some commodity cannot be carried within the latency cap.
        """
        columns = self.starting_columns(cap_ns)
        for number in set(range(len(self.commodities))) - {c.commodity for c in columns}:
            column, _ = self.pricer(number, self.model.slowness, cap_ns)
            if column is None:
                return [], np.zeros(0), inf, inf
            columns.append(column)
        known = {column.key for column in columns}
        bound = 0.0
        for _ in range(MOST_STEPS):
            shares, units, prices = self._master(columns)
            offers = [self.pricer(n, prices, cap_ns) for n in range(len(self.commodities))]
            bound = max(bound, sum(cost for _, cost in offers))
            fresh = [c for c, _ in offers if c is not None and c.key not in known]
            if not fresh or units <= bound * (1 + GAP):
                break
            known |= {column.key for column in fresh}
            columns += fresh
        return columns, shares, units, min(bound, units)

    def _master(self, columns: Sequence[Column]) -> tuple[FloatArray, float, FloatArray]:
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
        return np.asarray(result.x[:-1]), float(result.x[-1]), np.maximum(prices, 0.0)

    def _busy_rows(self, columns: Sequence[Column]) -> tuple[IntArray, FloatArray]:
        loads = np.array([column.loads for column in columns]).T * self.model.slowness[:, None]
        busy = np.flatnonzero(loads.any(axis=1))
        return busy.astype(np.int64), np.asarray(loads[busy], dtype=np.float64)

    def _share_rows(self, columns: Sequence[Column]) -> FloatArray:
        rows = np.zeros((len(self.commodities), len(columns) + 1))
        rows[[column.commodity for column in columns], np.arange(len(columns))] = 1
        return rows

    def settle(self, columns: Sequence[Column], units: float) -> tuple[list[Column], FloatArray]:
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
            return list(columns), np.round(whole.x)
        split = linprog(links, matrix, limits, shares, ones, method="highs")
        return list(columns), np.asarray(split.x)

    def works(self, columns: Sequence[Column], shares: FloatArray) -> tuple[CliqueWork, ...]:
        """Return the cliques with the trees that carry a share."""
        trees: dict[Clique, list[CarriedTree]] = {}
        for column, share in zip(columns, shares, strict=True):
            if share > LEAST_SHARE:
                clique = self.commodities[column.commodity].clique
                carried = [replace(tree, share=float(share)) for tree in column.trees]
                trees.setdefault(clique, []).extend(carried)
        return tuple(CliqueWork(clique, tuple(found)) for clique, found in sorted(trees.items()))


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
) -> Split | None:
    """Choose and split the trees of a round for the least time, transfer and latency together.

    Latency counts through caps: the program is solved for the least latency first, then for larger
    ones, as long as a larger one could still pay.

    Returns:
        The split, or None when some clique cannot be carried. Its `bound` is on transfer units.
    """
    problem = SplitProblem.of(model, collective, cliques, pool)
    columns, _, units, bound = problem.solve()
    if not columns:
        return None
    best, best_units, best_s = columns, units, _seconds(clock, units, columns)
    if clock.counts_latency:
        for cap in _caps(problem, columns, pool):
            if bound * clock.unit_s + cap * 1e-9 >= best_s * (1 - GAP):
                break
            capped, _, capped_units, _ = problem.solve(cap)
            if capped and _seconds(clock, capped_units, capped) < best_s:
                best, best_units = capped, capped_units
                best_s = _seconds(clock, capped_units, capped)
            if capped_units <= units * (1 + GAP):
                break
    chosen, shares = problem.settle(best, best_units)
    return Split(problem.works(chosen, shares), best_units, bound)


def _seconds(clock: Clock, units: float, columns: Sequence[Column]) -> float:
    latency = max(column.latency_ns for column in columns) * 1e-9
    return units * clock.unit_s + (latency if clock.counts_latency else 0.0)


def _caps(problem: SplitProblem, columns: Sequence[Column], pool: TreePool | None) -> list[int]:
    """Return latencies worth trying as a cap, ascending."""
    found = {column.latency_ns for column in columns}
    if isinstance(problem.pricer, _PoolPricer):
        found |= problem.pricer.latencies()
    return sorted(found)


# --- the cheapest tree at given prices ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _PoolPricer:
    """Looks at every tree of the pool; exact when the pool holds all trees."""

    model: CostModel
    collective: str
    commodities: tuple[Commodity, ...]
    pool: TreePool

    def __call__(
        self, commodity: int, prices: FloatArray, cap_ns: float
    ) -> tuple[Column | None, float]:
        wanted = self.commodities[commodity]
        roots = [wanted.root] if wanted.root is not None else range(self.model.network.size)
        best: tuple[float, tuple[CarriedTree, ...]] | None = None
        for root in roots:
            offer = self._cheapest(wanted.clique, root, prices, cap_ns)
            if offer is not None and (best is None or offer[0] < best[0]):
                best = offer
        if best is None:
            return None, inf if self.pool.complete else 0.0
        column = _column(self.model, self.collective, self.commodities, commodity, best[1])
        cost = float(column.loads @ prices)
        return column, cost if self.pool.complete else 0.0

    def _cheapest(
        self, clique: Clique, root: int, prices: FloatArray, cap_ns: float
    ) -> tuple[float, tuple[CarriedTree, ...]] | None:
        kinds = (AGGREGATION, MULTICAST) if self.collective == INNETWORK else (self.collective,)
        tables = [self._costs(kind, clique, root, prices) for kind in kinds]
        costs, latency = tables[0]
        if len(tables) == 2:
            costs = costs[:, None] + tables[1][0][None, :]
            latency = latency[:, None] + tables[1][1][None, :]
        costs = np.where(latency <= cap_ns, costs, inf)
        place = np.unravel_index(int(costs.argmin()), costs.shape)
        if not np.isfinite(costs[place]):
            return None
        trees = [
            self._carried(kind, int(number), root, clique)
            for kind, number in zip(kinds, place, strict=True)
        ]
        return float(costs[place]), tuple(trees)

    def _carried(self, kind: str, number: int, root: int, clique: Clique) -> CarriedTree:
        own = self.collective == INNETWORK
        others = clique if own else tuple(site for site in clique if site != root)
        tree = Tree.rooted(self.pool.trees[number], root).pruned(others)
        return CarriedTree(kind, tree, others)

    def _costs(
        self, kind: str, clique: Clique, root: int, prices: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (trees,) cost and latency of every tree of the pool for one root."""
        both = [self._cost(kind, clique, root, prices, n) for n in range(len(self.pool.trees))]
        return np.array([cost for cost, _ in both]), np.array([delay for _, delay in both])

    def _cost(
        self, kind: str, clique: Clique, root: int, prices: FloatArray, number: int
    ) -> tuple[float, float]:
        costed = self.pool.costed(self.model, number)
        mask = mask_of(clique)
        if not self._joins(costed, clique, root):
            return inf, inf
        access = self.model.network.access_delay_ns
        members = np.array(clique)
        if kind == MULTICAST:
            away = ~costed.towards[root]
            carried = np.minimum(costed.beyond[away, mask], 1)
            delays = costed.wan_delay_ns[root, members] + access[members]
            return float(carried @ prices[costed.columns[away]]), float(delays.max())
        cost = self._upward_cost(costed, mask, root, prices)
        delays = costed.wan_delay_ns[members, root] + access[members]
        return cost, float(delays.max())

    def _joins(self, costed: CostedTree, clique: Clique, root: int) -> bool:
        hops = self.model.tree_network.next_hop[root, list(clique)]
        return bool((hops >= 0).all())

    def _upward_cost(self, costed: CostedTree, mask: int, root: int, prices: FloatArray) -> float:
        network, fan_in = self.model.network, self.model.fan_in
        own = 0 if self.collective == INNETWORK else mask >> root & 1
        up = np.flatnonzero(costed.towards[root])
        cost = float(costed.streams[up, mask] @ prices[costed.columns[up]])
        at_root = costed.arriving[root, mask] - own
        entering = [(int(costed.hops[h, 0]), costed.entering[h, mask]) for h in up.tolist()]
        for site, streams in (*entering, (root, at_root)):
            cost += float(summed(streams, fan_in[site]) * prices[network.accelerator(site)])
        out = int(leaving(at_root, fan_in[root]))
        if self.collective == INNETWORK:
            return cost if out == 1 else inf
        return cost + out * float(prices[network.down(root)])

    def latencies(self) -> set[int]:
        """Return every latency that some tree of some commodity has."""
        free = np.zeros(len(self.model.slowness))
        found: set[float] = set()
        for commodity in self.commodities:
            roots = range(self.model.network.size) if commodity.root is None else [commodity.root]
            for root in roots:
                found |= self._latencies(commodity, root, free)
        return {int(delay) for delay in found if delay < inf}

    def _latencies(self, commodity: Commodity, root: int, free: FloatArray) -> set[float]:
        access = float(self.model.network.access_delay_ns[root])
        if self.collective != INNETWORK:
            _, delays = self._costs(self.collective, commodity.clique, root, free)
            return set((delays + access).tolist())
        _, up = self._costs(AGGREGATION, commodity.clique, root, free)
        _, down = self._costs(MULTICAST, commodity.clique, root, free)
        return set((np.unique(up)[:, None] + np.unique(down)[None, :]).ravel().tolist())


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
