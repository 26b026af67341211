"""Local search for the round that is worth most per second, in networks of any size.

A round is a set of disjoint cliques. Five moves change it: an island joins the clique of one
nearby, two swap places, two leave to be a pair, two cliques merge, one splits around two of its
members. A move touches two cliques, so its cost is the old loads, less those of the cliques that
went, plus those of the cliques that came. Moves that do not make things worse by more than a
shrinking trifle are taken (threshold accepting, Dueck and Scheuer, J. Comput. Phys. 90, 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from schedules.constraints import Constraints
from schedules.cost import Clique
from schedules.network import FloatArray, IntArray
from schedules.relaxations import Worth
from schedules.routed import CliqueCost, CliqueCosts
from schedules.watch import Watch

NEAR = 12
THRESHOLD = 0.02
LIMIT_TOLERANCE = 1e-9

Partition = tuple[Clique, ...]


@dataclass(frozen=True, eq=False)
class Judge:
    """Says what a round takes and is worth.

    Attributes:
        costs: of cliques of one collective.
        constraints: limits on the round.
    """

    costs: CliqueCosts
    constraints: Constraints

    def allowed(self, clique: Clique) -> bool:
        """Whether a clique is of a permitted size."""
        count, most = len(clique), self.constraints.max_clique
        return count < 2 or (self.constraints.min_clique <= count and (not most or count <= most))

    def seconds(self, cliques: Iterable[Clique]) -> float:
        """Return the time of a round, inf where it breaks a limit."""
        found = [clique for clique in cliques if len(clique) >= 2]
        if not found or not all(self.allowed(clique) for clique in found):
            return np.inf
        costs = [self.costs.of(clique) for clique in found]
        return self.time(np.sum([cost.units for cost in costs], axis=0), costs, found)

    def time(
        self, units: FloatArray, costs: Sequence[CliqueCost], cliques: Sequence[Clique]
    ) -> float:
        """Return the time of a round whose loads are added up already."""
        clock, capabilities = self.costs.clock, self.costs.model.capabilities
        groups = sum(cost.groups for cost in costs)
        if capabilities.max_groups is not None and groups > capabilities.max_groups:
            return np.inf
        latency = max((cost.latency_ns for cost in costs), default=0)
        compute = 0.0
        if clock.compute_s.any():
            compute = max((float(clock.compute_s[list(c)].max()) for c in cliques), default=0.0)
        seconds = float(clock.seconds(units.max(), np.float64(latency), np.float64(compute)))
        most = self.constraints.max_round_s
        return np.inf if most is not None and seconds > most * (1 + LIMIT_TOLERANCE) else seconds


@dataclass(frozen=True, eq=False)
class Found:
    """The best round of a search."""

    cliques: Partition
    worth: float
    seconds: float

    @property
    def rate(self) -> float:
        """Worth per second."""
        return self.worth / self.seconds if np.isfinite(self.seconds) else 0.0


class _State:
    """A round with its loads added up."""

    def __init__(self, judge: Judge, worth: Worth, cliques: Iterable[Clique]) -> None:
        self.judge, self.worth = judge, worth
        self.cliques: dict[int, Clique] = {}
        self.home = np.full(judge.costs.model.network.size, -1, dtype=np.int64)
        self._next = 0
        for clique in cliques:
            self._add(clique)
        for site in np.flatnonzero(self.home < 0).tolist():
            self._add((site,))
        self.units = self._units()
        self.total = sum(worth.of(clique) for clique in self.cliques.values())
        self.rate = self._rate(self.units, self.total, self.cliques.values())

    def _add(self, clique: Clique) -> None:
        self.cliques[self._next] = clique
        self.home[list(clique)] = self._next
        self._next += 1

    def _units(self) -> FloatArray:
        parts = [self.judge.costs.of(c).units for c in self.cliques.values() if len(c) >= 2]
        none = np.zeros(len(self.judge.costs.model.slowness))
        return np.sum(parts, axis=0) if parts else none

    def _rate(self, units: FloatArray, total: float, cliques: Iterable[Clique]) -> float:
        several = [clique for clique in cliques if len(clique) >= 2]
        if not several:
            return 0.0
        costs = [self.judge.costs.of(clique) for clique in several]
        seconds = self.judge.time(units, costs, several)
        return float(total / seconds) if np.isfinite(seconds) else 0.0

    def of(self, site: int) -> Clique:
        return self.cliques[int(self.home[site])]

    def attempt(self, came: Sequence[Clique], least: float) -> bool:
        """Replace the cliques of some islands if the rate is at least so much then."""
        came = [clique for clique in came if clique]
        went = {int(self.home[site]) for clique in came for site in clique}
        if not all(self.judge.allowed(clique) for clique in came):
            return False
        fresh = [self.judge.costs.of(c) for c in came if len(c) >= 2]
        if not all(np.isfinite(cost.units[0]) for cost in fresh):
            return False
        units = self.units.copy()
        for number in went:
            if len(self.cliques[number]) >= 2:
                units -= self.judge.costs.of(self.cliques[number]).units
        for cost in fresh:
            units += cost.units
        total = self.total - sum(self.worth.of(self.cliques[n]) for n in went)
        total += sum(self.worth.of(clique) for clique in came)
        kept = [clique for number, clique in self.cliques.items() if number not in went]
        rate = self._rate(units, total, [*kept, *came])
        if rate < least:
            return False
        for number in went:
            del self.cliques[number]
        for clique in came:
            self._add(clique)
        self.units, self.total, self.rate = units, total, rate
        return True

    def snapshot(self) -> Partition:
        return tuple(sorted(clique for clique in self.cliques.values() if len(clique) >= 2))


def improved(
    judge: Judge,
    worth: Worth,
    start: Iterable[Clique],
    steps: int,
    watch: Watch,
    seed: int = 0,
    limit_s: float = np.inf,
) -> Found:
    """Return the best round that a search from a start meets.

    Args:
        judge: says what rounds cost.
        worth: what is sought.
        start: cliques to begin with.
        steps: moves to try.
        watch: may end the search early.
        seed: of the moves.
        limit_s: longest time to search.
    """
    began = watch.elapsed_s
    random = np.random.default_rng(seed)
    state = _State(judge, worth, start)
    best, best_rate = state.snapshot(), state.rate
    near = _near(judge.costs, worth)
    for step in range(steps):
        if watch.over() or watch.elapsed_s - began > limit_s:
            break
        slack = THRESHOLD * max(0.0, 1 - 1.3 * step / steps)
        if state.attempt(_proposal(state, near, random), state.rate * (1 - slack)):
            if state.rate > best_rate * (1 + 1e-12):
                best, best_rate = state.snapshot(), state.rate
            elif slack == 0.0 and state.rate < best_rate * (1 - THRESHOLD):
                state = _State(judge, worth, best)
    return Found(best, sum(worth.of(c) for c in best), judge.seconds(best))


def _near(costs: CliqueCosts, worth: Worth) -> IntArray:
    """Return (N, NEAR) islands worth meeting: near ones, and dear ones where worth differs."""
    network = costs.model.network
    delay = (network.delay_ns + network.delay_ns.T).astype(np.float64)
    np.fill_diagonal(delay, np.inf)
    count = min(NEAR, network.size - 1)
    if worth.uniform:
        return np.argsort(delay, axis=1, kind="stable")[:, :count]
    scale = float(delay[np.isfinite(delay)].mean()) / 4
    dear = worth.pairs / (scale + delay)
    half = count // 2
    near = np.argsort(delay, axis=1, kind="stable")[:, : count - half]
    return np.hstack([near, np.argsort(-dear, axis=1, kind="stable")[:, :half]])


Move = Callable[[_State, int, int, np.random.Generator], list[Clique]]


def _proposal(state: _State, near: IntArray, random: np.random.Generator) -> list[Clique]:
    site = int(random.integers(len(near)))
    other = int(near[site, random.integers(near.shape[1])])
    move = _MOVES[int(random.choice(len(_MOVES), p=_CHANCES))]
    return move(state, site, other, random)


def _join(state: _State, site: int, other: int, random: np.random.Generator) -> list[Clique]:
    here, there = state.of(site), state.of(other)
    if here == there:
        return [_without(here, site), (site,)]
    return [_without(here, site), _with(there, site)]


def _swap(state: _State, site: int, other: int, random: np.random.Generator) -> list[Clique]:
    here, there = state.of(site), state.of(other)
    if here == there:
        return _split(state, site, other, random)
    guest = there[int(random.integers(len(there)))]
    return [_with(_without(here, site), guest), _with(_without(there, guest), site)]


def _pair(state: _State, site: int, other: int, random: np.random.Generator) -> list[Clique]:
    here, there = state.of(site), state.of(other)
    if here == there:
        return [_without(_without(here, site), other), _with((site,), other)]
    return [_without(here, site), _without(there, other), _with((site,), other)]


def _merge(state: _State, site: int, other: int, random: np.random.Generator) -> list[Clique]:
    here, there = state.of(site), state.of(other)
    return _split(state, site, other, random) if here == there else [tuple(sorted(here + there))]


def _split(state: _State, site: int, other: int, random: np.random.Generator) -> list[Clique]:
    members = np.array(state.of(site))
    rest = members[members != site]
    if not len(rest):
        return []
    rival = int(rest[int(random.integers(len(rest)))])
    delay = state.judge.costs.model.network.delay_ns
    nearer = delay[members, site] <= delay[members, rival]
    nearer[members == rival] = False
    return [tuple(members[nearer].tolist()), tuple(members[~nearer].tolist())]


_MOVES: tuple[Move, ...] = (_join, _swap, _pair, _merge, _split)
_CHANCES = (0.4, 0.3, 0.1, 0.1, 0.1)


def _without(clique: Clique, site: int) -> Clique:
    return tuple(member for member in clique if member != site)


def _with(clique: Clique, site: int) -> Clique:
    return tuple(sorted((*clique, site)))
