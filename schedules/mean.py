"""The `mean` objective: the shortest cycle after which every island holds the exact global mean.

The cycles searched are rotations: after each round every island holds the exact mean of a block of
islands, and the next round averages across blocks (`schedules.grids`). One full clique is the
shortest such cycle in rounds, a grid needs two, nested grids three or more. A number of islands
that is prime leaves the full clique only. Cycles that pass through unequal weights exist as well;
they are outside of this search, and of what its proof covers.

Rounds of a cycle are chosen by their floors first: the sum of floors of a cycle is a bound on it,
and only cycles whose bound beats the best found are looked at closely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedules.cost import NANOSECONDS
from schedules.grids import common_divisors, grids_of, orthogonal, spread
from schedules.network import FloatArray, IntArray
from schedules.rounds import TOLERANCE, RoundSet
from schedules.solution import MEAN_OBJECTIVE, Solution, gap_pct
from schedules.watch import Watch

KeyArray = NDArray[np.uint64]

FOUR_ROUNDS_FROM = 12
CLOSE_LOOKS = 4000


def least_mean(rounds: RoundSet, watch: Watch) -> Solution | None:
    """Return the shortest cycle to the exact mean; None when no cycle is possible."""
    search = _MeanSearch(rounds, watch)
    search.whole()
    search.two_rounds()
    search.three_rounds()
    if search.best is None:
        return None
    chosen = tuple(rounds.chosen(row) for row in search.best)
    shares = (1 / len(chosen),) * len(chosen)
    bound = min(search.seconds, search.unsearched())
    return Solution(MEAN_OBJECTIVE, chosen, shares, search.seconds, bound)


@dataclass(eq=False)
class _MeanSearch:
    """The best cycle so far, and the search for better ones."""

    rounds: RoundSet
    watch: Watch
    best: tuple[int, ...] | None = None
    seconds: float = np.inf
    traversals: float = np.inf
    _skipped: float = np.inf
    _index: _RowIndex | None = field(default=None)
    _least_made: dict[int, float] = field(default_factory=dict)

    def whole(self) -> None:
        """Try one clique of everyone."""
        everyone = (1 << self.rounds.model.network.size) - 1
        for row in np.flatnonzero(self.rounds.masks[:, 0] == everyone).tolist():
            self._look((row,))

    def two_rounds(self) -> None:
        """Try every orthogonal pair whose floors promise a shorter cycle."""
        self._evaluate_proper()
        found = list(self._pairs())
        self._look_at_all(found)

    def _evaluate_proper(self) -> None:
        """Raise the floors of rounds that may be part of a pair, so that few pairs promise much."""
        rows, _ = self._proper()
        if len(rows):
            floors = self.rounds.floor_s[rows]
            rows = rows[floors + floors[0] <= self.seconds]
            self.rounds.evaluate(rows[~self.rounds.evaluated[rows]])

    def _pairs(self) -> Iterator[tuple[int, ...]]:
        size, floors = self.rounds.model.network.size, self.rounds.floor_s
        rows, divisors = self._proper()
        ordered = floors[rows]
        fitting = {
            d: np.flatnonzero(divisors * d % size == 0) for d in np.unique(divisors).tolist()
        }
        for place, row in enumerate(rows.tolist()):
            left = self.seconds - float(ordered[place])
            if left < ordered[0] or self.watch.over():
                break
            fits = fitting[int(divisors[place])]
            end = int(np.searchsorted(ordered, left, side="right"))
            first, last = np.searchsorted(fits, (place, end)).tolist()
            later = rows[fits[first:last]]
            blocks = [int(mask) for mask in self.rounds.masks[row] if mask]
            for other in later[orthogonal(blocks, self.rounds.masks[later], size)].tolist():
                yield row, other

    def _proper(self) -> tuple[IntArray, IntArray]:
        """Return rows with blocks of a common divisor, smallest floor first, and the divisors."""
        size = self.rounds.model.network.size
        divisors = common_divisors(self.rounds.masks, size)
        whole = self.rounds.masks[:, 0] == (1 << size) - 1
        able = (divisors > 1) & ~whole & np.isfinite(self.rounds.floor_s)
        rows = np.flatnonzero(able)
        rows = rows[np.argsort(self.rounds.floor_s[rows], kind="stable")]
        return rows, divisors[rows]

    # --- nested grids -----------------------------------------------------------------------------

    def three_rounds(self) -> None:
        """Try cycles whose first two rounds make the blocks that the third averages across."""
        floors = self.rounds.floor_s
        rows, _ = self._proper()
        if not len(rows):
            return
        self._index = _RowIndex.of(self.rounds)
        least, ordered = 2 * float(floors.min()), floors[rows]
        for blocks in rows[self._nested(rows)].tolist():
            if self.watch.over():
                three = max(least + float(ordered[0]), least_cycle_s(self.rounds, 3))
                self._skipped = min(self._skipped, three)
                return
            limit = self.seconds - max(least, self._made(blocks))
            across = self._first_across(blocks, rows[: np.searchsorted(ordered, limit, "right")])
            if across is not None:
                self._look_at_all(list(self._inside(blocks, across)))

    def _made(self, row: int) -> float:
        """Return what two rounds that make the blocks of a row take at least."""
        assert self._index is not None
        floors = self.rounds.floor_s
        masks = [int(mask) for mask in self.rounds.masks[row] if mask]
        for mask in masks:
            if mask not in self._least_made:
                self._least_made[mask] = self._index.least_made(mask, floors)
        return max(self._least_made[mask] for mask in masks)

    def _nested(self, rows: IntArray) -> IntArray:
        counts = np.array(
            [[bin(int(m)).count("1") for m in row] for row in self.rounds.masks[rows]]
        )
        return np.flatnonzero((counts >= 4).any(axis=1))

    def _first_across(self, blocks: int, cheap: IntArray) -> int | None:
        """Return the first of some rounds that is orthogonal to given blocks."""
        size = self.rounds.model.network.size
        masks = [int(mask) for mask in self.rounds.masks[blocks] if mask]
        for start in range(0, len(cheap), 1024):
            part = cheap[start : start + 1024]
            fits = orthogonal(masks, self.rounds.masks[part], size)
            if fits.any():
                return int(part[fits.argmax()])
        return None

    def _inside(self, blocks: int, across: int) -> Iterator[tuple[int, ...]]:
        """Yield cycles of two rounds that make the blocks and one across them."""
        index, floors = self._index, self.rounds.floor_s
        assert index is not None
        left = self.seconds - float(floors[across])
        keys = [np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)]
        for block in (int(mask) for mask in self.rounds.masks[blocks] if mask):
            first, second = index.halves(block, floors, left)
            keys = [
                (keys[0][:, None] + first[None, :]).ravel(),
                (keys[1][:, None] + second[None, :]).ravel(),
            ]
        one, two = index.rows(keys[0]), index.rows(keys[1])
        known = (one >= 0) & (two >= 0)
        total = floors[one] + floors[two]
        for n in np.flatnonzero(known & (total <= left)).tolist():
            yield int(one[n]), int(two[n]), across

    # --- looking closely --------------------------------------------------------------------------

    def _look_at_all(self, cycles: list[tuple[int, ...]]) -> None:
        """Look at cycles in order of their floors."""
        cycles.sort(key=lambda rows: (self._floor(rows), rows))
        for count, rows in enumerate(cycles):
            if count >= CLOSE_LOOKS or self.watch.over():
                self._skipped = min(self._skipped, self._floor(rows))
                return
            self._look(rows)
            gap = gap_pct(MEAN_OBJECTIVE, self.seconds, self._floor(rows))
            self.watch.tell("comparing cycles", count + 1, len(cycles), gap)

    def _floor(self, rows: Sequence[int]) -> float:
        return float(self.rounds.floor_s[list(rows)].sum())

    def _look(self, rows: tuple[int, ...]) -> None:
        """Find what a cycle takes, as far as it may be better than the best."""
        rounds = self.rounds
        if self._floor(rows) > self.seconds * (1 + TOLERANCE):
            return
        fresh = np.array([row for row in rows if not rounds.evaluated[row]], dtype=np.int64)
        rounds.evaluate(fresh)
        for row in rows:
            spare = self.seconds - (self._floor(rows) - float(rounds.floor_s[row]))
            if not rounds.solved(row) and rounds.floor_s[row] < spare * (1 - TOLERANCE):
                rounds.refine(row, spare)
        self._take(rows)

    def _take(self, rows: tuple[int, ...]) -> None:
        total = float(self.rounds.best_s[list(rows)].sum())
        crossed = float(self.rounds.traversals[list(rows)].sum())
        shorter = total < self.seconds * (1 - TOLERANCE)
        equal = total <= self.seconds * (1 + TOLERANCE)
        if np.isfinite(total) and (shorter or (equal and crossed < self.traversals - TOLERANCE)):
            self.best, self.seconds, self.traversals = rows, total, crossed

    def unsearched(self) -> float:
        """Return a bound on the cycles that were not looked at."""
        floors = self.rounds.floor_s
        bound = self._skipped
        if self.rounds.model.network.size >= FOUR_ROUNDS_FROM:
            rows, _ = self._proper()
            if len(rows):
                four = float(floors[rows[0]]) + 3 * float(floors.min())
                bound = min(bound, max(four, least_cycle_s(self.rounds, 4)))
        return bound


def least_cycle_s(rounds: RoundSet, count: int) -> float:
    """Return what a cycle to the mean of so many rounds takes at least, whatever its weights.

    In every round two islands or more send a message and hear one. And what the island at the start
    of the longest path knows reaches the one at its end: from clique to clique, in rounds whose
    latencies add up to the path's delay at least, for no detour is quicker.
    """
    network, clock = rounds.model.network, rounds.clock
    ports = network.slowness[network.up(0) : network.accelerator(0)].reshape(2, -1).max(axis=0)
    seconds = count * float(np.sort(ports)[1]) * clock.unit_s
    if clock.counts_latency:
        seconds += float(network.delay_ns.max()) * NANOSECONDS
    return seconds


@dataclass(frozen=True, eq=False)
class _RowIndex:
    """Finds the row of a partition by a key that adds up over its cliques."""

    rounds: RoundSet
    of_mask: KeyArray
    keys: KeyArray
    order: IntArray

    @classmethod
    def of(cls, rounds: RoundSet) -> _RowIndex:
        count = 1 << rounds.model.network.size
        of_mask = np.random.default_rng(1).integers(1, 1 << 63, count, dtype=np.uint64)
        of_mask[0] = 0
        keys = of_mask[rounds.masks].sum(axis=1)
        order = np.argsort(keys, kind="stable")
        return cls(rounds, of_mask, keys[order], order)

    def rows(self, wanted: KeyArray) -> IntArray:
        """Return the row of each key, -1 where there is none."""
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.order[places], -1)

    def halves(self, block: int, floors: FloatArray, limit: float) -> tuple[KeyArray, KeyArray]:
        """Return keys of what a block may do in two rounds, as far as floors allow."""
        first, second = self._ways(block)
        least = self._least(first, floors) + self._least(second, floors)
        return first[least <= limit], second[least <= limit]

    def least_made(self, block: int, floors: FloatArray) -> float:
        """Return what a block needs at least for its mean, in one round or in two."""
        first, second = self._ways(block)
        return float((self._least(first, floors) + self._least(second, floors)).min())

    def _ways(self, block: int) -> tuple[KeyArray, KeyArray]:
        """Return keys of all a block may do in two rounds to end up with its mean."""
        count = bin(block).count("1")
        ways = [((block,), ()), ((), (block,))]
        for one, two in grids_of(count):
            ways.append(
                (
                    tuple(spread(mask, block) for mask in one),
                    tuple(spread(mask, block) for mask in two),
                )
            )
        first = np.array([self._key(one) for one, _ in ways], dtype=np.uint64)
        second = np.array([self._key(two) for _, two in ways], dtype=np.uint64)
        return first, second

    def _key(self, masks: Sequence[int]) -> int:
        return int(self.of_mask[list(masks)].sum()) if masks else 0

    def _least(self, keys: KeyArray, floors: FloatArray) -> FloatArray:
        rows = self.rows(keys)
        alone = np.where(rows >= 0, floors[rows], 0.0)
        return np.asarray(alone, dtype=np.float64)
