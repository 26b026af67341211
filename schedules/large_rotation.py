"""Rotations of rounds without enumeration: `fair` and `consensus` in networks of any size.

As in `schedules.rotation`, a master problem over a few rounds yields prices, prices turn pairs of
islands into worth, and a round worth more than its time is worth adding. What is different: rounds
are found by local search, not by looking at all of them, and what no round is worth at those prices
is bounded by a relaxation. That makes every step's bound valid, but it may stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack

from schedules.all_pairs import all_pairs_needs
from schedules.averaging import averaging_bound
from schedules.clusters import across, near_groups
from schedules.consensus import removal, widest_gap, zero_mean_basis
from schedules.large_rounds import LargeRounds, Offer
from schedules.network import FloatArray, IntArray
from schedules.relaxations import ROUTED_SITES, Worth
from schedules.search import Partition
from schedules.solution import (
    CONSENSUS_OBJECTIVE,
    FAIR_OBJECTIVE,
    Solution,
    gap_pct,
)

LEAST_SHARE = 1e-6
GOOD_GAP_PCT = 0.01
MOST_STEPS = 60
SEARCH_S = 3.0
PRICED = 6
PRICED_PAIRS_SITES = 130
CONE_SITES = 30
CUTTING_STEPS = 60
ADDED_DIRECTIONS = 4
PLAIN_SITES = 120


@dataclass(frozen=True, eq=False)
class Answer:
    """What a master problem says: value, rounds a second of each, and what pairs are worth."""

    value: float
    rates: FloatArray
    worth: Worth


Master = Callable[[Sequence[Offer]], Answer]


@dataclass(eq=False)
class _Rotation:
    """A column generation over offers."""

    rounds: LargeRounds
    objective: str
    master: Master
    bound: float
    offers: list[Offer]
    value: float = 0.0
    best: tuple[tuple[Offer, ...], FloatArray] = field(default=((), np.zeros(0)))

    def run(self) -> None:
        """Add rounds until the gap closes, the time is over, or nothing is found any more."""
        for step in range(MOST_STEPS):
            if not self.offers or (self.value > 0 and self.rounds.watch.over()):
                return
            answer = self.master(self.offers)
            if answer.value > self.value:
                self.value, self.best = answer.value, (tuple(self.offers), answer.rates)
            self.bound = min(self.bound, self.rounds.bound(answer.worth))
            gap = gap_pct(self.objective, self.value, self.bound)
            self.rounds.watch.tell("rotating rounds", step, 0, gap)
            if gap <= GOOD_GAP_PCT or self.rounds.watch.over() or not self._grow(answer):
                return

    def _grow(self, answer: Answer) -> bool:
        """Search for rounds worth more than their time; say whether any was found."""
        rounds, worth = self.rounds, answer.worth
        known = {(offer.cliques, offer.collective) for offer in self.offers}
        left = rounds.watch.left_s
        limit = SEARCH_S if left is None else min(SEARCH_S, left / 4)
        found = rounds.searched(worth, self.offers, limit_s=limit)
        fresh = [
            offer
            for offer in found
            if (offer.cliques, offer.collective) not in known
            and rounds.rate(worth, offer) > answer.value * (1 + 1e-6)
        ]
        self.offers += fresh[:PRICED]
        return bool(fresh)

    def solution(self) -> Solution | None:
        """Return the best rotation found."""
        offers, rates = self.best
        if self.value <= 0:
            return None
        used = np.flatnonzero(rates > LEAST_SHARE * rates.sum()).tolist()
        alone = _alone(self.rounds, offers, self.objective, self.value)
        if alone is not None:
            offers, rates, used = (alone,), np.ones(1), [0]
        shares = tuple(float(rates[n] / rates[used].sum()) for n in used)
        chosen = tuple(self.rounds.chosen(offers[n]) for n in used)
        bound = max(self.bound, self.value)
        return Solution(self.objective, chosen, shares, self.value, bound)


def _alone(
    rounds: LargeRounds, offers: Sequence[Offer], objective: str, value: float
) -> Offer | None:
    """Return a round of all islands that attains the value by itself."""
    for offer in offers:
        if len(offer.cliques[0]) == rounds.size and 1 / offer.seconds >= value * (1 - 1e-9):
            return offer
    return None


def starting_offers(rounds: LargeRounds) -> list[Offer]:
    """Return rounds that bring all islands together: one of all, grids, tournaments of groups."""
    size, most = rounds.size, rounds.largest
    found: list[Partition] = [(tuple(range(size)),)] if most >= size else []
    if size <= PLAIN_SITES or not found:
        found += _grids(rounds)
        for members in _group_sizes(size, most):
            found += tournament(rounds.order, members)
    offers = []
    for cliques in dict.fromkeys(found):
        offers.append(rounds.offer(cliques))
        if most >= size and offers[0] is not None and rounds.half_over:
            break
    return [offer for offer in offers if offer is not None]


def _grids(rounds: LargeRounds) -> list[Partition]:
    size, most = rounds.size, rounds.largest
    found: list[Partition] = []
    for members in range(2, size // 2 + 1):
        if size % members == 0 and max(members, size // members) <= most:
            rows = near_groups(rounds.order, members)
            found += [rows, across(rows, rounds.distance)]
    return found


def _group_sizes(size: int, most: int) -> list[int]:
    sizes = {max(1, most // 2), max(1, most // 4), 2, 1}
    return sorted((s for s in sizes if 2 * s <= most and size // s >= 3), reverse=True)


def tournament(order: IntArray, members: int) -> list[Partition]:
    """Return rounds in which every two near groups of so many meet once, as in a tournament.

    The circle method: one group stays, the others move on a place every round.
    """
    groups = [list(g) for g in np.array_split(order, -(-len(order) // members))]
    if len(groups) % 2:
        groups.append([])
    count, found = len(groups), []
    places = list(range(count))
    for _ in range(count - 1):
        pairs = [(places[n], places[count - 1 - n]) for n in range(count // 2)]
        cliques = [tuple(sorted(int(s) for s in groups[a] + groups[b])) for a, b in pairs]
        found.append(tuple(sorted(clique for clique in cliques if len(clique) >= 2)))
        places = [places[0], places[-1], *places[1:-1]]
    return found


# --- fair -----------------------------------------------------------------------------------------


def fairest_large(rounds: LargeRounds) -> Solution | None:
    """Return a rotation of large least rate of meetings; None when some pair cannot meet."""
    size = rounds.size
    bound = fair_bound(rounds)
    whole = rounds.whole()
    offers = [whole] if whole is not None else starting_offers(rounds)
    small = size <= PRICED_PAIRS_SITES
    rotation = _Rotation(rounds, FAIR_OBJECTIVE, _fair_master(size, small), bound, offers)
    if whole is not None and gap_pct(FAIR_OBJECTIVE, 1 / whole.seconds, bound) > 1.0 and small:
        rotation.offers = starting_offers(rounds)
    if small and not rounds.watch.over():
        rotation.run()
    elif offers:
        answer = _equal_rates(size, offers)
        rotation.value, rotation.best = answer.value, (tuple(offers), answer.rates)
    return rotation.solution()


def _meetings(offer: Offer, size: int) -> FloatArray:
    meets = np.zeros((size, size), dtype=np.bool_)
    for clique in offer.cliques:
        meets[np.ix_(clique, clique)] = True
    return meets[np.triu_indices(size, 1)].astype(np.float64)


def _fair_master(size: int, small: bool) -> Master:
    def master(offers: Sequence[Offer]) -> Answer:
        return _priced_rates(size, offers) if small else _equal_rates(size, offers)

    return master


def _priced_rates(size: int, offers: Sequence[Offer]) -> Answer:
    """Solve the linear program of `schedules.fair` for some rounds."""
    meetings = csr_matrix(np.array([_meetings(offer, size) for offer in offers]).T)
    seconds = np.array([offer.seconds for offer in offers])
    scale = float(seconds.min())
    pairs, count = meetings.shape
    result = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=hstack([-meetings, csr_matrix(np.ones((pairs, 1)))]).tocsr(),
        b_ub=np.zeros(pairs),
        A_eq=np.append(seconds / scale, 0.0)[None, :],
        b_eq=np.ones(1),
        method="highs",
    )
    prices = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    price = np.zeros((size, size))
    price[np.triu_indices(size, 1)] = prices / max(float(prices.sum()), 1e-300)
    worth = Worth((price + price.T) / 2)
    rates = np.asarray(result.x[:-1], dtype=np.float64) / scale
    return Answer(float(result.x[-1]) / scale, rates, worth)


def _equal_rates(size: int, offers: Sequence[Offer]) -> Answer:
    """Run the quickest rounds that together let all pairs meet equally often."""
    worth = Worth.of_meetings(size)
    best = Answer(0.0, np.zeros(len(offers)), worth)
    for chosen in _families(size, offers):
        total = sum(offers[n].seconds for n in chosen)
        if 1 / total > best.value:
            rates = np.zeros(len(offers))
            rates[chosen] = 1 / total
            best = Answer(1 / total, rates, worth)
    return best


def _families(size: int, offers: Sequence[Offer]) -> list[list[int]]:
    """Return choices of rounds in which all pairs meet: greedily, most new pairs per second."""
    met = [np.zeros((size, size), dtype=np.bool_)]
    chosen: list[int] = []
    left = set(range(len(offers)))
    while left and not met[0].all():
        gains = {n: _gain(met[0], offers[n]) for n in left}
        best = max(left, key=lambda n: (gains[n], -n))
        if gains[best] <= 0:
            return []
        for clique in offers[best].cliques:
            met[0][np.ix_(clique, clique)] = True
        np.fill_diagonal(met[0], True)
        chosen.append(best)
        left.remove(best)
    return [chosen] if met[0].all() else []


def _gain(met: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], offer: Offer) -> float:
    new = sum(int((~met[np.ix_(clique, clique)]).sum()) - len(clique) for clique in offer.cliques)
    return max(new, 0) / offer.seconds


# --- consensus ------------------------------------------------------------------------------------


def fastest_large_consensus(rounds: LargeRounds) -> Solution | None:
    """Return a rotation of large spectral gap per second."""
    size = rounds.size
    bound = averaging_bound(rounds)
    whole = rounds.whole()
    offers = [whole] if whole is not None and size > PLAIN_SITES else starting_offers(rounds)
    rotation = _Rotation(rounds, CONSENSUS_OBJECTIVE, _consensus_master(size), bound, offers)
    if whole is not None:
        rotation.value, rotation.best = 1 / whole.seconds, ((whole,), np.ones(1))
    close = gap_pct(CONSENSUS_OBJECTIVE, rotation.value, bound) <= GOOD_GAP_PCT
    if (size <= PLAIN_SITES and not close) or whole is None:
        rotation.run()
    return rotation.solution()


def _consensus_master(size: int) -> Master:
    def master(offers: Sequence[Offer]) -> Answer:
        removals = np.array([removal(list(offer.cliques), size) for offer in offers])
        seconds = np.array([offer.seconds for offer in offers])
        rates, weight = _solved(removals, seconds)
        value = least_eigenvalue(np.tensordot(rates, removals, axes=1))[0]
        return Answer(value, rates, Worth.of_removal(weight))

    return master


def _solved(removals: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve the semidefinite program, by cutting planes where the cone is too large or fails."""
    if removals.shape[1] <= CONE_SITES:
        try:
            with np.errstate(invalid="ignore"):
                rates, weight = widest_gap(removals, seconds)
            if np.isfinite(rates).all() and np.isfinite(weight).all():
                return rates, weight
        except np.linalg.LinAlgError:
            pass
    return _cut_gap(removals, seconds)


def least_eigenvalue(together: FloatArray) -> tuple[float, FloatArray]:
    """Return the least eigenvalue on vectors of zero mean, and the vectors of the least few."""
    size = len(together)
    lifted = together + np.full((size, size), float(np.trace(together)) / size)
    values, vectors = np.linalg.eigh((lifted + lifted.T) / 2)
    return float(values[0]), np.asarray(vectors[:, :ADDED_DIRECTIONS], dtype=np.float64)


def _cut_gap(removals: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve the same program by cutting planes: what each direction of disagreement loses.

    Only directions that were the slowest so far count, so the weight is one of rank few; Kelley
    (J. SIAM 8, 1960).
    """
    size, scale = removals.shape[1], float(seconds.min())
    directions = zero_mean_basis(size)[:, :1]
    rates = np.full(len(seconds), 1 / float(seconds.sum()))
    best = (-np.inf, rates)
    weights = np.ones(1)
    for _ in range(CUTTING_STEPS):
        value, slowest = least_eigenvalue(np.tensordot(rates, removals, axes=1))
        if value > best[0]:
            best = (value, rates)
        directions = np.hstack([directions, slowest])
        lost = np.einsum("ik,rij,jk->kr", directions, removals, directions, optimize=True)
        rates, weights, most = _best_mixture(lost, seconds / scale)
        rates = rates / scale
        if most / scale <= best[0] * (1 + 1e-4):
            break
    weight = (directions[:, : len(weights)] * weights) @ directions[:, : len(weights)].T
    return best[1], np.asarray(weight / max(float(np.trace(weight)), 1e-300), dtype=np.float64)


def _best_mixture(lost: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    count = len(seconds)
    result = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=np.hstack([-lost, np.ones((len(lost), 1))]),
        b_ub=np.zeros(len(lost)),
        A_eq=np.append(seconds, 0.0)[None, :],
        b_eq=np.ones(1),
        method="highs",
    )
    weights = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return np.asarray(result.x[:-1], dtype=np.float64), weights, float(result.x[-1])


# --- what nothing can beat, for fair --------------------------------------------------------------


def fair_bound(rounds: LargeRounds) -> float:
    """Return the smallest of several bounds on the rate at which every pair can meet.

    At any worth of pairs that adds up to one, the least rate of a pair is no more than what rounds
    are worth per second. Equal worth is tried; and for each collective the worth that shows what
    all pairs need of its scarcest resource and of the longest delay.
    """
    size = rounds.size
    everything = Worth(Worth.of_meetings(size).pairs / (size * (size - 1)))
    least = rounds.bound(everything)
    if size > ROUTED_SITES and len(rounds.collectives) > 1:
        return least
    for need in all_pairs_needs(rounds.model, rounds.clock, rounds.collectives):
        others = [
            relaxed.bound(need.worth)
            for name, relaxed in rounds.relaxations.items()
            if name != need.collective
        ]
        least = min(least, max([need.rate, *others]))
    return least
