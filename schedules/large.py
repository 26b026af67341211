"""Plans for networks of any size: good ones soon, with a bound on what better ones could attain.

Up to a dozen islands `schedules.rounds` lists every round and proves its plans. Here rounds are
built and improved by search, bounds come from relaxations, and the gap between the two is always
part of the answer. It is often nothing: a full clique, say, may be proved best at any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedules.constraints import Clock, Constraints
from schedules.cost import CostModel
from schedules.large_mean import least_large_mean
from schedules.large_rotation import fairest_large, fastest_large_consensus
from schedules.large_rounds import LargeRounds
from schedules.relaxations import Worth
from schedules.solution import (
    CONSENSUS_OBJECTIVE,
    EXCHANGE_OBJECTIVE,
    FAIR_OBJECTIVE,
    MEAN_OBJECTIVE,
    Solution,
    gap_pct,
)
from schedules.watch import Watch

GOOD_GAP_PCT = 0.01


def plan_large(
    model: CostModel,
    clock: Clock,
    collectives: Sequence[str],
    constraints: Constraints,
    objective: str,
    watch: Watch,
) -> Solution | None:
    """Return a plan for a network of any size, with a bound; None when no plan was found.

    Args:
        model: the network and its capabilities.
        clock: how costs become seconds.
        collectives: the collectives to choose from.
        constraints: limits on every round.
        objective: one of `schedules.solution.OBJECTIVES`.
        watch: may end the search; the best so far is returned then.
    """
    rounds = LargeRounds(model, clock, tuple(collectives), constraints, watch)
    return _SOLVERS[objective](rounds)


def most_large_exchange(rounds: LargeRounds) -> Solution | None:
    """Return the best round found for `exchange`."""
    worth = Worth.of_meetings(rounds.size)
    bound = rounds.bound(worth)
    offers = list(rounds.starts())
    best = max((rounds.rate(worth, offer) for offer in offers), default=0.0)
    if gap_pct(EXCHANGE_OBJECTIVE, best, bound) > GOOD_GAP_PCT and not rounds.watch.over():
        offers = rounds.searched(worth, offers)
    if not offers:
        return None
    chosen = rounds.chosen(max(offers, key=lambda offer: rounds.rate(worth, offer)))
    value = chosen.cost.pairs / chosen.seconds
    return Solution(EXCHANGE_OBJECTIVE, (chosen,), (1.0,), value, max(bound, value))


_SOLVERS: dict[str, Callable[[LargeRounds], Solution | None]] = {
    EXCHANGE_OBJECTIVE: most_large_exchange,
    FAIR_OBJECTIVE: fairest_large,
    MEAN_OBJECTIVE: least_large_mean,
    CONSENSUS_OBJECTIVE: fastest_large_consensus,
}
