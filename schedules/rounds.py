"""All rounds of a small network, each with what it takes at least and at best.

Every objective asks the same two things of a partition: a time that no choice of collective, ring
order or trees can beat (`floor_s`) and a time that a choice found so far attains (`best_s`). Where
the two meet the partition is solved. An optimizer looks at the partitions that seem best by their
floor, has them evaluated, and is done when no floor promises more than the best found: the usual
branch and bound, with the branches laid out in an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import RING, TREE_COLLECTIVES
from schedules.constraints import Clock, Constraints
from schedules.cost import Clique, CliqueWork, CostModel, RoundCost
from schedules.floors import Floor, floor_of
from schedules.joint_rings import JointRings
from schedules.learned import LearnedFloors
from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, all_partitions, chunks, cliques, sizes
from schedules.pool import TreePool
from schedules.ring import EXACT_RING_MEMBERS, best_ring, ring_share
from schedules.ring_floors import least_ring_latency_ns
from schedules.ring_rounds import AloneRings, RingRounds
from schedules.routed import RouteTable
from schedules.splitting import Split, SplitProblem, split_round
from schedules.tables import Style, styles
from schedules.tours import short_ring
from schedules.watch import Watch
from schedules.ways import WayBook

FULLY_TABLED_SITES = 9
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class ChosenRound:
    """A round with everything decided: its collective, ring orders and trees."""

    collective: str
    works: tuple[CliqueWork, ...]
    cost: RoundCost
    seconds: float
    fractional_units: float | None = None


@dataclass(frozen=True, eq=False)
class _Refined:
    """A choice that no table holds: ring orders or a split among trees."""

    collective: str
    orders: tuple[tuple[int, ...], ...] = ()
    split: Split | None = None

    def works(self) -> tuple[CliqueWork, ...]:
        if self.split is not None:
            return self.split.works()
        return tuple(CliqueWork(order) for order in self.orders)


@dataclass(eq=False)
class RoundSet:
    """The rounds a plan may be made of.

    Attributes:
        model: the network and its capabilities.
        clock: how costs become seconds.
        collectives: the collectives to choose from.
        constraints: limits on every round.
        masks: (P, K) clique masks of every partition that the limits allow.
        pairs: (P,) ordered pairs of islands whose contributions meet.
        floor_s: (P,) seconds a round takes at least.
        best_s: (P,) seconds the best choice so far takes; inf before evaluation.
        traversals: (P,) messages times WAN links of that choice.
        evaluated: (P,) whether `best_s` is known.
    """

    model: CostModel
    clock: Clock
    collectives: tuple[str, ...]
    constraints: Constraints
    masks: MaskArray
    pairs: IntArray
    floor_s: FloatArray
    best_s: FloatArray
    traversals: FloatArray
    evaluated: NDArray[np.bool_]
    _floors: dict[str, Floor]
    _floor_by: FloatArray
    _styles: list[Style]
    _pool: TreePool | None
    _rings: RingRounds | None
    _choice: NDArray[np.int8]
    _refined: dict[int, _Refined] = field(default_factory=dict)
    _books: dict[str, WayBook] = field(default_factory=dict)
    _learned: dict[str, LearnedFloors] = field(default_factory=dict)
    _units: dict[int, FloatArray] = field(default_factory=dict)
    _ring_floors: dict[Clique, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: CostModel,
        clock: Clock,
        collectives: Sequence[str],
        constraints: Constraints,
    ) -> RoundSet:
        """List the rounds of a network of at most a dozen sites and bound their times."""
        size = model.network.size
        pool = None
        if set(collectives) & set(TREE_COLLECTIVES):
            pool = TreePool.of(model.tree_network)
        small = size <= FULLY_TABLED_SITES
        found = [style for c in collectives if c != RING for style in styles(model, c, pool)]
        masks = _allowed(all_partitions(size), size, constraints)
        count = len(masks)
        rings = (
            RingRounds.of(model.network, clock, masks) if small and RING in collectives else None
        )
        bounded = [c for c in collectives if c != RING or rings is None]
        counts = sizes(size).astype(np.int64)
        rounds = cls(
            model=model,
            clock=clock,
            collectives=tuple(collectives),
            constraints=constraints,
            masks=masks,
            pairs=(counts * (counts - 1))[masks].sum(axis=1),
            floor_s=np.zeros(count),
            best_s=np.full(count, np.inf),
            traversals=np.full(count, np.inf),
            evaluated=np.zeros(count, dtype=np.bool_),
            _floors={c: floor_of(model, c, pool) for c in bounded},
            _floor_by=np.zeros((len(collectives), count)),
            _styles=found,
            _pool=pool,
            _rings=rings,
            _choice=np.full(count, -1, dtype=np.int8),
        )
        if RING in rounds._floors:
            floor = rounds._floors[RING]
            alone = rounds._alone_rings
            units = np.hstack([floor.units, alone.units])
            latency = np.maximum(floor.latency_ns, alone.latency_ns)
            rounds._floors[RING] = replace(floor, units=units, latency_ns=latency)
        for rows in chunks(count, 1 << 13 if small else 1 << 16):
            rounds._raise_floors(rows, contention=small)
        return rounds

    # --- floors -----------------------------------------------------------------------------------

    def _raise_floors(self, rows: slice | IntArray, contention: bool) -> None:
        for number, collective in enumerate(self.collectives):
            if collective in self._floors:
                floor = self._floors[collective]
                raised = self._floor_seconds(floor, self.masks[rows], contention)
                if collective == RING:
                    alone = self._alone_rings.seconds[self.masks[rows]].max(axis=1)
                    raised = np.maximum(raised, alone)
            else:
                raised = self._ring_seconds(rows)
            known = self._floor_by[number, rows]
            self._floor_by[number, rows] = np.maximum(known, raised)
        self._renew_floors(rows)

    def _renew_floors(self, rows: slice | IntArray) -> None:
        least = self._floor_by[:, rows].min(axis=0)
        self.floor_s[rows] = np.minimum(least, self.best_s[rows])

    def _floor_seconds(self, floor: Floor, masks: MaskArray, contention: bool) -> FloatArray:
        if contention:
            units = _summed(floor.units, masks).max(axis=1)
        else:
            units = floor.units.max(axis=1)[masks].max(axis=1)
        latency = floor.latency_ns[masks].max(axis=1)
        seconds = self.clock.seconds(units, latency, self._compute(masks))
        return self._within_limits(seconds, floor.groups[masks].sum(axis=1))

    @cached_property
    def _alone_rings(self) -> AloneRings:
        return AloneRings.of(self.model.network, self.clock)

    def _ring_seconds(self, rows: slice | IntArray) -> FloatArray:
        """Return what the best rings take, which is known of every round."""
        rings = self._rings
        assert rings is not None
        units, latency = rings.transfer_units[rows], rings.latency_ns[rows].astype(np.float64)
        seconds = self.clock.seconds(units, latency, self._compute(self.masks[rows]))
        return self._within_limits(seconds, np.zeros(len(seconds), dtype=np.int64))

    def _within_limits(self, seconds: FloatArray, groups: IntArray) -> FloatArray:
        """Return seconds, inf where a round breaks a limit."""
        most_groups, most_s = self.model.capabilities.max_groups, self.constraints.max_round_s
        if most_groups is not None:
            seconds = np.where(groups <= most_groups, seconds, np.inf)
        if most_s is not None:
            seconds = np.where(seconds <= most_s * (1 + TOLERANCE), seconds, np.inf)
        return seconds

    @cached_property
    def _slowest(self) -> FloatArray:
        """(2^n,) compute time of the slowest member of every mask."""
        slowest = np.zeros(1 << self.model.network.size)
        for site, seconds in enumerate(self.clock.compute_s):
            low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
            slowest[high] = np.maximum(slowest[low], seconds)
        slowest[sizes(self.model.network.size) < 2] = 0
        return slowest

    def _compute(self, masks: MaskArray) -> FloatArray:
        return np.asarray(self._slowest[masks].max(axis=1), dtype=np.float64)

    # --- evaluation -------------------------------------------------------------------------------

    def evaluate(self, rows: IntArray) -> None:
        """Find the best tabled choice of some rounds and raise their floors."""
        for part in chunks(len(rows), 1 << 12):
            self._evaluate(rows[part])

    def _evaluate(self, rows: IntArray) -> None:
        best = np.full(len(rows), np.inf)
        crossed, choice = best.copy(), np.full(len(rows), -1, dtype=np.int8)
        for number, (seconds, wan) in enumerate(self._choices(rows)):
            near = seconds <= best * (1 + TOLERANCE)
            better = (seconds < best * (1 - TOLERANCE)) | (near & (wan < crossed - TOLERANCE))
            best[better], crossed[better], choice[better] = seconds[better], wan[better], number
        self.best_s[rows], self.traversals[rows], self._choice[rows] = best, crossed, choice
        self.evaluated[rows] = True
        self._raise_floors(rows, contention=True)

    def _choices(self, rows: IntArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield seconds and traversals of some rounds in every style, and as rings after that."""
        masks = self.masks[rows]
        compute = self._compute(masks)
        for style in self._styles:
            units = (_summed(style.loads, masks) * self.model.slowness).max(axis=1)
            seconds = self.clock.seconds(units, style.latency_ns[masks].max(axis=1), compute)
            installed = self._floors[style.collective].groups[masks].sum(axis=1)
            yield self._within_limits(seconds, installed), style.traversals[masks].sum(axis=1)
        if self._rings is not None:
            yield self._ring_seconds(rows), self._rings.traversals[rows]

    def evaluate_promising(
        self, promise: Callable[[], FloatArray], watch: Watch, batch: int = 1 << 11
    ) -> None:
        """Evaluate rounds in order of promise until none left is zero or more.

        Args:
            promise: gives (P,) how much better than the best found a round could be.
            watch: may stop this early.
            batch: how many to evaluate at a time.
        """
        while not watch.over():
            hopes = np.where(self.evaluated, -np.inf, promise())
            hopeful = np.flatnonzero(hopes >= 0)
            if not len(hopeful):
                return
            if len(hopeful) > batch:
                hopeful = hopeful[np.argpartition(-hopes[hopeful], batch)[:batch]]
            self.evaluate(hopeful)

    # --- refinement -------------------------------------------------------------------------------

    def solved(self, row: int) -> bool:
        """Whether a round's floor and best time meet."""
        return bool(self.best_s[row] <= self.floor_s[row] * (1 + TOLERANCE))

    def refine(self, row: int, enough_s: float = np.inf) -> None:
        """Split traffic among trees, and search ring orders, to bring floor and best together.

        Args:
            row: the round.
            enough_s: once it is proved that the round takes no less than this, that will do.
        """
        if not self.evaluated[row]:
            self.evaluate(np.array([row]))
        for number, collective in enumerate(self.collectives):
            if self._floor_by[number, row] < self.best_s[row] * (1 - TOLERANCE):
                if collective == RING:
                    self._refine_rings(row, number)
                elif collective in TREE_COLLECTIVES:
                    self._refine_trees(row, number, enough_s)
        self._renew_floors(np.array([row]))

    def _refine_rings(self, row: int, number: int) -> None:
        """Order the rings of a round of ten to twelve islands; smaller networks have all tabled."""
        found = cliques(self.masks[row])
        if all(len(clique) <= EXACT_RING_MEMBERS for clique in found):
            _, orders = self._joint_rings.best(found)
            least = self._offer(row, _Refined(RING, orders=orders))
        else:
            for order in (self._short_rings, self._best_rings):
                self._offer(row, _Refined(RING, orders=tuple(order(clique) for clique in found)))
            least = max(self._least_ring_s(clique) for clique in found)
        self._floor_by[number, row] = max(self._floor_by[number, row], least)

    @cached_property
    def _joint_rings(self) -> JointRings:
        return JointRings(self.model.network, self.clock)

    @cached_property
    def _route_table(self) -> RouteTable:
        return RouteTable.of(self.model.network)

    def _best_rings(self, clique: Clique) -> Clique:
        return best_ring(self.model.network, clique)

    def _short_rings(self, clique: Clique) -> Clique:
        order = short_ring(self._route_table, np.array(clique, dtype=np.int64), self.clock, 4.0)
        return tuple(order.tolist())

    def _least_ring_s(self, clique: Clique) -> float:
        """Return what a ring takes at least: its access ports, and the least latency of any order.

        Both hold for every order, so their sum bounds each order's sum.
        """
        if len(clique) < 3:
            return 0.0
        if clique not in self._ring_floors:
            network, members = self.model.network, np.array(clique)
            ports = np.concatenate([network.up(0) + members, network.down(0) + members])
            units = ring_share(len(clique)) * network.slowness[ports].max()
            delay = network.delay_ns[np.ix_(clique, clique)]
            latency = least_ring_latency_ns(delay) if self.clock.counts_latency else 0.0
            nothing = np.zeros(1)
            least = self.clock.seconds(np.array([units]), np.array([latency]), nothing)
            self._ring_floors[clique] = float(least[0])
        return self._ring_floors[clique]

    def _book(self, collective: str) -> WayBook | None:
        if self._pool is not None and collective not in self._books:
            self._books[collective] = WayBook(self.model, collective, self._pool)
        return self._books.get(collective)

    def _refine_trees(self, row: int, number: int, enough_s: float) -> None:
        collective, masks = self.collectives[number], self.masks[[row]]
        found = cliques(self.masks[row])
        enough_s = min(enough_s, float(self.best_s[row]))
        book, learned = self._book(collective), self._learned.get(collective)
        known = None if learned is None else learned.least_units(row)
        split = split_round(self.model, collective, found, self.clock, book, enough_s, known)
        if split is None:
            self._floor_by[number, row] = np.inf
            return
        self._offer(row, _Refined(collective, split=split))
        latency = self._floors[collective].latency_ns[masks].max(axis=1)
        least = self.clock.seconds(np.array([split.bound]), latency, self._compute(masks))[0]
        least = max(float(least), split.least_s)
        self._floor_by[number, row] = max(self._floor_by[number, row], least)
        self._learn(number, split)

    def _learn(self, number: int, split: Split) -> None:
        """Turn the prices of a solved round into floors for all rounds."""
        collective = self.collectives[number]
        book = self._book(collective)
        small = self.model.network.size <= FULLY_TABLED_SITES
        if book is None or not (book.pool.complete and small):
            return
        floor = self._floors[collective]
        if collective not in self._learned:
            learned = LearnedFloors(book, self.masks)
            self._learned[collective] = learned
        learned = self._learned[collective]
        for packing in split.tried:
            learned.learn(packing.prices, packing.cap_ns)
        units = self._free_units(number)
        seconds = learned.seconds(self.clock, units, floor.latency_ns[self.masks].max(axis=1))
        np.maximum(self._floor_by[number], seconds, out=self._floor_by[number])
        self._renew_floors(slice(None))

    def _free_units(self, number: int) -> FloatArray:
        if number not in self._units:
            table = self._floors[self.collectives[number]].units
            parts = [_summed(table, self.masks[rows]).max(axis=1) for rows in self._all_rows()]
            self._units[number] = np.concatenate(parts)
        return self._units[number]

    def _all_rows(self) -> Iterator[slice]:
        return chunks(len(self.masks), 1 << 13)

    def _offer(self, row: int, refined: _Refined) -> float:
        """Take a choice if it is the best so far; return its seconds, inf if it breaks a limit."""
        masks = self.masks[[row]]
        compute = self._compute(masks)
        if refined.split is not None:
            seconds = np.maximum(refined.split.seconds(self.clock), compute)
            groups, crossed = 0, np.inf
        else:
            works = [CliqueWork(order) for order in refined.orders]
            cost = self.model.round_cost(RING, works)
            seconds = np.array([self.clock.round_s(cost, [s for w in works for s in w.members])])
            groups, crossed = 0, cost.traversals
        if self.model.capabilities.max_groups is not None and refined.split is not None:
            groups = self.model.round_cost(refined.collective, refined.split.works()).groups
        offered = float(self._within_limits(seconds, np.array([groups]))[0])
        if offered < self.best_s[row] * (1 - TOLERANCE):
            self.best_s[row], self.traversals[row] = offered, crossed
            self._refined[row] = refined
        return offered

    # --- the result -------------------------------------------------------------------------------

    def chosen(self, row: int) -> ChosenRound:
        """Return the best choice found for an evaluated round."""
        if row in self._refined:
            refined = self._refined[row]
            collective = refined.collective
            works = list(refined.works())
        elif self._choice[row] == len(self._styles) and self._rings is not None:
            collective = RING
            works = [CliqueWork(order) for order in self._rings.orders(row)]
        else:
            style = self._styles[self._choice[row]]
            collective = style.collective
            works = [style.work(int(mask)) for mask in self.masks[row] if mask]
        works.sort(key=lambda work: sorted(work.members))
        cost = self.model.round_cost(collective, works)
        seconds = self.clock.round_s(cost, [site for work in works for site in work.members])
        return ChosenRound(collective, tuple(works), cost, seconds)

    def fractional_units(self, chosen: ChosenRound) -> float | None:
        """Return what transfer a round's trees could reach if messages were split at will.

        This is the optimum of the linear program of `schedules.splitting` where its pricing is
        exact, else a bound on it; None for collectives without trees.
        """
        if chosen.collective not in TREE_COLLECTIVES:
            return None
        cliques_of = [tuple(sorted(work.members)) for work in chosen.works]
        book = self._book(chosen.collective)
        problem = SplitProblem.of(self.model, chosen.collective, cliques_of, book)
        return problem.solve().bound

    def cliques(self, row: int) -> list[tuple[int, ...]]:
        """Return the cliques of a round, sorted."""
        return cliques(self.masks[row])


def _summed(table: FloatArray, masks: MaskArray) -> FloatArray:
    """Return (rows, columns) table rows added up over the masks of each row."""
    total = table[masks[:, 0]]
    for place in range(1, masks.shape[1]):
        total = total + table[masks[:, place]]
    return total


def _allowed(masks: MaskArray, size: int, constraints: Constraints) -> MaskArray:
    """Return the partitions with a clique at least and none of forbidden size."""
    counts = sizes(size)
    most = constraints.max_clique or size
    allowed = (counts < 2) | ((counts >= constraints.min_clique) & (counts <= most))
    return masks[allowed[masks].all(axis=1) & (masks[:, 0] > 0)]
