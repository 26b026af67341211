"""The ring of all islands, round after round: what people use today, and the least on offer."""

from __future__ import annotations

from schedules.capabilities import RING
from schedules.cost import Clique, CliqueWork
from schedules.joint_rings import JointRings
from schedules.problem import Problem
from schedules.ring import EXACT_RING_MEMBERS, best_ring
from schedules.rounds import ChosenRound
from schedules.solution import EXCHANGE_OBJECTIVE, MEAN_OBJECTIVE


def ring_of_everyone(problem: Problem) -> ChosenRound:
    """Return the ring of all islands of least round time, exact up to `EXACT_RING_MEMBERS`."""
    everyone = tuple(range(problem.network.size))
    rings = [_round(problem, order) for order in _orders(problem, everyone)]
    return min(rings, key=lambda ring: ring.seconds)


def _orders(problem: Problem, everyone: Clique) -> list[Clique]:
    if len(everyone) <= EXACT_RING_MEMBERS:
        return [JointRings(problem.network, problem.clock).best([everyone])[1][0]]
    styles = (False, True) if problem.count_latency else (False,)
    return [best_ring(problem.network, everyone, latency_first) for latency_first in styles]


def _round(problem: Problem, order: Clique) -> ChosenRound:
    works = (CliqueWork(order),)
    cost = problem.model.round_cost(RING, works)
    return ChosenRound(RING, works, cost, problem.clock.round_s(cost, order))


def worth_of_everyone(objective: str, islands: int, seconds: float) -> float:
    """Return what rounds of one clique of everyone attain for an objective."""
    if objective == MEAN_OBJECTIVE:
        return seconds
    return (islands * (islands - 1) if objective == EXCHANGE_OBJECTIVE else 1) / seconds
