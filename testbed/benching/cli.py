"""`atoll bench collective`: the command, in the manner of nccl-tests."""

from __future__ import annotations

from dataclasses import asdict, astuple
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from schedules.capabilities import COLLECTIVES
from testbed.benching.options import (
    BenchOptions,
    checked_collectives,
    checked_percentage,
    parse_size,
    sizes,
)
from testbed.cli_options import (
    BuildOptions,
    Calibrate,
    Json,
    LimitOptions,
    Runs,
    Scale,
    Seed,
    Sites,
    Topo,
    unfolded,
)
from testbed.progress import make_console

bench_app = typer.Typer(help="Measure on an emulated WAN.", no_args_is_help=True)

ALL_KINDS = ",".join(COLLECTIVES)
Kinds = Annotated[
    str, typer.Option("--collective", help="One of them, or several, as ring,innetwork.")
]


@bench_app.callback()
def bench() -> None:
    """Measure on an emulated WAN."""


@bench_app.command()
@unfolded
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
    *,
    limits: LimitOptions,
    rate_scale: Scale = None,
    seed: Seed = 1,
    build: BuildOptions,
    calibrate: Calibrate = True,
    timeout_s: Annotated[float, typer.Option(min=1.0, help="Limit of each kind.")] = 600.0,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Time collectives of all islands: every kind, size by size, each beside its bound."""
    from testbed.benching.asked import check_memory_of, order_fields
    from testbed.launch import RunChoices, accelerator_limits, checked_scale, launch
    from topologies.files import load

    first = parse_size("-b", begin)
    options = BenchOptions(
        collectives=checked_collectives(collective.split(",")),
        sizes_bytes=sizes(first, first if end is None else parse_size("-e", end), factor),
        iterations=iterations,
        warm_up=warm_up,
        loss_pct=checked_percentage("--loss-pct", loss_pct),
        duplicate_pct=checked_percentage("--duplicate-pct", duplicate_pct),
    )
    choices = RunChoices("bench", topology, rate_scale, **asdict(build), runs=runs, seed=seed)
    real = load(topology)
    emulated = real.scaled(checked_scale(rate_scale, real))
    more = {
        **order_fields(options, emulated, accelerators, accelerator_limits(*astuple(limits))),
        "calibrate": calibrate,
        "timeout_s": timeout_s,
        "as_json": as_json,
    }
    fits = partial(check_memory_of, options, len(emulated.codes))
    raise typer.Exit(launch(choices, more, make_console(stderr=as_json), fits))
