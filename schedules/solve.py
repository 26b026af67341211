"""From a problem to a solution: every round up to a dozen islands, a search above.

Up to `ENUMERATED_SITES` all partitions are laid out and the solver of the objective proves its
choice (`schedules.rounds`). Larger networks go to `schedules.large`, which searches and bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from schedules.capabilities import RING
from schedules.consensus import fastest_consensus
from schedules.exchange import most_exchange
from schedules.fair import fairest
from schedules.large import plan_large
from schedules.mean import least_mean
from schedules.partitions import ENUMERATED_SITES
from schedules.problem import Problem
from schedules.reference import ring_of_everyone, worth_of_everyone
from schedules.rounds import FULLY_TABLED_SITES, ChosenRound, RoundSet
from schedules.solution import (
    CONSENSUS_OBJECTIVE,
    EXCHANGE_OBJECTIVE,
    FAIR_OBJECTIVE,
    MEAN_OBJECTIVE,
    Solution,
)
from schedules.watch import Watch

LIKELY_SHORTEST = 64
ENUMERATING_SHARE = 0.75

SOLVERS: dict[str, Callable[[RoundSet, Watch], Solution | None]] = {
    EXCHANGE_OBJECTIVE: most_exchange,
    FAIR_OBJECTIVE: fairest,
    MEAN_OBJECTIVE: least_mean,
    CONSENSUS_OBJECTIVE: fastest_consensus,
}


@dataclass(frozen=True, eq=False)
class Solved:
    """A solution, how it was found, and the ring of everyone to compare it with."""

    solution: Solution
    method: str
    ring: ChosenRound


def solve(problem: Problem, watch: Watch) -> Solved | None:
    """Return the best plan found, with what no plan can beat.

    Returns:
        None when no plan keeps to the constraints, or none was found before the watch was over.
    """
    found = _found(problem, watch)
    if found is None:
        return None
    solution, method = found
    ring = ring_of_everyone(problem, solution.rounds)
    if not solution.optimal and RING in problem.collectives:
        solution = _no_worse_than(problem, solution, ring)
    return Solved(solution, method, ring)


def _found(problem: Problem, watch: Watch) -> tuple[Solution, str] | None:
    """Solve by enumeration or by search; ten to twelve islands by both, unless one is a proof."""
    if not enumerable(problem):
        return _searched(problem, watch)
    if problem.network.size <= FULLY_TABLED_SITES:
        return _enumerated(problem, watch)
    with watch.limited(ENUMERATING_SHARE):
        found = _enumerated(problem, watch)
    if watch.interrupted or (found is not None and found[0].optimal):
        return found
    searched = _searched(problem, watch)
    if found is None or searched is None:
        return found or searched
    return _merged(found, searched)


def _merged(one: tuple[Solution, str], other: tuple[Solution, str]) -> tuple[Solution, str]:
    """Return the better plan of two for the same problem, with the better of their bounds.

    Both bounds hold, so no plan beats the closer one.
    """
    shorter = one[0].objective == MEAN_OBJECTIVE
    (plan, method), second = sorted(
        (one, other), key=lambda found: found[0].value, reverse=not shorter
    )
    closer = max if shorter else min
    return replace(plan, bound=closer(plan.bound, second[0].bound)), method


def _searched(problem: Problem, watch: Watch) -> tuple[Solution, str] | None:
    solution = plan_large(
        problem.model,
        problem.clock,
        problem.collectives,
        problem.constraints,
        problem.objective,
        watch,
    )
    return None if solution is None else (solution, "local search with a lower bound")


def _no_worse_than(problem: Problem, solution: Solution, ring: ChosenRound) -> Solution:
    """Return the ring of everyone where a search has not come as far as that."""
    limits, size = problem.constraints, problem.network.size
    too_large = limits.max_clique is not None and limits.max_clique < size
    if too_large or (limits.max_round_s is not None and ring.seconds > limits.max_round_s):
        return solution
    value = worth_of_everyone(problem.objective, size, ring.seconds)
    shorter = problem.objective == MEAN_OBJECTIVE
    if (value >= solution.value) if shorter else (value <= solution.value):
        return solution
    return replace(solution, rounds=(ring,), shares=(1.0,), value=value)


def enumerable(problem: Problem) -> bool:
    """Whether every round can be looked at; rings alone are tabled for fewer islands."""
    rings_only = problem.collectives == (RING,)
    return problem.network.size <= (FULLY_TABLED_SITES if rings_only else ENUMERATED_SITES)


def _enumerated(problem: Problem, watch: Watch) -> tuple[Solution, str] | None:
    watch.tell("listing rounds", 0, 1)
    rounds = RoundSet.of(problem.model, problem.clock, problem.collectives, problem.constraints)
    watch.tell("listing rounds", 1, 1)
    solution = SOLVERS[problem.objective](rounds, watch)
    if solution is None and watch.over():
        solution = _everyone(rounds, problem.objective)
    if solution is None:
        return None
    chosen = tuple(
        replace(one, fractional_units=rounds.fractional_units(one)) for one in solution.rounds
    )
    method = f"branch and bound over all {len(rounds.masks):,} rounds"
    return replace(solution, rounds=chosen), method


def shortest_round_s(problem: Problem) -> float:
    """Return the least time of any round of an enumerable problem, as its tables have it."""
    rounds = RoundSet.of(problem.model, problem.clock, problem.collectives, problem.constraints)
    likely = np.argsort(rounds.floor_s, kind="stable")[:LIKELY_SHORTEST]
    rounds.evaluate(likely)
    return float(rounds.best_s[likely].min())


def _everyone(rounds: RoundSet, objective: str) -> Solution | None:
    """Return the plan there is when a search is over before it began: one clique of everyone."""
    size = rounds.model.network.size
    rows = np.flatnonzero(rounds.masks[:, 0] == (1 << size) - 1)
    if not len(rows):
        return None
    row = int(rows[0])
    rounds.evaluate(rows)
    seconds = float(rounds.best_s[row])
    if not np.isfinite(seconds):
        return None
    value = worth_of_everyone(objective, size, seconds)
    bound = _most_any_round(rounds, objective)
    return Solution(objective, (rounds.chosen(row),), (1.0,), value, bound)


def _most_any_round(rounds: RoundSet, objective: str) -> float:
    """Return a bound for every objective from the floors of single rounds.

    No round lets a pair meet twice, or removes more than all of the consensus distance, and no
    cycle to the mean is shorter than a round.
    """
    if objective == EXCHANGE_OBJECTIVE:
        return float((rounds.pairs / rounds.floor_s).max())
    fastest = float(rounds.floor_s.min())
    return fastest if objective == MEAN_OBJECTIVE else 1 / fastest
