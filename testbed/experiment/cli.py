"""`atoll run FILE` and `atoll emulate`, which is the experiment that needs no file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from schedules.capabilities import OWN_COLLECTIVE
from testbed.cli_options import (
    Capture,
    Json,
    LimitOptions,
    Reported,
    Scale,
    Seed,
    Sites,
    Topo,
    TrainingOptions,
    unfolded,
)
from topologies.errors import UserError

REPLAY = "replay"


@unfolded
def run_command(
    file: Annotated[Path, typer.Argument(help="An experiment, such as experiments/diloco.yaml.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE in place of the file's, such as rounds=1."),
    ] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", help="Only this one; may be repeated.")
    ] = None,
    capture: Capture = False,
    *,
    how: TrainingOptions,
    report: Reported = True,
    as_json: Json = False,
) -> None:
    """Carry out an experiment: train its variants over one standing WAN, and compare them."""
    from testbed.experiment.file import load_experiment
    from testbed.experiment.running import RunOptions, run_experiment

    experiment = load_experiment(file, settings or [], variants or [])
    options = RunOptions(**asdict(how), capture=capture, as_json=as_json, report=report)
    raise typer.Exit(run_experiment(experiment, options))


Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Synchronizations.")]
LocalSteps = Annotated[
    int | None, typer.Option(min=1, help="Optimizer steps a round; 10, or 1 with none.")
]
OuterName = Annotated[str, typer.Option(help="Outer optimizer: mean, diloco or none.")]
WorkloadName = Annotated[str, typer.Option(help="What is trained: characters or digits.")]
TargetLoss = Annotated[float | None, typer.Option(help="End when the held-out loss is there.")]
CapabilityName = Annotated[
    str | None,
    typer.Option(help="Of the network: unicast, multicast, aggregation, multicast+aggregation."),
]
ObjectiveName = Annotated[
    str | None, typer.Option(help="Plan for it: exchange, fair, mean or consensus.")
]
Kind = Annotated[
    str | None, typer.Option(help="The only kind to use; by default a ring of everybody.")
]
Fragments = Annotated[
    int, typer.Option(min=0, max=64, help="Exchange in so many parts while computing.")
]


@unfolded
def emulate_command(
    topology: Topo = "nine_city",
    rounds: Rounds = 6,
    local_steps: LocalSteps = None,
    outer: OuterName = "mean",
    workload: WorkloadName = "characters",
    target_loss: TargetLoss = None,
    capability: CapabilityName = None,
    objective: ObjectiveName = None,
    collective: Kind = None,
    overlap_fragments: Fragments = 0,
    accelerators: Sites = None,
    *,
    limits: LimitOptions,
    rate_scale: Scale = None,
    seed: Seed = 1,
    capture: Capture = False,
    how: TrainingOptions,
    report: Reported = True,
    as_json: Json = False,
) -> None:
    """Build the WAN, train one model over it, count every byte, leave a record and nothing else."""
    from testbed.experiment.file import experiment_of
    from testbed.experiment.running import RunOptions, run_experiment
    from testbed.launch import accelerator_sites
    from topologies.files import load

    if workload == REPLAY:
        raise UserError(
            "--workload: replay needs a list of layers; `atoll run` a file that has one"
        )
    sites = accelerator_sites(accelerators, load(topology)) or None
    asked: dict[str, Any] = {
        "topology": topology,
        "rounds": rounds,
        "local_steps": local_steps,
        "outer": {"kind": outer},
        "workload": {"kind": workload},
        "target_loss": target_loss,
        "overlap_fragments": overlap_fragments,
        "rate_scale": rate_scale,
        "seed": seed,
        **plan_asked(capability, objective, collective),
    }
    asked["accelerators"] = _given(
        {
            "sites": sites,
            "rate_mbps": _real_mbps(limits.accelerator_rate_mbps, rate_scale, topology),
            "slots": limits.accelerator_slots,
            "fan_in": limits.accelerator_fan_in,
        }
    )
    experiment = experiment_of(_given(asked))
    options = RunOptions(**asdict(how), capture=capture, as_json=as_json, report=report)
    raise typer.Exit(run_experiment(experiment, options))


def plan_asked(
    capability: str | None, objective: str | None, collective: str | None
) -> dict[str, Any]:
    """Return the fields of an experiment that say who meets whom.

    Nothing asked for is the ring of all islands, which people use today. A kind alone is one clique
    of all islands over a network that can do it; a capability alone is the best plan for it.
    """
    if capability is None and objective is None and collective is None:
        return {"collective": "ring", "plan": {"full_clique": True}}
    plan: dict[str, Any] = {"objective": objective or "mean"}
    if objective is None and collective is not None:
        plan = {"full_clique": True}
    needed = {kind: name for name, kind in OWN_COLLECTIVE.items()}
    return {
        "capability": capability or needed.get(collective or "", "unicast"),
        "collective": collective,
        "plan": plan,
    }


def _real_mbps(
    emulated_mbps: float | None, rate_scale: float | None, topology: str
) -> float | None:
    """Return the rate that an experiment gives for a limit of the emulated network."""
    from testbed.launch import checked_scale
    from topologies.files import load

    if emulated_mbps is None:
        return None
    return emulated_mbps / checked_scale(rate_scale, load(topology))


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked for without what was left open."""
    return {key: value for key, value in asked.items() if value is not None}
