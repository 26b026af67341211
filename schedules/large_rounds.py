"""The rounds of a network too large to list: made on demand, judged, bounded and searched for.

What `schedules.rounds` is to small networks. There every partition has a row; here a partition is
looked at when some search proposes it. Bounds come from `schedules.relaxations` and hold for every
partition, ring order and choice of trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from schedules.capabilities import RING
from schedules.clusters import distances, near_order, starting_rounds
from schedules.constraints import Clock, Constraints
from schedules.cost import CliqueWork, CostModel
from schedules.network import FloatArray, IntArray
from schedules.relaxations import Relaxation, Worth
from schedules.rounds import ChosenRound
from schedules.routed import CliqueCosts
from schedules.search import Found, Judge, Partition, improved
from schedules.watch import Watch

STEPS = 6000
PROMISING = 3
ORDERED_SITES = 120


@dataclass(frozen=True, eq=False)
class Offer:
    """A round with its collective and what it takes."""

    cliques: Partition
    collective: str
    seconds: float


@dataclass(eq=False)
class LargeRounds:
    """Rounds of any network under some capabilities and limits.

    Attributes:
        model: the network and its capabilities.
        clock: how costs become seconds.
        collectives: the collectives to choose from.
        constraints: limits on every round.
        watch: says when to stop.
    """

    model: CostModel
    clock: Clock
    collectives: tuple[str, ...]
    constraints: Constraints
    watch: Watch
    _offers: dict[Partition, Offer | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many islands there are."""
        return self.model.network.size

    @property
    def largest(self) -> int:
        """The most islands a clique may have."""
        return min(self.constraints.max_clique or self.size, self.size)

    @cached_property
    def judges(self) -> dict[str, Judge]:
        """A judge for each collective."""
        return {
            name: Judge(CliqueCosts(self.model, name, self.clock), self.constraints)
            for name in self.collectives
        }

    @cached_property
    def relaxations(self) -> dict[str, Relaxation]:
        """A relaxation for each collective."""
        return {
            name: Relaxation(self.model, name, self.clock, self.constraints)
            for name in self.collectives
        }

    @cached_property
    def distance(self) -> FloatArray:
        """(N, N) symmetric delays between islands."""
        return distances(self.model.network)

    @cached_property
    def order(self) -> IntArray:
        """(N,) islands in an order in which neighbours are near."""
        return near_order(self.distance)

    def bound(self, worth: Worth) -> float:
        """Return what no round is worth per second."""
        return max(relaxed.bound(worth) for relaxed in self.relaxations.values())

    def offer(self, cliques: Partition) -> Offer | None:
        """Return the quickest collective for a partition; None when none can do it."""
        if cliques not in self._offers:
            timed = [(judge.seconds(cliques), name) for name, judge in self.judges.items()]
            seconds, name = min(timed)
            self._offers[cliques] = Offer(cliques, name, seconds) if np.isfinite(seconds) else None
        return self._offers[cliques]

    def whole(self) -> Offer | None:
        """Return the round of one clique of all."""
        return self.offer((tuple(range(self.size)),)) if self.largest >= self.size else None

    def starts(self) -> Iterator[Offer]:
        """Yield rounds of near groups of every size, as far as they are possible and time lasts."""
        found = False
        for cliques in reversed(starting_rounds(self.model.network, self.largest)):
            if found and self.half_over:
                return
            offer = self.offer(cliques)
            if offer is not None:
                found = True
                yield offer

    @property
    def half_over(self) -> bool:
        """Whether half of the time is gone, so that it is time to improve what there is."""
        limit = self.watch.limit_s
        return self.watch.over() or (limit is not None and self.watch.elapsed_s > limit / 2)

    def searched(
        self, worth: Worth, starts: Sequence[Offer], steps: int = STEPS, limit_s: float = 6.0
    ) -> list[Offer]:
        """Return improved rounds, best first: local search from the most promising starts."""
        rated = sorted(starts, key=lambda offer: (-self.rate(worth, offer), offer.cliques))
        found = []
        for number, start in enumerate(rated[:PROMISING]):
            if self.watch.over():
                break
            if start.collective == RING and self.size > ORDERED_SITES:
                continue  # a move would order two rings anew, which takes seconds at this size
            judge = self.judges[start.collective]
            better = improved(
                judge, worth, start.cliques, steps, self.watch, number, limit_s / PROMISING
            )
            if better.rate > 0:
                found.append(self._settled(better, start.collective))
        return sorted([*found, *rated], key=lambda o: (-self.rate(worth, o), o.cliques))

    def _settled(self, better: Found, collective: str) -> Offer:
        own = Offer(better.cliques, collective, better.seconds)
        other = self.offer(better.cliques)
        return other if other is not None and other.seconds < own.seconds else own

    def rate(self, worth: Worth, offer: Offer) -> float:
        """Return what a round is worth per second."""
        return sum(worth.of(clique) for clique in offer.cliques) / offer.seconds

    def chosen(self, offer: Offer) -> ChosenRound:
        """Return a round with its ring orders and trees, costed by the cost model itself."""
        costs = self.judges[offer.collective].costs
        works: list[CliqueWork] = []
        for clique in offer.cliques:
            work = costs.works(clique)
            assert work is not None
            works.append(work)
        cost = self.model.round_cost(offer.collective, works)
        members = [site for clique in offer.cliques for site in clique]
        return ChosenRound(offer.collective, tuple(works), cost, self.clock.round_s(cost, members))
