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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
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
from schedules.steiner import EXACT_TERMINALS, SteinerTable, steiner_table, steiner_tree
from schedules.trees import Tree
from schedules.ways import Way, WayBook

MOST_STEPS = 200
FEW_WAYS = 400
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
    """One way to carry a commodity, given by its number."""

    commodity: int
    way: Way

    @property
    def key(self) -> tuple[int, object]:
        """Tells columns apart."""
        return self.commodity, self.way.key


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
        """The longest path of any way: one in use, as longer ones are left out."""
        return max(column.way.latency_ns for column in self.columns)


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


def _within_used(columns: Sequence[Column], shares: FloatArray) -> list[Column]:
    """Return the columns that are no longer than the longest one in use."""
    used = [column for column, share in zip(columns, shares, strict=True) if share > LEAST_SHARE]
    longest = max(column.way.latency_ns for column in used)
    return [column for column in columns if column.way.latency_ns <= longest]


LeastUnits = Callable[[IntArray], FloatArray]


class Pricer(Protocol):
    """Finds ways to carry a commodity of no more latency than a cap."""

    @property
    def exact(self) -> bool:
        """Whether the cheapest way it finds is the cheapest there is."""

    def all_ways(self, commodities: Sequence[Commodity], cap_ns: float) -> list[list[Way]] | None:
        """Return all ways of each commodity where they are few, else None."""

    def start(self, wanted: Commodity, cap_ns: float) -> list[Way]:
        """Return a few good ways to begin with; none where the commodity cannot be carried."""

    def cheapest(
        self, wanted: Commodity, prices: FloatArray, cap_ns: float
    ) -> tuple[list[Way], float]:
        """Return cheap ways at prices for a message over each direction, and the least cost.

        There is none when there is nothing new to offer; the cost is inf when there is no way.
        """

    def latencies(self, wanted: Commodity) -> NDArray[np.int64]:
        """Return the latencies of the ways it knows, ascending."""


@dataclass(frozen=True, eq=False)
class SplitProblem:
    """The trees of a round as a linear program.

    Attributes:
        model: the network and its capabilities.
        collective: `multicast`, `aggregation` or `innetwork`.
        commodities: what must be carried.
        pricer: finds ways to carry them.
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
        book: WayBook | None = None,
    ) -> SplitProblem:
        """Set up the program for cliques that work at the same time.

        Args:
            model: the network and its capabilities.
            collective: `multicast`, `aggregation` or `innetwork`.
            cliques: sorted site numbers of each.
            book: ways of this collective, if they are known.
        """
        commodities = tuple(
            Commodity(clique, root)
            for clique in cliques
            for root in ((None,) if collective == INNETWORK else clique)
        )
        if book is not None and (book.pool.complete or not model.capabilities.sums_anywhere):
            pricer: Pricer = _BookPricer(book)
        else:
            pricer = _SteinerPricer(model, collective)
        return cls(model, collective, commodities, pricer)

    def solve(self, cap_ns: float = inf, known: Sequence[Column] = ()) -> Packing:
        """Return the best packing within a latency cap, given some columns to begin with."""
        listed = self.pricer.all_ways(self.commodities, cap_ns)
        started = listed or [self.pricer.start(wanted, cap_ns) for wanted in self.commodities]
        if not all(started):
            return Packing([], inf, inf, cap_ns, self.model.slowness)
        columns = [Column(n, way) for n, ways in enumerate(started) for way in ways]
        if listed:
            units, prices, shares = self._master(columns)
            return Packing(_within_used(columns, shares), units, units, cap_ns, prices)
        allowed = [column for column in known if column.way.latency_ns <= cap_ns]
        return self._generate({c.key: c for c in (*columns, *allowed)}, cap_ns)

    def _generate(self, found: dict[tuple[int, object], Column], cap_ns: float) -> Packing:
        bound = 0.0
        for _ in range(MOST_STEPS):
            columns = list(found.values())
            units, prices, shares = self._master(columns)
            offers = [self.pricer.cheapest(c, prices, cap_ns) for c in self.commodities]
            bound = max(bound, sum(cost for _, cost in offers))
            for number, (ways, _) in enumerate(offers):
                for column in (Column(number, way) for way in ways):
                    found.setdefault(column.key, column)
            if len(found) == len(columns) or units <= bound * (1 + GAP):
                break
        used = _within_used(columns, shares)
        return Packing(used, units, min(bound, units), cap_ns, prices)

    def _master(self, columns: Sequence[Column]) -> tuple[float, FloatArray, FloatArray]:
        """Return the transfer units, what a message over each direction costs, and the shares."""
        busy, matrix = self._busy_rows(columns)
        result = linprog(
            np.array([0.0] * len(columns) + [1.0]),
            A_ub=np.hstack([matrix, -np.ones((len(busy), 1))]),
            b_ub=np.zeros(len(busy)),
            A_eq=self._share_rows(columns),
            b_eq=np.ones(len(self.commodities)),
            method="highs",
            options={"presolve": False},  # takes longer than so small a program itself
        )
        prices = np.zeros(len(self.model.slowness))
        prices[busy] = -result.ineqlin.marginals * self.model.slowness[busy]
        return float(result.x[-1]), np.maximum(prices, 0.0), np.asarray(result.x[:-1])

    def _busy_rows(self, columns: Sequence[Column]) -> tuple[IntArray, FloatArray]:
        loads = np.array([column.way.loads for column in columns]).T * self.model.slowness[:, None]
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
        links = np.array([c.way.loads[: self.model.network.wan_count].sum() for c in columns])
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
                carried = [replace(tree, share=float(share)) for tree in column.way.plant()]
                trees.setdefault(clique, []).extend(carried)
        return tuple(CliqueWork(clique, tuple(found)) for clique, found in sorted(trees.items()))


def split_round(
    model: CostModel,
    collective: str,
    cliques: Sequence[Clique],
    clock: Clock,
    book: WayBook | None = None,
    enough_s: float = inf,
    least_units: LeastUnits | None = None,
) -> Split | None:
    """Choose and split the trees of a round for the least time, transfer and latency together.

    Latency counts through caps: the program is solved for the least latency first, then for larger
    ones, as long as a larger one could still pay.

    Args:
        model: the network and its capabilities.
        collective: `multicast`, `aggregation` or `innetwork`.
        cliques: what works at the same time.
        clock: turns units and latency into seconds.
        book: ways of this collective, if they are known.
        least_units: what is known already of the least transfer within latency caps.
        enough_s: when nothing faster than this is of interest, the search may end with the proof
            that there is nothing faster.

    Returns:
        The split, or None when some clique cannot be carried.
    """
    if any((model.tree_network.next_hop[np.ix_(c, c)] < 0).any() for c in cliques):
        return None
    problem = SplitProblem.of(model, collective, cliques, book)
    free = problem.solve()
    if not free.columns:
        return None
    least = free.bound * clock.unit_s
    tried = [free]
    if clock.counts_latency:
        tried += _capped(problem, clock, free, enough_s, least_units)
        if problem.pricer.exact and free.units <= free.bound * (1 + GAP):
            least = min(enough_s, *(_seconds(clock, packing) for packing in tried))
    best = min(tried, key=lambda packing: _seconds(clock, packing))
    return Split(problem, best, tuple(tried), free.bound, least)


def _capped(
    problem: SplitProblem,
    clock: Clock,
    free: Packing,
    enough_s: float,
    least_units: LeastUnits | None,
) -> list[Packing]:
    """Try latency caps: the lower the cap, the longer the transfer.

    Between two caps the transfer is no shorter than at the larger one and the latency no less than
    the smaller one, which rules most caps out unseen.
    """
    caps = _caps(problem)
    units = np.full(len(caps), free.units)
    if least_units is not None:
        units = np.maximum(units, least_units(caps))
    best = min(enough_s, _seconds(clock, free))
    found: list[Packing] = []
    columns = {column.key: column for column in free.columns}
    untried = np.ones(len(caps), dtype=np.bool_)
    while True:
        hopeful = units * clock.unit_s + caps * NANOSECONDS < best * (1 - GAP)
        places = np.flatnonzero(hopeful & untried)
        if not len(places):
            return found
        middle = int(places[len(places) // 2])
        untried[middle] = False
        packing = problem.solve(float(caps[middle]), list(columns.values()))
        units[: middle + 1] = np.maximum(units[: middle + 1], packing.units)
        if packing.columns:
            found.append(packing)
            columns |= {column.key: column for column in packing.columns}
            best = min(best, _seconds(clock, packing))
            untried &= (caps > caps[middle]) | (caps < packing.latency_ns)


def _seconds(clock: Clock, packing: Packing) -> float:
    latency = packing.latency_ns * NANOSECONDS if clock.counts_latency else 0.0
    return packing.units * clock.unit_s + latency


def _caps(problem: SplitProblem) -> IntArray:
    """Return latencies worth trying as a cap, ascending.

    None below what some commodity needs at least is worth it.
    """
    found = [problem.pricer.latencies(wanted) for wanted in problem.commodities]
    least = max(int(each.min(initial=1 << 62)) for each in found)
    together = np.unique(np.concatenate(found))
    return np.asarray(together[together >= least], dtype=np.int64)


# --- the cheapest tree at given prices ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _BookPricer:
    """Looks at every way; exact when the pool holds all trees."""

    book: WayBook

    @property
    def exact(self) -> bool:
        return self.book.pool.complete

    def all_ways(self, commodities: Sequence[Commodity], cap_ns: float) -> list[list[Way]] | None:
        found = [self.book.ways(wanted.clique, wanted.root) for wanted in commodities]
        if not self.exact or sum(ways.count() for ways in found) > FEW_WAYS:
            return None
        return [ways.within(cap_ns) for ways in found]

    def start(self, wanted: Commodity, cap_ns: float) -> list[Way]:
        ways = self.book.ways(wanted.clique, wanted.root)
        slowness = self.book.model.slowness
        found = [ways.cheapest(slowness, min(cap, cap_ns)) for cap in (ways.least_ns(), inf)]
        return list({way.key: way for way in found if way is not None}.values())

    def cheapest(
        self, wanted: Commodity, prices: FloatArray, cap_ns: float
    ) -> tuple[list[Way], float]:
        found = self.book.ways(wanted.clique, wanted.root).cheap(prices, cap_ns)
        costs = [float(way.loads @ prices) for way in found]
        return found, min(costs, default=inf) if self.exact else 0.0

    def latencies(self, wanted: Commodity) -> NDArray[np.int64]:
        return self.book.ways(wanted.clique, wanted.root).latencies()


@dataclass(eq=False)
class _SteinerPricer:
    """Finds the cheapest of all trees by Dreyfus and Wagner, where accelerators are everywhere.

    Latency caps are beyond it: capped, it offers nothing new.
    """

    model: CostModel
    collective: str
    _prices: FloatArray | None = None
    _tables: dict[str, SteinerTable] | None = None

    @property
    def exact(self) -> bool:
        return False

    def all_ways(self, commodities: Sequence[Commodity], cap_ns: float) -> list[list[Way]] | None:
        return None

    def start(self, wanted: Commodity, cap_ns: float) -> list[Way]:
        """Return the ways the clique would choose on its own."""
        found: dict[object, Way] = {}
        for style in (LEAST_DELAY, FEWEST_LINKS):
            work = clique_work(self.model, self.collective, wanted.clique, style)
            if work is not None:
                way = self._way(wanted, _trees_of(work, wanted.root))
                found[way.key] = way
        return [way for way in found.values() if way.latency_ns <= cap_ns]

    def latencies(self, wanted: Commodity) -> NDArray[np.int64]:
        return np.unique([way.latency_ns for way in self.start(wanted, inf)]).astype(np.int64)

    def cheapest(
        self, wanted: Commodity, prices: FloatArray, cap_ns: float
    ) -> tuple[list[Way], float]:
        if cap_ns < inf:
            return [], 0.0
        try:
            trees, exact = self._trees(wanted, prices)
        except ValueError:
            return [], inf
        way = self._way(wanted, trees)
        return [way], float(way.loads @ prices) if exact else 0.0

    def _way(self, wanted: Commodity, trees: tuple[CarriedTree, ...]) -> Way:
        work = CliqueWork(wanted.clique, trees)
        key = tuple((t.kind, t.tree.root, t.tree.hops) for t in trees)
        loads = clique_loads(self.model, self.collective, work)
        latency = clique_latency_ns(self.model, self.collective, work)
        return Way(key, loads, latency, lambda: trees)

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


def _trees_of(work: CliqueWork, root: int | None) -> tuple[CarriedTree, ...]:
    return tuple(tree for tree in work.trees if root is None or tree.tree.root == root)
