"""The `fair` objective: the largest rate that every ordered pair of islands attains.

    maximize r   such that   Sum over rounds in which i and j meet of y_P >= r   for every i, j
                             Sum y_P t_P = 1

Its dual prices each pair of islands; the score of a clique is the sum of its pairs' prices.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from schedules.exchange import most_exchange
from schedules.network import FloatArray
from schedules.partitions import MaskArray, cliques
from schedules.rotation import Priced, best_rotation
from schedules.rounds import FULLY_TABLED_SITES, TOLERANCE, RoundSet
from schedules.solution import FAIR_OBJECTIVE, Solution
from schedules.watch import Watch

LEAST_RATE = 1e-9


def fairest(rounds: RoundSet, watch: Watch) -> Solution | None:
    """Return the rotation of largest least rate; None when some pair can never meet."""
    size = rounds.model.network.size

    def master(masks: list[MaskArray], seconds: FloatArray) -> Priced:
        meetings = np.array([meetings_of(cliques(row), size) for row in masks])
        value, rates, prices = solve_rates(meetings, seconds)
        return Priced(value, rates, pair_scores(prices, size))

    on_average = _met_on_average(rounds, watch) if size > FULLY_TABLED_SITES else np.inf
    rotation = best_rotation(rounds, FAIR_OBJECTIVE, master, watch)
    if rotation is None or rotation.value <= 0:
        return None
    used = [n for n, rate in enumerate(rotation.rates) if rate > LEAST_RATE * sum(rotation.rates)]
    alone = _alone(rounds, rotation.rows, rotation.value)
    if alone is not None:
        chosen = [rounds.chosen(alone)]
        shares: tuple[float, ...] = (1.0,)
    else:
        total = sum(rotation.rates[n] for n in used)
        chosen = [rounds.chosen(rotation.rows[n]) for n in used]
        shares = tuple(rotation.rates[n] / total for n in used)
    bound = max(min(rotation.bound, on_average), rotation.value)
    return Solution(FAIR_OBJECTIVE, tuple(chosen), shares, rotation.value, bound)


def _met_on_average(rounds: RoundSet, watch: Watch) -> float:
    """Return the most meetings per second of the average pair, and solve everyone's one clique.

    No pair is met more often than pairs are on average. Where rounds are too many for the rotation
    to end with a proof, this often proves that one clique of all is best, or nearly.
    """
    size = rounds.model.network.size
    everyone = (1 << size) - 1
    for row in np.flatnonzero(rounds.masks[:, 0] == everyone).tolist():
        rounds.refine(row)
    most = most_exchange(rounds, watch)
    return np.inf if most is None else most.bound / (size * (size - 1))


def _alone(rounds: RoundSet, rows: tuple[int, ...], value: float) -> int | None:
    """Return a round that attains the value by itself: one round is better than a mixture."""
    everyone = (1 << rounds.model.network.size) - 1
    for row in rows:
        whole = int(rounds.masks[row, 0]) == everyone
        if whole and 1 / rounds.best_s[row] >= value * (1 - TOLERANCE):
            return row
    return None


def meetings_of(found: list[tuple[int, ...]], size: int) -> FloatArray:
    """Return (pairs,) ones where two islands meet, pairs in the order of `np.triu_indices`."""
    meets = np.zeros((size, size))
    for clique in found:
        meets[np.ix_(clique, clique)] = 1
    return np.asarray(meets[np.triu_indices(size, 1)], dtype=np.float64)


def solve_rates(meetings: FloatArray, seconds: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Solve the linear program for some rounds.

    Args:
        meetings: (rounds, pairs) ones where two islands meet.
        seconds: (rounds,) time of each.

    Returns:
        The least rate, the rounds a second of each round, and the pairs' prices.
    """
    count, pairs = meetings.shape
    result = linprog(
        np.array([0.0] * count + [-1.0]),
        A_ub=np.hstack([-meetings.T, np.ones((pairs, 1))]),
        b_ub=np.zeros(pairs),
        A_eq=np.array([[*seconds.tolist(), 0.0]]),
        b_eq=np.ones(1),
        method="highs",
    )
    rates = np.asarray(result.x[:-1], dtype=np.float64)
    return float(result.x[-1]), rates, np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)


def pair_scores(prices: FloatArray, size: int) -> FloatArray:
    """Return (2^n,) the prices of all pairs within every mask, added up."""
    price = np.zeros((size, size))
    price[np.triu_indices(size, 1)] = prices
    price += price.T
    scores = np.zeros(1 << size)
    beside = np.zeros(1 << size)
    for site in range(size):
        low, high = slice(0, 1 << site), slice(1 << site, 2 << site)
        for other in range(site):
            beside[1 << other : 2 << other] = beside[: 1 << other] + price[site, other]
        scores[high] = scores[low] + beside[low]
        beside[:] = 0
    return scores
