"""From an experiment to a run: planned, checked, then handed to a supervisor.

Whatever can be known before anything is built is found here: what does not fit the topology, a
plan that the network cannot carry, a list of layers with a mistake, too little memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.accelerator.process import Limits
from testbed.doctor import Report
from testbed.experiment import schedule as schedules
from testbed.experiment.file import to_data
from testbed.experiment.memory import batch_mb, check_memory
from testbed.experiment.model import Accelerators, Experiment, Variant, Workload
from testbed.experiment.planning import schedule_of
from testbed.experiment.trees import check_runnable
from testbed.innetwork.limits import alike
from testbed.launch import RunChoices, check_choices, checked_scale, launch
from testbed.progress import make_console
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Topology
from workloads.errors import WorkloadError
from workloads.training.sizes import message_bytes as bytes_of

QUIET_S = 1.0


@dataclass(frozen=True)
class RunOptions:
    """How to run an experiment, beside what it says itself; None leaves it to the machine."""

    datapath: str | None = None
    links: str | None = None
    congestion_control: str = "cubic"
    realtime: bool = True
    runs: Path = Path("runs")
    timeout_s: float = 900.0
    capture: bool = False
    calibrate: bool = True
    as_json: bool = False
    report: bool = True


def run_experiment(experiment: Experiment, options: RunOptions) -> int:
    """Carry out an experiment on this machine; returns the exit code.

    Raises:
        UserError: something in the experiment cannot be.
        MachineError: something is missing on this machine.
        RunError: the run could not be carried through.
    """
    console = make_console(stderr=options.as_json)
    topology = load(experiment.topology)
    rate_scale = checked_scale(experiment.rate_scale, topology)
    settled = replace(experiment, rate_scale=rate_scale)
    choices = RunChoices(
        "train",
        settled.topology,
        rate_scale,
        options.datapath,
        options.links,
        options.congestion_control,
        options.realtime,
        options.runs,
        settled.seed,
    )
    check_choices(choices, topology)
    trainings = list(_trainings(settled, topology.scaled(rate_scale), console))
    largest = max(training["message_bytes"] for training in trainings)
    step_mb = max(_step_mb(variant.workload) for variant in settled.variants)

    def enough_memory(report: Report) -> None:
        available_mib = report.facts.resources.memory_available_mib
        check_memory(len(topology.codes), largest, available_mib, step_mb=step_mb)

    more = {
        "experiment": to_data(settled),
        "trainings": trainings,
        "accelerators": _accelerator_sites(settled, topology),
        "accelerator_limits": _limits(settled.accelerators, rate_scale),
        "throughput": any(_works_hard(training) for training in trainings),
        "capture": options.capture,
        "timeout_s": options.timeout_s,
        "calibrate": options.calibrate,
        "as_json": options.as_json,
        "report": options.report,
    }
    return launch(choices, more, console, enough_memory)


def message_bytes(workload: Workload) -> int:
    """Return what an island contributes to a round; raises UserError for a wrong list of layers."""
    layers = None if workload.layers is None else Path(workload.layers)
    try:
        return bytes_of(workload.kind, workload.preset, layers, workload.message_scale)
    except WorkloadError as error:
        raise UserError(str(error)) from None


def _step_mb(workload: Workload) -> float:
    return batch_mb(workload.kind, workload.preset, workload.batch_size)


def _trainings(
    experiment: Experiment, topology: Topology, console: Console
) -> Iterator[dict[str, Any]]:
    """Yield what a run has to know of each variant; equal plans are made once."""
    made: dict[str, dict[str, Any]] = {}
    scale = experiment.rate_scale or 1.0
    accelerators = _emulated(experiment.accelerators, scale)
    sites = _accelerator_sites(experiment, topology)
    limits = alike(sites, _limits(experiment.accelerators, scale))
    for variant in experiment.variants:
        amount = message_bytes(variant.workload)
        key = json.dumps([str(variant.plan), variant.capability, variant.collective, amount])
        if key not in made:
            began_s = time.monotonic()
            schedule = _planned(variant, accelerators, topology, amount, limits)
            made[key] = {"schedule": schedules.to_data(schedule), "message_bytes": amount}
            if (took_s := time.monotonic() - began_s) > QUIET_S:
                console.print(f"  Planning {variant.name:<35} {took_s:6.1f} s", highlight=False)
        yield made[key]


def _planned(
    variant: Variant,
    accelerators: Accelerators,
    topology: Topology,
    amount: int,
    limits: Mapping[str, Limits],
) -> schedules.Schedule:
    try:
        schedule = schedule_of(variant, accelerators, topology, amount)
        check_runnable(schedule.rounds, topology, schedule.rank_order, limits)
        return schedule
    except UserError as error:
        raise UserError(f"variant {variant.name}: {error}") from None


def _emulated(accelerators: Accelerators, rate_scale: float) -> Accelerators:
    """Return accelerators whose rates are scaled like those of links."""
    if accelerators.rate_mbps is None:
        return accelerators
    return replace(accelerators, rate_mbps=accelerators.rate_mbps * rate_scale)


def _accelerator_sites(experiment: Experiment, topology: Topology) -> tuple[str, ...]:
    if not any(variant.uses_aggregation for variant in experiment.variants):
        return ()
    return experiment.accelerators.sites or topology.codes


def _limits(accelerators: Accelerators, rate_scale: float) -> dict[str, Any]:
    scaled = _emulated(accelerators, rate_scale)
    named = {"rate_mbps": scaled.rate_mbps, "slots": scaled.slots, "fan_in": scaled.fan_in}
    return {name: value for name, value in named.items() if value is not None}


def _works_hard(training: dict[str, Any]) -> bool:
    """Whether a training moves so many packets that switches had better take them by the batch."""
    return any(one["collective"] != "ring" for one in training["schedule"]["rounds"])
