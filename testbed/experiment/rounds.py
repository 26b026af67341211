"""Rounds as they are run: given instead of searched for, or planned and cut into parts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import inf

from schedules.capabilities import RING
from schedules.cost import (
    FEWEST_LINKS,
    LEAST_DELAY,
    CarriedTree,
    CliqueWork,
    clique_work,
    numbered_cliques,
)
from schedules.plan import PlannedRound, PlannedTree
from schedules.planner import planned_round
from schedules.problem import Problem
from schedules.rounds import ChosenRound
from schedules.trees import Tree
from testbed.experiment.thinning import Choice, few_shares
from testbed.innetwork.parts import (
    LEAST_SHARE,
    MOST_PARTS,
    carried_trees,
    is_split,
    parts_of,
    ways_of_roots,
)
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


def as_run(problem: Problem, planned: PlannedRound, max_groups: int | None = None) -> PlannedRound:
    """Return a planned round as a clique's workers can run it.

    Messages that the plan splits over several trees are cut into parts (`testbed.innetwork.parts`),
    of which a run has a few (`testbed.experiment.thinning`); shares and costs are those of the
    parts. Where these need more trees than switches take, every message takes one of the plan's.

    Args:
        problem: the network, its capabilities and the message.
        planned: the round.
        max_groups: how many trees may be installed; None for any number.
    """
    if not is_split(planned.trees):
        return planned
    for most_parts in (MOST_PARTS, 1):
        cut = _thinned(problem, planned, most_parts)
        if cut is not None and _groups(cut) <= (max_groups or inf):
            return _recosted(problem, cut)
    return best_round(problem, planned.cliques, planned.collective, planned.share)


def _groups(planned: PlannedRound) -> int:
    """Return how many trees its parts install."""
    parts = [parts_of(planned.collective, trees) for trees in _trees_by_clique(planned)]
    return sum(len(part.trees) for of_clique in parts for part in of_clique)


def _trees_by_clique(planned: PlannedRound) -> list[tuple[PlannedTree, ...]]:
    return [
        tuple(tree for tree in planned.trees if tree.clique == number)
        for number in range(len(planned.cliques))
    ]


def _thinned(problem: Problem, planned: PlannedRound, most_parts: int) -> PlannedRound | None:
    """Return a round of few of its trees, None where none were found in time; costs are stale."""
    kind, place = planned.collective, problem.network.codes.index
    ways = [
        (number, way)
        for number, trees in enumerate(_trees_by_clique(planned))
        for of_root in ways_of_roots(kind, trees)
        for way in of_root
    ]
    choices = [
        Choice(
            number,
            tuple(map(place, planned.cliques[number])),
            tuple(_carried(problem, tree) for tree in way.trees),
        )
        for number, way in ways
    ]
    shares = few_shares(problem.model, kind, choices, planned.predicted.transfer_units, most_parts)
    if shares is None:
        return None
    kept = [
        replace(tree, share=min(share, 1.0))
        for (_, way), share in zip(ways, shares.tolist(), strict=True)
        if share > LEAST_SHARE / 2
        for tree in way.trees
    ]
    return replace(planned, trees=tuple(kept))


def _recosted(problem: Problem, planned: PlannedRound) -> PlannedRound:
    """Return a round with the shares that parts give its trees, and what it costs then."""
    kind, place = planned.collective, problem.network.codes.index
    works = tuple(
        CliqueWork(
            tuple(map(place, clique)),
            tuple(_carried(problem, tree) for tree in carried_trees(kind, trees)),
        )
        for clique, trees in zip(planned.cliques, _trees_by_clique(planned), strict=True)
    )
    chosen = replace(
        _costed(problem, kind, works), fractional_units=planned.predicted.fractional_units
    )
    return planned_round(problem, chosen, planned.share)


def _carried(problem: Problem, tree: PlannedTree) -> CarriedTree:
    place = problem.network.codes.index
    hops = tuple((place(parent), place(child)) for parent, child in tree.hops)
    return CarriedTree(
        tree.kind, Tree(place(tree.root), hops), tuple(map(place, tree.members)), tree.share
    )


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
