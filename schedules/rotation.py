"""Rotations: how often to run which round, when no single round serves the objective.

`fair` and `consensus` both ask for rates y_P (rounds a second of partition P) that make the most of
each second, Sum y_P t_P = 1. Both are convex, with far more partitions than anyone would list, so
columns are generated: a master problem over a few partitions yields prices, prices turn into a
score for every clique, and a partition is worth adding when its cliques' scores exceed its time at
the master's rate. The largest score per second over *all* partitions bounds what any rotation can
attain, so the search ends with a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, chunks
from schedules.rounds import TOLERANCE, RoundSet
from schedules.solution import gap_pct
from schedules.watch import Watch

MOST_STEPS = 400
ADDED = 24
REFINED = 8
REFINED_PART = 1 << 15
LEAST_LOOKED_AT = 1 << 10
LOOKED_AT_PART = 1 << 7
STEADINESS = 0.5
PRECISION = 1e-7


@dataclass(frozen=True, eq=False)
class Priced:
    """What a master problem answers.

    Attributes:
        value: what the given rounds attain together.
        rates: rounds a second of each.
        scores: (2^n,) worth of every clique; worth of a round over its time bounds the value.
    """

    value: float
    rates: FloatArray
    scores: FloatArray


Master = Callable[[list[MaskArray], FloatArray], Priced]


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rounds of a set with their rates, what they attain and what nothing can exceed."""

    rows: tuple[int, ...]
    rates: tuple[float, ...]
    value: float
    bound: float


def best_rotation(
    rounds: RoundSet, objective: str, master: Master, watch: Watch
) -> Rotation | None:
    """Generate rounds until the master's value meets the bound; None when no round is possible.

    Args:
        rounds: the rounds to choose from.
        objective: named in progress reports.
        master: solves the objective for a few rounds, given their masks and seconds.
        watch: may stop the search early.
    """
    rows = _starting_rows(rounds)
    if not rows:
        return None
    search = _Search(rounds, objective, rows, watch)
    for step in range(MOST_STEPS):
        answer = master([rounds.masks[row] for row in rows], rounds.best_s[rows])
        search.attained(answer)
        grown = search.grow(answer, smoothed=True) or search.grow(answer, smoothed=False)
        watch.tell("rotating rounds", step, 0, gap_pct(objective, search.value, search.bound))
        if search.bound <= search.value * (1 + PRECISION) or watch.over() or not grown:
            break
    return search.rotation()


@dataclass(eq=False)
class _Search:
    """The state of a column generation.

    Prices of one master problem alone swing wildly, which adds useless rounds. Halfway between them
    and the prices of the best bound so far they are steadier (Wentges, Int. Trans. Oper. Res. 4,
    1997).
    """

    rounds: RoundSet
    objective: str
    rows: list[int]
    watch: Watch
    value: float = 0.0
    bound: float = np.inf
    _best: tuple[tuple[int, ...], FloatArray] = ((), np.zeros(0))
    _centre: FloatArray | None = None
    _stuck: set[int] = field(default_factory=set)

    def attained(self, answer: Priced) -> None:
        """Note what the present rounds attain."""
        if answer.value > self.value * (1 + TOLERANCE) or not self._best[0]:
            self.value, self._best = answer.value, (tuple(self.rows), answer.rates)

    def rotation(self) -> Rotation:
        """Return the best rotation so far."""
        rows, rates = self._best
        return Rotation(rows, tuple(rates.tolist()), self.value, max(self.bound, self.value))

    def grow(self, answer: Priced, smoothed: bool) -> bool:
        """Price all rounds, lower the bound, and add rounds; say whether any was added."""
        if self._centre is None or not smoothed:
            scores = answer.scores
        else:
            scores = STEADINESS * self._centre + (1 - STEADINESS) * answer.scores
        worth = _worth(self.rounds, scores)
        bound = float((worth / self.rounds.floor_s).max())
        if bound < self.bound or self._centre is None:
            self.bound, self._centre = bound, scores
        hopeful = _hopeful(self.rounds, worth, self.value)
        better = _better(self.rounds, self.rows, hopeful, worth, self.value)
        self.rows += better
        if better or smoothed:
            return bool(better)
        return _refine_some(self.rounds, hopeful, worth, self.value, self._stuck, self.watch)


def _starting_rows(rounds: RoundSet) -> list[int]:
    """Return, for every pair of islands, the round most worth its time in which the two meet."""
    size = rounds.model.network.size
    promise = np.where(np.isfinite(rounds.floor_s), rounds.pairs / rounds.floor_s, 0.0)
    likely = np.argsort(-promise, kind="stable")[: 1 << 11]
    rounds.evaluate(likely[~rounds.evaluated[likely]])
    found = set()
    for pair in (1 << a | 1 << b for b in range(size) for a in range(b)):
        row = _first_with(rounds, likely, pair)
        if row is None:
            row = _first_with(rounds, _rows_with(rounds, pair, promise), pair)
        if row is not None:
            found.add(row)
    whole = int((rounds.masks[:, 0] == (1 << size) - 1).argmax())
    rounds.evaluate(np.array([whole]))
    if np.isfinite(rounds.best_s[whole]):
        found.add(whole)
    return sorted(found)


def _rows_with(rounds: RoundSet, pair: int, promise: FloatArray) -> IntArray:
    rows = np.flatnonzero((rounds.masks & pair == pair).any(axis=1) & (promise > 0))
    rows = rows[np.argsort(-promise[rows], kind="stable")][:64]
    rounds.evaluate(rows[~rounds.evaluated[rows]])
    return rows


def _first_with(rounds: RoundSet, rows: IntArray, pair: int) -> int | None:
    meeting = (rounds.masks[rows] & pair == pair).any(axis=1) & np.isfinite(rounds.best_s[rows])
    return int(rows[meeting.argmax()]) if meeting.any() else None


def _worth(rounds: RoundSet, scores: FloatArray) -> FloatArray:
    """Return (P,) the worth of every round: its cliques' scores added up."""
    worth = np.zeros(len(rounds.masks))
    for rows in chunks(len(rounds.masks)):
        worth[rows] = scores[rounds.masks[rows]].sum(axis=1)
    return worth


def _hopeful(rounds: RoundSet, worth: FloatArray, value: float) -> list[int]:
    """Return evaluated rounds that may be worth more than their time, most hopeful first."""
    hopes = worth / rounds.floor_s
    hopeful = np.flatnonzero(hopes > value * (1 + PRECISION))
    most = max(LEAST_LOOKED_AT, len(hopes) // LOOKED_AT_PART)
    if len(hopeful) > most:
        hopeful = np.sort(hopeful[np.argpartition(-hopes[hopeful], most)[:most]])
    hopeful = hopeful[np.argsort(-hopes[hopeful], kind="stable")]
    rounds.evaluate(hopeful[~rounds.evaluated[hopeful]])
    found: list[int] = hopeful.tolist()
    return found


def _better(
    rounds: RoundSet, rows: Sequence[int], hopeful: list[int], worth: FloatArray, value: float
) -> list[int]:
    """Return the new rounds that are worth more than their time, best first."""
    known = set(rows)
    gains = worth[hopeful] / rounds.best_s[hopeful]
    order = np.argsort(-gains, kind="stable").tolist()
    fresh = [hopeful[n] for n in order if gains[n] > value * (1 + PRECISION)]
    return [row for row in fresh if row not in known][:ADDED]


def _refine_some(
    rounds: RoundSet,
    rows: Sequence[int],
    worth: FloatArray,
    value: float,
    stuck: set[int],
    watch: Watch,
) -> bool:
    """Refine the most hopeful rounds that stay hopeful while others are refined."""
    count = 0
    for row in rows:
        if row in stuck or rounds.solved(row) or not _is_hopeful(rounds, row, worth, value):
            continue
        before = rounds.best_s[row]
        rounds.refine(row, float(worth[row]) / value if value > 0 else np.inf)
        if rounds.best_s[row] == before and _is_hopeful(rounds, row, worth, value):
            stuck.add(row)
        count += 1
        if count >= max(REFINED, len(worth) // REFINED_PART) or watch.over():
            break
    return count > 0


def _is_hopeful(rounds: RoundSet, row: int, worth: FloatArray, value: float) -> bool:
    floor = float(rounds.floor_s[row])
    return floor < np.inf and float(worth[row]) > value * (1 + PRECISION) * floor
