"""Options and arguments that several commands share, each told once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print figures as JSON.")]
Topo = Annotated[str, typer.Argument(help="A bundled topology's name, or a file.")]
RunId = Annotated[str | None, typer.Option("--run", help="Which run, when several are up.")]
Site = Annotated[str, typer.Argument(help="Code of the site, such as NYC.")]
Scale = Annotated[
    float | None,
    typer.Option("--rate-scale", help="Emulated / real rate; by default, links of 100 Mbit/s."),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of data, model and links.")
]
Datapath = Annotated[str | None, typer.Option("--datapath", help="kernel or userspace.")]
Links = Annotated[str | None, typer.Option("--links", help="netem or linkd.")]
Congestion = Annotated[str, typer.Option("--congestion-control", help="TCP's, in every island.")]
RealTime = Annotated[bool, typer.Option(help="Real-time priority for the data path.")]
Calibrate = Annotated[bool, typer.Option(help="Measure every link before relying on it.")]
Capture = Annotated[bool, typer.Option("--capture", help="Capture packets per link.")]
TimeLimit = Annotated[float, typer.Option(min=1.0, help="Limit of each training, in seconds.")]
Reported = Annotated[bool, typer.Option("--report/--no-report", help="Draw a report in the end.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run records are kept.")]
Sites = Annotated[
    str | None,
    typer.Option("--accelerators", help="Sites with an accelerator, as AMS,NYC, or all."),
]
SumRate = Annotated[
    float | None, typer.Option("--accelerator-rate-mbps", min=0.001, help="Limit of each.")
]
SumSlots = Annotated[
    int | None, typer.Option("--accelerator-slots", min=1, help="Windows of all trees at each.")
]
FanIn = Annotated[
    int | None, typer.Option("--accelerator-fan-in", min=1, max=64, help="Children of a tree.")
]
