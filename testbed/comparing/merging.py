"""Leaving out a variant that would run what another one runs already.

The best plan for a network may be the full clique, which is a variant of its own: both would take
their minutes and differ by noise. It runs once then, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from testbed.experiment.model import Accelerators, Experiment, PlanChoice, Variant
from testbed.experiment.planning import schedule_of
from testbed.experiment.running import message_bytes
from testbed.experiment.schedule import Schedule
from testbed.launch import checked_scale
from topologies.files import load


@dataclass(frozen=True)
class Merged:
    """An experiment without doubles.

    Attributes:
        experiment: with the variants that are left.
        same_as: for each variant that was left out, the one that stands for it.
    """

    experiment: Experiment
    same_as: dict[str, str]

    def notes(self) -> list[str]:
        """Return a sentence for each variant that was left out."""
        return [
            f"{name}: the plan it asks for is that of {other}, which is run once"
            for name, other in self.same_as.items()
        ]


def merged(experiment: Experiment, plan: Callable[[Variant], Schedule]) -> Merged:
    """Leave out variants whose plan, as searched for, is that of another variant.

    Args:
        experiment: with all variants.
        plan: gives the rounds of a variant.
    """
    kept: dict[str, tuple[Variant, Any]] = {}
    same_as: dict[str, str] = {}
    # Searched ones come last, so that a plan that was asked for by its shape is the one that stays.
    for variant in sorted(experiment.variants, key=_is_searched):
        work = what_runs(variant, plan(variant))
        twin = next((name for name, (_, other) in kept.items() if other == work), None)
        if twin is not None and _is_searched(variant) and variant.plan != kept[twin][0].plan:
            same_as[variant.name] = twin
        else:
            kept[variant.name] = (variant, work)
    left = tuple(variant for variant in experiment.variants if variant.name in kept)
    return Merged(replace(experiment, variants=left), same_as)


def _is_searched(variant: Variant) -> bool:
    return variant.plan.objective is not None


def what_runs(variant: Variant, schedule: Schedule) -> tuple[Any, ...]:
    """Return everything that decides what a variant does, without how it was asked for."""
    bare = replace(
        variant, name="same", capability="unicast", collective=None, plan=PlanChoice(), rounds=1
    )
    rounds = [(one.cliques, one.collective, one.trees) for one in schedule.rounds]
    return bare, rounds, schedule.cycle, schedule.rank_order


def without_doubles(experiment: Experiment) -> Merged:
    """Leave out doubles of an experiment, its plans searched for on its emulated network.

    Raises:
        UserError: a plan is not possible on this network.
    """
    topology = load(experiment.topology)
    rate_scale = checked_scale(experiment.rate_scale, topology)
    emulated = topology.scaled(rate_scale)
    accelerators = _emulated(experiment.accelerators, rate_scale)

    def plan(variant: Variant) -> Schedule:
        return schedule_of(variant, accelerators, emulated, message_bytes(variant.workload))

    return merged(experiment, plan)


def _emulated(accelerators: Accelerators, rate_scale: float) -> Accelerators:
    rate_mbps = accelerators.rate_mbps
    return replace(accelerators, rate_mbps=None if rate_mbps is None else rate_mbps * rate_scale)
