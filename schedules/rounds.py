"""All rounds of a small network, each with what it takes at least and at best.

Every objective asks the same two things of a partition: a time that no choice of collective, ring
order or trees can beat (`floor_s`) and a time that a choice found so far attains (`best_s`). Where
the two meet the partition is solved. An optimizer looks at the partitions that seem best by their
floor, has them evaluated, and is done when no floor promises more than the best found: the usual
branch and bound, with the branches laid out in an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedules.capabilities import RING, TREE_COLLECTIVES
from schedules.constraints import Clock, Constraints
from schedules.cost import CliqueWork, CostModel, RoundCost, clique_work
from schedules.floors import Floor, floor_of
from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, all_partitions, chunks, cliques, sizes
from schedules.pool import TreePool
from schedules.splitting import split_round
from schedules.tables import Style, styles
from schedules.watch import Watch

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
    _styles: list[Style]
    _floors: list[Floor]
    _pool: TreePool | None
    _choice: NDArray[np.int8]
    _refined: dict[int, ChosenRound] = field(default_factory=dict)

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
        tabled = [c for c in collectives if c != RING or size <= FULLY_TABLED_SITES]
        found = [style for c in tabled for style in styles(model, c, pool)]
        masks = _allowed(all_partitions(size), size, constraints)
        count = len(masks)
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
            _styles=found,
            _floors=[floor_of(model, c, _exact_latency(found, c), pool) for c in collectives],
            _pool=pool,
            _choice=np.full(count, -1, dtype=np.int8),
        )
        rounds._set_floors()
        return rounds

    # --- floors -----------------------------------------------------------------------------------

    def _set_floors(self) -> None:
        exact = self.model.network.size <= FULLY_TABLED_SITES
        for rows in chunks(len(self.masks), 1 << 13 if exact else 1 << 16):
            self.floor_s[rows] = self._floors_of(self.masks[rows], self._floors, exact)
        limit = self.constraints.max_round_s
        if limit is not None:
            self.floor_s[self.floor_s > limit * (1 + TOLERANCE)] = np.inf

    def _floors_of(self, masks: MaskArray, floors: Sequence[Floor], contention: bool) -> FloatArray:
        compute = self._compute(masks)
        least = np.full(len(masks), np.inf)
        for floor in floors:
            if contention:
                units = _summed(floor.units, masks).max(axis=1)
            else:
                units = floor.units.max(axis=1)[masks].max(axis=1)
            seconds = self.clock.seconds(units, floor.latency_ns[masks].max(axis=1), compute)
            least = np.minimum(least, self._within_groups(seconds, floor.groups[masks].sum(axis=1)))
        return least

    def _within_groups(self, seconds: FloatArray, groups: IntArray) -> FloatArray:
        limit = self.model.capabilities.max_groups
        return seconds if limit is None else np.where(groups <= limit, seconds, np.inf)

    def _compute(self, masks: MaskArray) -> FloatArray:
        slowest = np.zeros(1 << self.model.network.size)
        for site, seconds in enumerate(self.clock.compute_s):
            low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
            slowest[high] = np.maximum(slowest[low], seconds)
        slowest[sizes(self.model.network.size) < 2] = 0
        return np.asarray(slowest[masks].max(axis=1), dtype=np.float64)

    # --- evaluation -------------------------------------------------------------------------------

    def evaluate(self, rows: IntArray) -> None:
        """Find the best tabled choice of some rounds and raise their floors."""
        for part in chunks(len(rows), 1 << 12):
            self._evaluate(rows[part])

    def _evaluate(self, rows: IntArray) -> None:
        masks = self.masks[rows]
        compute = self._compute(masks)
        floors = {floor.collective: floor for floor in self._floors}
        best = np.full(len(rows), np.inf)
        crossed, choice = best.copy(), np.full(len(rows), -1, dtype=np.int8)
        for number, style in enumerate(self._styles):
            units = (_summed(style.loads, masks) * self.model.slowness).max(axis=1)
            seconds = self.clock.seconds(units, style.latency_ns[masks].max(axis=1), compute)
            groups = floors[style.collective].groups[masks].sum(axis=1)
            seconds = self._within_groups(seconds, groups)
            wan = style.traversals[masks].sum(axis=1)
            near = seconds <= best * (1 + TOLERANCE)
            better = (seconds < best * (1 - TOLERANCE)) | (near & (wan < crossed - TOLERANCE))
            best[better], crossed[better], choice[better] = seconds[better], wan[better], number
        limit = self.constraints.max_round_s
        if limit is not None:
            best[best > limit * (1 + TOLERANCE)] = np.inf
        self.best_s[rows], self.traversals[rows], self._choice[rows] = best, crossed, choice
        raised = self._floors_of(masks, self._floors, contention=True)
        self.floor_s[rows] = np.minimum(np.maximum(self.floor_s[rows], raised), best)
        self.evaluated[rows] = True

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

    def refine(self, row: int) -> None:
        """Split traffic among trees, and search ring orders, to bring floor and best together."""
        floor = np.inf
        for number, collective in enumerate(self.collectives):
            bound = self._bound(row, number)
            if bound < self.best_s[row] * (1 - TOLERANCE):
                found, bound = self._improve(row, collective, bound)
                if found is not None and found.seconds < self.best_s[row] * (1 - TOLERANCE):
                    self.best_s[row], self.traversals[row] = found.seconds, found.cost.traversals
                    self._refined[row] = found
            floor = min(floor, bound)
        self.evaluated[row] = True
        self.floor_s[row] = max(self.floor_s[row], min(floor, float(self.best_s[row])))

    def _bound(self, row: int, number: int) -> float:
        return float(self._floors_of(self.masks[[row]], [self._floors[number]], True)[0])

    def _improve(self, row: int, collective: str, bound: float) -> tuple[ChosenRound | None, float]:
        """Return a better choice for one collective, and what it takes at least."""
        found = cliques(self.masks[row])
        if collective == RING:
            works = [clique_work(self.model, RING, clique) for clique in found]
            return self._accepted(collective, [work for work in works if work]), bound
        if collective not in TREE_COLLECTIVES:
            return None, bound
        split = split_round(self.model, collective, found, self.clock, self._pool)
        if split is None:
            return None, np.inf
        accepted = self._accepted(collective, split.works)
        if split.exact and accepted is not None:
            return accepted, max(bound, accepted.seconds)
        compute = float(self._compute(self.masks[[row]])[0])
        floor = next(floor for floor in self._floors if floor.collective == collective)
        latency = floor.latency_ns[self.masks[row]].max()
        least = self.clock.seconds(np.array(split.bound), latency, np.array(compute))
        return accepted, max(bound, float(least))

    def _accepted(self, collective: str, works: Sequence[CliqueWork]) -> ChosenRound | None:
        """Cost a choice; None when it breaks a limit."""
        cost = self.model.round_cost(collective, works)
        busy = [site for work in works for site in work.members]
        seconds = self.clock.round_s(cost, busy)
        groups = self.model.capabilities.max_groups
        limit = self.constraints.max_round_s
        if groups is not None and cost.groups > groups:
            return None
        if limit is not None and seconds > limit * (1 + TOLERANCE):
            return None
        return ChosenRound(collective, tuple(works), cost, seconds)

    def chosen(self, row: int) -> ChosenRound:
        """Return the best choice found for an evaluated round."""
        if row in self._refined:
            return self._refined[row]
        style = self._styles[self._choice[row]]
        works = [style.work(int(mask)) for mask in self.masks[row] if mask]
        works.sort(key=lambda work: sorted(work.members))
        found = self._accepted(style.collective, works)
        assert found is not None
        return found

    def cliques(self, row: int) -> list[tuple[int, ...]]:
        """Return the cliques of a round, sorted."""
        return cliques(self.masks[row])


def _exact_latency(found: Sequence[Style], collective: str) -> IntArray | None:
    """Return the least latencies of a collective where they were searched for exactly."""
    rings = [style.latency_ns for style in found if style.collective == collective == RING]
    return rings[-1] if rings else None


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
