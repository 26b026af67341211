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
from dataclasses import dataclass

import numpy as np

from schedules.network import FloatArray, IntArray
from schedules.partitions import MaskArray, chunks
from schedules.rounds import TOLERANCE, RoundSet
from schedules.solution import gap_pct
from schedules.watch import Watch

MOST_STEPS = 400
ADDED = 24
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
    bound, stuck, best = np.inf, set[int](), None
    for step in range(MOST_STEPS):
        answer = master([rounds.masks[row] for row in rows], rounds.best_s[rows])
        if best is None or answer.value > best.value * (1 + TOLERANCE):
            best = Rotation(tuple(rows), tuple(answer.rates.tolist()), answer.value, bound)
        worth = _worth(rounds, answer.scores)
        bound = min(bound, float((worth / rounds.floor_s).max()))
        best = Rotation(best.rows, best.rates, best.value, max(bound, best.value))
        watch.tell("rotating rounds", step, 0, gap_pct(objective, best.value, best.bound))
        if best.bound <= best.value * (1 + PRECISION) or watch.over():
            break
        if not _grow(rounds, rows, worth, answer.value, stuck):
            break
    return best


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


def _grow(
    rounds: RoundSet, rows: list[int], worth: FloatArray, value: float, stuck: set[int]
) -> bool:
    """Add the rounds most worth their time; say whether anything changed."""
    hopes = worth / rounds.floor_s
    hopeful = np.flatnonzero(hopes > value * (1 + PRECISION))
    hopeful = hopeful[np.argsort(-hopes[hopeful], kind="stable")][: 1 << 10]
    rounds.evaluate(hopeful[~rounds.evaluated[hopeful]])
    gains = worth[hopeful] / rounds.best_s[hopeful]
    known = set(rows)
    better = [
        int(row)
        for row in hopeful[np.argsort(-gains, kind="stable")].tolist()
        if row not in known and worth[row] > value * (1 + PRECISION) * rounds.best_s[row]
    ]
    rows += better[:ADDED]
    if better:
        return True
    return _refine_first(rounds, hopeful.tolist(), stuck)


def _refine_first(rounds: RoundSet, hopeful: Sequence[int], stuck: set[int]) -> bool:
    for row in hopeful:
        if row not in stuck and not rounds.solved(row):
            stuck.add(row)
            rounds.refine(row)
            return True
    return False
