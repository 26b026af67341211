"""`atoll compare`: variants of an experiment, interleaved and repeated, set against one another."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli_options import Json, Scale, TrainingOptions, unfolded
from testbed.progress import make_console
from testbed.record.reader import find_run


@unfolded
def compare_command(
    what: Annotated[
        str, typer.Argument(help="A topology, or the file of an experiment.")
    ] = "nine_city",
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, max=1000, help="Of every variant.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE in place of the file's.")
    ] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", help="Only this one and the ring; repeatable.")
    ] = None,
    recorded: Annotated[
        str | None, typer.Option("--run", help="Compare what this run has recorded instead.")
    ] = None,
    rate_scale: Scale = None,
    *,
    how: TrainingOptions,
    as_json: Json = False,
) -> None:
    """Train every variant again and again, in turn, and say who is faster and what is noise."""
    if recorded is not None:
        show(find_run(recorded, how.runs), as_json)
        return
    from testbed.comparing.asked import comparison_asked
    from testbed.comparing.merging import without_doubles
    from testbed.experiment.running import RunOptions, run_experiment

    experiment = comparison_asked(
        what,
        repetitions=repetitions,
        rate_scale=rate_scale,
        settings=settings or [],
        variants=variants or [],
    )
    merged = without_doubles(experiment)
    console = make_console(stderr=as_json)
    for note in merged.notes():
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    options = RunOptions(**asdict(how), as_json=as_json)
    raise typer.Exit(run_experiment(merged.experiment, options))


def show(run: Path, as_json: bool) -> None:
    """Compare anew what a run has recorded, and print it."""
    from testbed.comparing.compare import write_comparison
    from testbed.comparing.table import print_comparison

    comparison = write_comparison(run)
    if as_json:
        print(json.dumps(comparison.to_json(), indent=1))
    else:
        print_comparison(make_console(), comparison)
