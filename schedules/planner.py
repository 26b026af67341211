"""The planner: one call from a network and an objective to a plan with its proof.

    from schedules.planner import plan
    from topologies.files import load

    found = plan(load("nine_city"), "multicast+aggregation", objective="mean")
    print(found.value, found.optimal, [r.cliques for r in found.rounds])

Beside the plan come what any method needs (`schedules.bounds`) and what people use today, a ring of
all islands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedules.bounds import all_bounds
from schedules.capabilities import CAPABILITY_NAMES, INNETWORK, OWN_COLLECTIVE, RING, Capabilities
from schedules.consensus import removal, spectral_gap
from schedules.constraints import Constraints
from schedules.cost import NANOSECONDS, CarriedTree, CostModel
from schedules.fair import meetings_of
from schedules.infeasible import why_infeasible
from schedules.network import Network
from schedules.plan import (
    Plan,
    PlannedCapabilities,
    PlannedRound,
    PlannedTree,
    Predicted,
    RingReference,
)
from schedules.problem import Problem
from schedules.reference import worth_of_everyone
from schedules.rounds import FULLY_TABLED_SITES, ChosenRound
from schedules.solution import (
    EXCHANGE_OBJECTIVE,
    FAIR_OBJECTIVE,
    MEAN_OBJECTIVE,
    UNITS,
    Solution,
    cycle,
)
from schedules.solve import Solved, solve
from schedules.trees import upward_streams
from schedules.watch import Watch
from topologies.errors import RunError, UserError
from topologies.model import Topology

DEFAULT_MESSAGE_BYTES = 1_000_000_000
UNTABLED_LIMIT_S = 60.0
LONGEST_CYCLE = 60
CLOSE_ENOUGH = 0.99


def plan(
    topology: Topology,
    capabilities: Capabilities | str,
    objective: str = EXCHANGE_OBJECTIVE,
    *,
    collective: str | None = None,
    message_bytes: float = DEFAULT_MESSAGE_BYTES,
    constraints: Constraints | None = None,
    count_latency: bool = True,
    watch: Watch | None = None,
) -> Plan:
    """Return the best rounds of cliques for an objective, with trees, bounds and proof.

    Args:
        topology: the network.
        capabilities: what it offers, or the name that `Capabilities.parse` reads.
        objective: `exchange`, `fair`, `mean` or `consensus`.
        collective: of every round; None to choose the best permitted one, round by round.
        message_bytes: what an island contributes to one round.
        constraints: limits on every round.
        count_latency: whether propagation is part of a round's time.
        watch: hears of progress and may end the search early with the best plan so far; without
            one, a network of more than nine sites is searched for a minute.

    Raises:
        UserError: for an unknown name, no message, a disconnected network, or constraints that
            clash, which it names.
        RunError: when the watch was over before there was any plan.
    """
    if isinstance(capabilities, str):
        capabilities = Capabilities.parse(capabilities)
    problem = Problem(
        Network.of(topology),
        capabilities,
        objective,
        collective,
        float(message_bytes),
        constraints or Constraints(),
        count_latency,
    )
    return plan_problem(problem, watch or default_watch(problem))


def default_watch(problem: Problem) -> Watch:
    """Return a watch without a limit where all is tabled, which takes seconds, else of a minute."""
    tabled = problem.network.size <= FULLY_TABLED_SITES
    return Watch(limit_s=None if tabled else UNTABLED_LIMIT_S)


def plan_problem(problem: Problem, watch: Watch) -> Plan:
    """Return the plan of a problem; raises as `plan` does."""
    solved = solve(problem, watch)
    if solved is None and watch.over():
        raise RunError("the search was ended before it found any plan; give it more time")
    if solved is None:
        raise UserError(why_infeasible(problem))
    return _written(problem, solved, watch)


@dataclass(frozen=True)
class Alternative:
    """A row of a comparison: a capability with a collective, and the plan they lead to.

    Attributes:
        capability: as `Capabilities.parse` reads it.
        collective: the fixed collective; None for the planner's choice.
        plan: the best plan; None where the constraints allow none.
        reason: why there is none.
    """

    capability: str
    collective: str | None
    plan: Plan | None
    reason: str = ""


def compare(problem: Problem, watch: Watch) -> Iterator[Alternative]:
    """Yield the plan of every capability with its own collective, of rings, and of free choice.

    The first four are the lead paper's comparison (Shah and Blier, arXiv:2608.26453): `exchange`,
    `multicast`, `aggregation` and `innetwork`, each with the capability it takes. Limits of the
    problem's capabilities apply where a capability has what they limit.
    """
    named = [(name, OWN_COLLECTIVE[name]) for name in CAPABILITY_NAMES]
    choices: list[tuple[str, str | None]] = [*named, (CAPABILITY_NAMES[0], RING)]
    choices += [(name, None) for name in CAPABILITY_NAMES]
    for name, collective in choices:
        offered = problem.capabilities.limited_to(name)
        asked = problem.changed(capabilities=offered, collective=collective)
        watch.restart()
        try:
            yield Alternative(name, collective, plan_problem(asked, watch))
        except UserError as error:
            yield Alternative(name, collective, None, str(error))
        if watch.interrupted:
            return


# --- writing a solution down ----------------------------------------------------------------------


def _written(problem: Problem, solved: Solved, watch: Watch) -> Plan:
    solution = _most_run_first(solved.solution)
    order = _cycle(problem, solution)
    ring = _ring_reference(problem, solved.ring)
    return Plan(
        topology=problem.topology.name,
        capabilities=PlannedCapabilities.of(problem.capabilities),
        objective=problem.objective,  # type: ignore[arg-type]
        unit=UNITS[problem.objective],
        collective=problem.collective,  # type: ignore[arg-type]
        message_bytes=problem.message_bytes,
        unit_s=problem.clock.unit_s,
        latency_counted=problem.count_latency,
        constraints=problem.constraints,
        rounds=tuple(
            planned_round(problem, chosen, share)
            for chosen, share in zip(solution.rounds, solution.shares, strict=True)
        ),
        cycle=order,
        value=solution.value,
        cycle_value=cycle_value(problem, solution.rounds, order),
        bound=solution.bound,
        optimal=solution.optimal,
        gap_pct=solution.gap_pct,
        stopped_early=watch.over() and not solution.optimal,
        solved_by=solved.method,
        bounds=all_bounds(problem.topology, problem.message_bytes),
        ring=ring,
        search_s=watch.elapsed_s,
    )


def _most_run_first(solution: Solution) -> Solution:
    """Return a rotation with its rounds in order of their shares; a mean cycle stays as it is."""
    by_share = sorted(range(len(solution.shares)), key=lambda n: -round(solution.shares[n], 9))
    rounds = tuple(solution.rounds[n] for n in by_share)
    return replace(solution, rounds=rounds, shares=tuple(solution.shares[n] for n in by_share))


def planned_round(problem: Problem, chosen: ChosenRound, share: float) -> PlannedRound:
    """Write a round down with its trees and what it should take."""
    codes = problem.network.codes
    return PlannedRound(
        cliques=tuple(tuple(codes[site] for site in work.members) for work in chosen.works),
        collective=chosen.collective,  # type: ignore[arg-type]
        trees=tuple(
            _planned_tree(problem.model, chosen.collective, place, carried)
            for place, work in enumerate(chosen.works)
            for carried in work.trees
        ),
        predicted=_predicted(problem, chosen),
        share=share,
    )


def _planned_tree(
    model: CostModel, collective: str, clique: int, carried: CarriedTree
) -> PlannedTree:
    codes, tree = model.network.codes, carried.tree
    sums: Sequence[int] = ()
    if carried.kind != "multicast":
        sums = sorted(upward_streams(tree, carried.members, model.fan_in).summed)
    return PlannedTree(
        kind=carried.kind,  # type: ignore[arg-type]
        clique=clique,
        root=codes[tree.root],
        at_island=collective != INNETWORK,
        members=tuple(codes[site] for site in carried.members),
        hops=tuple((codes[a], codes[b]) for a, b in tree.hops),
        sums_at=tuple(codes[site] for site in sums),
        share=carried.share,
    )


def _predicted(problem: Problem, chosen: ChosenRound) -> Predicted:
    cost, clock, directions = chosen.cost, problem.clock, problem.network.directions
    members = [site for work in chosen.works for site in work.members]
    loaded = np.flatnonzero(cost.loads > 0).tolist()
    return Predicted(
        transfer_s=cost.transfer_units * clock.unit_s,
        latency_s=cost.latency_ns * NANOSECONDS,
        compute_s=max((float(clock.compute_s[site]) for site in members), default=0.0),
        round_s=chosen.seconds,
        transfer_units=cost.transfer_units,
        fractional_units=chosen.fractional_units,
        traversals=cost.traversals,
        pairs=cost.pairs,
        groups=cost.groups,
        busiest=str(directions[int((cost.loads * problem.model.slowness).argmax())]),
        load={str(directions[column]): float(cost.loads[column]) for column in loaded},
    )


# --- the cycle ------------------------------------------------------------------------------------


def _cycle(problem: Problem, solution: Solution) -> tuple[int, ...]:
    """Return the shortest order of rounds that comes near the value of the shares."""
    count = len(solution.rounds)
    if count == 1 or problem.objective in (EXCHANGE_OBJECTIVE, MEAN_OBJECTIVE):
        return tuple(range(count))
    best: tuple[float, tuple[int, ...]] = (-1.0, tuple(range(count)))
    for length in range(1, max(LONGEST_CYCLE, 2 * count) + 1):
        order = tuple(cycle(solution.shares, length))
        value = cycle_value(problem, solution.rounds, order)
        if value > best[0]:
            best = value, order
        if value >= CLOSE_ENOUGH * solution.value:
            break
    return best[1]


def cycle_value(problem: Problem, rounds: Sequence[ChosenRound], order: Sequence[int]) -> float:
    """Return what an order of rounds attains for the objective when it is repeated."""
    size, objective = problem.network.size, problem.objective
    total = sum(rounds[place].seconds for place in order)
    if objective == MEAN_OBJECTIVE:
        return total
    if objective == EXCHANGE_OBJECTIVE:
        return sum(rounds[place].cost.pairs for place in order) / total
    run = np.bincount(order, minlength=len(rounds)) / total
    cliques = [[tuple(sorted(w.members)) for w in chosen.works] for chosen in rounds]
    if objective == FAIR_OBJECTIVE:
        return float((run @ np.array([meetings_of(found, size) for found in cliques])).min())
    return max(0.0, spectral_gap(np.array([removal(found, size) for found in cliques]), run))


# --- the ring beside it ---------------------------------------------------------------------------


def _ring_reference(problem: Problem, ring: ChosenRound) -> RingReference:
    return RingReference(
        order=tuple(problem.network.codes[site] for site in ring.works[0].members),
        transfer_s=ring.cost.transfer_units * problem.clock.unit_s,
        transfer_units=ring.cost.transfer_units,
        latency_s=ring.cost.latency_ns * NANOSECONDS,
        round_s=ring.seconds,
        traversals=ring.cost.traversals,
        value=worth_of_everyone(problem.objective, problem.network.size, ring.seconds),
    )
