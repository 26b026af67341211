"""One training: a variant of an experiment, one repetition of it, on a standing WAN."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from schedules.capabilities import TREE_COLLECTIVES
from testbed.deploy.environment import command_line, worker_environments
from testbed.emulation.emulation import Emulation
from testbed.experiment import schedule as schedules
from testbed.experiment.model import Variant
from testbed.experiment.schedule import Schedule
from testbed.experiment.trees import JOB_NAME
from testbed.measure.counters import WireEnds, wire_ends
from testbed.measure.planned import RoundPlan, round_plan
from testbed.workers import WORK_DIRECTORY
from topologies.model import Direction

LAYERS_NAME = "layers.csv"
STOP_NAME = "stop.json"
OUTPUT_NAME = "out"


@dataclass(frozen=True)
class Job:
    """One training on a standing WAN: what is needed to start it and to judge it.

    Attributes:
        variant: what is trained and how islands synchronize.
        repetition: from 1.
        seed: of data and model.
        schedule: who meets whom.
        message_bytes: what each island contributes to a round, as planned.
    """

    variant: Variant
    repetition: int
    seed: int
    schedule: Schedule
    message_bytes: int
    wan: Emulation
    ends: Mapping[Direction, WireEnds]
    _plans: dict[int, tuple[RoundPlan, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        variant: Variant,
        schedule: Schedule,
        message_bytes: int,
        wan: Emulation,
        *,
        seed: int = 1,
        repetition: int = 1,
    ) -> Job:
        """Prepare a training; repetition r is seeded with `seed` + r - 1."""
        ends = wire_ends({wire.index: wire.forward for wire in wan.network.wires})
        own = seed + repetition - 1
        return cls(variant, repetition, own, schedule, message_bytes, wan, ends)

    @property
    def rank_order(self) -> tuple[str, ...]:
        """Site codes; the place is the rank."""
        return self.schedule.rank_order

    @property
    def label(self) -> str:
        """What tells this training from others of its run."""
        return f"{self.variant.name}-{self.repetition}"

    @property
    def directory(self) -> str:
        """Its folder on every island."""
        return f"{WORK_DIRECTORY}/jobs/{self.label}"

    @property
    def works_with_the_network(self) -> bool:
        """Whether any of its rounds needs trees."""
        return bool(set(self.schedule.kinds) & set(TREE_COLLECTIVES))

    def plans(self, message_bytes: int | None = None) -> tuple[RoundPlan, ...]:
        """Return what is expected of each round, for the message that workers really have.

        It is worked out once for each length: a training is looked at often.
        """
        amount = message_bytes or self.message_bytes
        if amount not in self._plans:
            routes, parts = self.wan.routes, self.variant.overlap_fragments or 1
            self._plans[amount] = tuple(
                round_plan(one, routes, amount, parts) for one in self.schedule.rounds
            )
        return self._plans[amount]

    def commands(self) -> dict[str, str]:
        """Return the command line of the worker at each site."""
        environments = worker_environments(
            self.wan.fabric, self.rank_order, python_path=[Path(WORK_DIRECTORY)]
        )
        argv = [sys.executable, "-m", "workloads.training.train", *self.options()]
        return {
            site: command_line(argv, environment, WORK_DIRECTORY)
            for site, environment in environments.items()
        }

    def options(self) -> list[str]:
        """Return what every worker is told on its command line."""
        folder = PurePosixPath(self.directory)
        options = ["--rounds", str(self.variant.rounds), "--seed", str(self.seed), "--events"]
        options += ["--out", str(folder / OUTPUT_NAME)]
        options += ["--schedule", str(folder / schedules.FILE_NAME)]
        if self.works_with_the_network:
            options += ["--job-file", str(folder / JOB_NAME)]
        if self.variant.target_loss is not None:
            options += ["--stop-file", str(folder / STOP_NAME)]
        if self.variant.workload.layers is not None:
            options += ["--layers", str(folder / LAYERS_NAME)]
        return [*options, *variant_options(self.variant)]


def variant_options(variant: Variant) -> Sequence[str]:
    """Return the worker's options that say what is trained and how islands synchronize."""
    workload, outer = variant.workload, variant.outer
    named: dict[str, object | None] = {
        "--workload": workload.kind,
        "--preset": workload.preset,
        "--batch-size": workload.batch_size,
        "--learning-rate": workload.learning_rate,
        "--dirichlet-alpha": workload.dirichlet_alpha,
        "--compute-scale": workload.compute_scale if workload.kind == "replay" else None,
        "--message-scale": workload.message_scale if workload.kind == "replay" else None,
        "--outer": outer.kind,
        "--outer-learning-rate": outer.learning_rate,
        "--outer-momentum": outer.momentum,
        "--local-steps": None if outer.kind == "none" else variant.steps,
        "--overlap-fragments": variant.overlap_fragments or None,
    }
    return [
        word for name, value in named.items() if value is not None for word in (name, f"{value}")
    ]
