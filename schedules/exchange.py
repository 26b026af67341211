"""The `exchange` objective: ordered pairs of islands whose contributions meet, per second.

One partition, repeated, is best: running several in turn attains an average of their values, and no
average exceeds the largest.
"""

from __future__ import annotations

import numpy as np

from schedules.network import FloatArray
from schedules.rounds import TOLERANCE, RoundSet
from schedules.solution import EXCHANGE_OBJECTIVE, Solution, gap_pct
from schedules.watch import Watch


def most_exchange(rounds: RoundSet, watch: Watch) -> Solution | None:
    """Return the partition of most pairs per second; None when no round is possible."""
    rounds.evaluate_promising(lambda: _hope(rounds), watch)
    _refine(rounds, watch)
    values = rounds.pairs / rounds.best_s
    row = _first_of_best(rounds, values)
    if row is None:
        return None
    bound = max(float((rounds.pairs / rounds.floor_s).max()), float(values[row]))
    chosen = rounds.chosen(row)
    return Solution(EXCHANGE_OBJECTIVE, (chosen,), (1.0,), float(values[row]), bound)


def _hope(rounds: RoundSet) -> FloatArray:
    best = float((rounds.pairs / rounds.best_s).max(initial=0.0))
    hope = rounds.pairs / rounds.floor_s - best * (1 - TOLERANCE)
    return np.where(np.isfinite(rounds.floor_s), hope, -1.0)


def _refine(rounds: RoundSet, watch: Watch) -> None:
    """Solve rounds whose floor still promises more than the best, most promising first."""
    tried: set[int] = set()
    while not watch.over():
        best = float((rounds.pairs / rounds.best_s).max(initial=0.0))
        hopes = rounds.pairs / rounds.floor_s
        hopes[list(tried)] = 0.0
        row = int(hopes.argmax())
        if hopes[row] <= best * (1 + TOLERANCE):
            return
        tried.add(row)
        rounds.refine(row, float(rounds.pairs[row]) / best if best > 0 else np.inf)
        gap = gap_pct(EXCHANGE_OBJECTIVE, best, float(hopes[row]))
        watch.tell("refining rounds", len(tried), 0, gap)


def _first_of_best(rounds: RoundSet, values: FloatArray) -> int | None:
    """Return the best row; ties go to fewest traversals, then to cliques in code order."""
    best = float(values.max(initial=0.0))
    if best <= 0:
        return None
    rows = np.flatnonzero(values >= best * (1 - TOLERANCE))
    fewest = rounds.traversals[rows].min()
    rows = rows[rounds.traversals[rows] <= fewest * (1 + TOLERANCE)]
    return int(min(rows.tolist(), key=rounds.cliques))
