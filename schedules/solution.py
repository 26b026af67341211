"""What an objective's solver hands back: rounds, how often each runs, and how good that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from schedules.rounds import ChosenRound

EXCHANGE_OBJECTIVE = "exchange"
FAIR_OBJECTIVE = "fair"
MEAN_OBJECTIVE = "mean"
CONSENSUS_OBJECTIVE = "consensus"
OBJECTIVES = (EXCHANGE_OBJECTIVE, FAIR_OBJECTIVE, MEAN_OBJECTIVE, CONSENSUS_OBJECTIVE)
UNITS = {
    EXCHANGE_OBJECTIVE: "ordered pairs per second",
    FAIR_OBJECTIVE: "messages per second of every ordered pair",
    MEAN_OBJECTIVE: "seconds of a cycle",
    CONSENSUS_OBJECTIVE: "share of consensus distance removed per second",
}
PROVED = 1e-6


@dataclass(frozen=True, eq=False)
class Solution:
    """A plan in the making.

    Attributes:
        objective: one of `OBJECTIVES`.
        rounds: the rounds to run.
        shares: how often each runs, as a share of all rounds run.
        value: what the objective attains, in the unit of `UNITS`.
        bound: what no plan can beat.
    """

    objective: str
    rounds: tuple[ChosenRound, ...]
    shares: tuple[float, ...]
    value: float
    bound: float

    @property
    def gap_pct(self) -> float:
        """How far the value may be from the optimum, in percent of the bound or the value."""
        return gap_pct(self.objective, self.value, self.bound)

    @property
    def optimal(self) -> bool:
        """Whether no plan can be better, to a millionth."""
        return self.gap_pct <= 100 * PROVED


def gap_pct(objective: str, value: float, bound: float) -> float:
    """Return how far a value may be from the optimum, in percent of the larger of the two."""
    better, worse = (value, bound) if objective == MEAN_OBJECTIVE else (bound, value)
    if better <= 0 or better == inf:
        return 0.0 if better == worse else 100.0
    return max(0.0, 100.0 * (better - worse) / better)


def cycle(shares: Sequence[float], length: int) -> list[int]:
    """Return an order of rounds that keeps to their shares at every point of the cycle.

    Each place goes to the round that is furthest behind its share (stride scheduling, Waldspurger
    and Weihl, 1995); ties go to the earlier round.
    """
    run = [0.0] * len(shares)
    order = []
    for place in range(length):
        behind = [share * (place + 1) - done for share, done in zip(shares, run, strict=True)]
        chosen = max(range(len(shares)), key=lambda n: (behind[n] > 1e-12, behind[n], -n))
        run[chosen] += 1
        order.append(chosen)
    return order
