"""The ring of all islands, round after round: what people use today, and the least on offer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedules.capabilities import RING
from schedules.cost import Clique, CliqueWork
from schedules.joint_rings import JointRings
from schedules.problem import Problem
from schedules.ring import EXACT_RING_MEMBERS, best_ring
from schedules.rounds import ChosenRound
from schedules.routed import RouteTable
from schedules.solution import EXCHANGE_OBJECTIVE, MEAN_OBJECTIVE
from schedules.tours import short_ring

IMPROVED_MEMBERS = 64


def ring_of_everyone(problem: Problem, known: Sequence[ChosenRound] = ()) -> ChosenRound:
    """Return the ring of all islands of least round time, exact up to `EXACT_RING_MEMBERS`.

    Args:
        problem: the network and how time is counted.
        known: rounds found by a search. A ring of everyone among them was annealed already, which
            takes seconds for many islands and is not done again.
    """
    everyone = tuple(range(problem.network.size))
    rings = [
        one
        for one in known
        if one.collective == RING and len(one.works[0].members) == len(everyone)
    ]
    rings += [_round(problem, order) for order in _orders(problem, everyone, annealed=bool(rings))]
    return min(rings, key=lambda ring: ring.seconds)


def _orders(problem: Problem, everyone: Clique, annealed: bool) -> list[Clique]:
    """Return orders to choose from, with none that takes long where one was annealed before."""
    network, clock = problem.network, problem.clock
    if len(everyone) <= EXACT_RING_MEMBERS:
        return [JointRings(network, clock).best([everyone])[1][0]]
    orders: list[Clique] = []
    if not annealed:
        short = short_ring(RouteTable.of(network), np.array(everyone), clock)
        orders.append(tuple(short.tolist()))
    if len(everyone) <= IMPROVED_MEMBERS:
        orders += [best_ring(network, everyone, latency_first) for latency_first in (False, True)]
    return orders


def _round(problem: Problem, order: Clique) -> ChosenRound:
    works = (CliqueWork(order),)
    cost = problem.model.round_cost(RING, works)
    return ChosenRound(RING, works, cost, problem.clock.round_s(cost, order))


def worth_of_everyone(objective: str, islands: int, seconds: float) -> float:
    """Return what rounds of one clique of everyone attain for an objective."""
    if objective == MEAN_OBJECTIVE:
        return seconds
    return (islands * (islands - 1) if objective == EXCHANGE_OBJECTIVE else 1) / seconds
