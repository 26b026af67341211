"""Rounds that somebody gives instead of a search: their trees, ring orders and costs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from schedules.capabilities import RING
from schedules.cost import FEWEST_LINKS, LEAST_DELAY, CliqueWork, clique_work, numbered_cliques
from schedules.plan import PlannedRound
from schedules.planner import planned_round
from schedules.problem import Problem
from schedules.rounds import ChosenRound
from topologies.errors import UserError

STYLES = (FEWEST_LINKS, LEAST_DELAY)


def best_round(
    problem: Problem, cliques: Iterable[Collection[str]], collective: str | None, share: float = 1.0
) -> PlannedRound:
    """Return the quickest way to run these cliques at the same time.

    Args:
        problem: the network, its capabilities and the message.
        cliques: of site codes.
        collective: the kind to use; None for the quickest that is permitted.
        share: how often the round runs.

    Raises:
        UserError: a clique cannot work with any of the permitted kinds.
    """
    wanted = [tuple(clique) for clique in cliques]
    kinds = problem.capabilities.permitted(collective)
    found = [
        chosen
        for kind in kinds
        for style in STYLES
        if (chosen := _chosen(problem, wanted, kind, style)) is not None
    ]
    if not found:
        names = " ".join("{" + ",".join(clique) + "}" for clique in wanted)
        raise UserError(
            f"cliques {names}: no accelerator or link can do {', '.join(kinds)} for all"
        )
    return planned_round(problem, min(found, key=lambda one: one.seconds), share)


def unsplit(problem: Problem, planned: PlannedRound) -> PlannedRound:
    """Return a round whose messages each take one tree: workers carry no part of a message."""
    if all(tree.share == 1 for tree in planned.trees):
        return planned
    return best_round(problem, planned.cliques, planned.collective, planned.share)


def ring_of(problem: Problem, order: Sequence[str]) -> PlannedRound:
    """Return the round in which these islands form one ring in this order."""
    members = tuple(problem.network.codes.index(code) for code in order)
    return planned_round(problem, _costed(problem, RING, (CliqueWork(members),)), 1.0)


def _costed(problem: Problem, kind: str, works: tuple[CliqueWork, ...]) -> ChosenRound:
    cost = problem.model.round_cost(kind, works)
    members = [site for work in works for site in work.members]
    return ChosenRound(kind, works, cost, problem.clock.round_s(cost, members))


def _chosen(
    problem: Problem, cliques: Iterable[Collection[str]], kind: str, style: str
) -> ChosenRound | None:
    works = []
    for members in numbered_cliques(problem.network, cliques):
        work = clique_work(problem.model, kind, members, style)
        if work is None:
            return None
        works.append(work)
    return _costed(problem, kind, tuple(works))
