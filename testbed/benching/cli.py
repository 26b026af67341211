"""`atoll bench collective`: the command, in the manner of nccl-tests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from schedules.capabilities import COLLECTIVES
from testbed.benching.cliques import needs_accelerators
from testbed.benching.options import (
    BenchOptions,
    checked_collectives,
    checked_percentage,
    parse_size,
    sizes,
)
from testbed.cli_options import (
    Calibrate,
    Congestion,
    Datapath,
    FanIn,
    Json,
    Links,
    RealTime,
    Runs,
    Scale,
    Seed,
    Sites,
    SumRate,
    SumSlots,
    Topo,
)
from testbed.launch import RunChoices, accelerator_limits, accelerator_sites, launch
from testbed.progress import make_console
from topologies.errors import UserError
from topologies.files import load

bench_app = typer.Typer(help="Measure on an emulated WAN.", no_args_is_help=True)

ALL_KINDS = ",".join(COLLECTIVES)
Kinds = Annotated[
    str, typer.Option("--collective", help="One of them, or several, as ring,innetwork.")
]


@bench_app.callback()
def bench() -> None:
    """Measure on an emulated WAN."""


@bench_app.command()
def collective(
    topology: Topo = "nine_city",
    collective: Kinds = ALL_KINDS,
    begin: Annotated[str, typer.Option("-b", "--begin", help="Smallest message.")] = "4MB",
    end: Annotated[str | None, typer.Option("-e", "--end", help="Largest; as -b.")] = None,
    factor: Annotated[int, typer.Option("-f", "--factor", help="From size to size.")] = 2,
    iterations: Annotated[int, typer.Option("-n", "--iterations", min=1)] = 5,
    warm_up: Annotated[int, typer.Option("-w", "--warm-up", min=0)] = 1,
    loss_pct: Annotated[float, typer.Option(help="Added to every link direction.")] = 0.0,
    duplicate_pct: Annotated[float, typer.Option(help="Added to every link direction.")] = 0.0,
    accelerators: Sites = "all",
    accelerator_rate_mbps: SumRate = None,
    accelerator_slots: SumSlots = None,
    accelerator_fan_in: FanIn = None,
    rate_scale: Scale = None,
    seed: Seed = 1,
    datapath: Datapath = None,
    links: Links = None,
    congestion_control: Congestion = "cubic",
    realtime: RealTime = True,
    calibrate: Calibrate = True,
    timeout_s: Annotated[float, typer.Option(min=1.0, help="Limit of each kind.")] = 600.0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Time collectives of all islands: every kind, size by size, each beside its bound."""
    first = parse_size("-b", begin)
    options = BenchOptions(
        collectives=checked_collectives(collective.split(",")),
        sizes_bytes=sizes(first, first if end is None else parse_size("-e", end), factor),
        iterations=iterations,
        warm_up=warm_up,
        loss_pct=checked_percentage("--loss-pct", loss_pct),
        duplicate_pct=checked_percentage("--duplicate-pct", duplicate_pct),
    )
    needed = needs_accelerators(options.collectives)
    sites = accelerator_sites(accelerators, load(topology)) if needed else ()
    if needed and not sites:
        raise UserError("--accelerators: aggregation and innetwork need one at some site")
    choices = RunChoices(
        "bench", topology, rate_scale, datapath, links, congestion_control, realtime, runs, seed
    )
    limits = accelerator_limits(accelerator_rate_mbps, accelerator_slots, accelerator_fan_in)
    more = {
        "bench": asdict(options),
        "accelerators": sites,
        "accelerator_limits": limits,
        "calibrate": calibrate,
        "timeout_s": timeout_s,
        "as_json": as_json,
    }
    raise typer.Exit(launch(choices, more, make_console(stderr=as_json)))
