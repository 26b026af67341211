"""From what a variant says of its plan to the schedule its workers run.

Everything is decided here before anything is built: a search, rounds that are given, or a plan
from a file. Costs are those of the emulated network: rates are scaled, times are real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf
from pathlib import Path

from schedules.capabilities import RING, Accelerator, Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.plan import Plan, PlannedCapabilities, PlannedRound
from schedules.planner import default_watch, plan_problem
from schedules.problem import Problem
from schedules.ring import best_ring_order
from schedules.rounds import FULLY_TABLED_SITES
from schedules.watch import Watch
from testbed.experiment.fitting import read_plan
from testbed.experiment.model import Accelerators, PlanChoice, Variant
from testbed.experiment.rounds import as_run, best_round, ring_of
from testbed.experiment.schedule import Schedule
from testbed.innetwork.parts import is_split
from topologies.model import Topology

MEAN = "mean"


def schedule_of(
    variant: Variant, accelerators: Accelerators, topology: Topology, message_bytes: int
) -> Schedule:
    """Return the rounds a variant runs.

    Args:
        variant: what is asked.
        accelerators: where the network has some, with rates of the emulated network.
        topology: as emulated, rates scaled.
        message_bytes: what an island contributes to a round.

    Raises:
        UserError: the network cannot do what is asked; the text says which limit is in the way.
    """
    problem = problem_of(variant, accelerators, topology, message_bytes)
    choice = variant.plan
    if choice.file is not None:
        return _searched(problem, read_plan(Path(choice.file)))
    if choice.rounds is not None:
        given = [(one.cliques, one.collective or variant.collective) for one in choice.rounds]
        return _given(problem, [best_round(problem, *one) for one in given])
    if choice.full_clique and variant.collective == RING:
        return _given(problem, [ring_of(problem, best_ring_order(topology))])
    if choice.full_clique and len(topology.codes) > FULLY_TABLED_SITES:
        return _given(problem, [best_round(problem, [topology.codes], variant.collective)])
    limit_s = choice.time_limit_s
    watch = default_watch(problem) if limit_s is None else Watch(limit_s=limit_s)
    return _searched(problem, plan_problem(problem, watch))


def problem_of(
    variant: Variant, accelerators: Accelerators, topology: Topology, message_bytes: int
) -> Problem:
    """Return what the planner is asked."""
    return Problem(
        Network.of(topology),
        capabilities_of(variant, accelerators, topology),
        variant.plan.objective or MEAN,
        variant.collective,
        float(message_bytes),
        constraints_of(variant.plan, topology),
        True,
    )


def capabilities_of(
    variant: Variant, accelerators: Accelerators, topology: Topology
) -> Capabilities:
    """Return what the network offers a variant, limits of its accelerators included."""
    offered = Capabilities.parse(variant.capability)
    limited = accelerators.rate_mbps is not None or accelerators.fan_in is not None
    if not offered.aggregation or (accelerators.sites is None and not limited):
        return offered
    each = Accelerator(accelerators.rate_mbps or inf, accelerators.fan_in)
    return replace(offered, accelerators=dict.fromkeys(accelerators.sites or topology.codes, each))


def constraints_of(choice: PlanChoice, topology: Topology) -> Constraints:
    """Return the limits that a plan is to keep to."""
    everybody = len(topology.codes) if choice.full_clique else None
    fewest = everybody or choice.clique_size or choice.min_clique or 2
    most = everybody or choice.clique_size or choice.max_clique
    return Constraints(min_clique=fewest, max_clique=most, max_round_s=choice.max_round_s)


def _searched(problem: Problem, plan: Plan) -> Schedule:
    rounds = tuple(as_run(problem, one, plan.capabilities.max_groups) for one in plan.rounds)
    written = json.loads(plan.to_json(indent=None))
    written["unsplit_rounds"] = [
        number
        for number, (planned, run) in enumerate(zip(plan.rounds, rounds, strict=True))
        if is_split(planned.trees) and not is_split(run.trees)
    ]
    return Schedule(rounds, plan.cycle, tuple(reversed(plan.ring.order)), written)


def _given(problem: Problem, rounds: Sequence[PlannedRound]) -> Schedule:
    written = {
        "topology": problem.topology.name,
        "capabilities": asdict(PlannedCapabilities.of(problem.capabilities)),
        "objective": None,
        "collective": problem.collective,
        "message_bytes": problem.message_bytes,
        "unit_s": problem.clock.unit_s,
    }
    order = tuple(reversed(best_ring_order(problem.topology)))
    return Schedule(tuple(rounds), tuple(range(len(rounds))), order, written)
