"""What follows a run of an experiment: comparison and reports, made from the files of its record.

They come after the network is gone and the record is complete, so that nothing they do can disturb
a measurement, and a report shows a run as it will be read.
"""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from testbed.experiment.conduct import VARIANTS
from testbed.experiment.model import Experiment
from testbed.order import Order
from testbed.progress import Stages
from topologies.errors import AtollError, RunError

DRAWN_REPETITION = 1


def report_on(run: Path, experiment: Experiment, order: Order, console: Console) -> None:
    """Write and print what a finished run came to, and say where it is.

    Args:
        run: its record.
        experiment: what was carried out.
        order: whether figures and a report are wanted.
        console: for people.
    """
    if not experiment.is_plain:
        _compare(run, order, console)
    if order.report:
        _say(console, f"Report: {_drawn(run, experiment, console)}")


def _compare(run: Path, order: Order, console: Console) -> None:
    from testbed.comparing.compare import write_comparison
    from testbed.comparing.table import print_comparison

    comparison = write_comparison(run)
    print_comparison(console, comparison)
    _say(console, f"Record: {run}")
    if order.as_json:
        print(json.dumps(comparison.to_json(), indent=1))


def _drawn(run: Path, experiment: Experiment, console: Console) -> Path:
    """Write the reports; whatever fails in drawing takes nothing from what was measured."""
    try:
        return _written(run, experiment, console)
    except AtollError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise RunError(
            f"no report could be drawn ({why}); the record is complete: {run}"
        ) from error


def _written(run: Path, experiment: Experiment, console: Console) -> Path:
    """Write the report of a run, and of each variant's first training; return the run's.

    Drawing one takes seconds of processor time; `atoll report` draws any of the others.
    """
    # What draws takes a second to load, which no other command has to wait for.
    from testbed.report.comparison import write_comparison_report
    from testbed.report.writing import write_report

    if experiment.is_plain:
        return write_report(run)
    parts = sorted((run / VARIANTS).glob(f"*/{DRAWN_REPETITION}"))
    with Stages(console) as stages:
        stages.announce("Writing reports", total=len(parts))
        for done, part in enumerate(parts, start=1):
            write_report(part)
            stages.advance(done, f"{done} of {len(parts)} trainings")
        return write_comparison_report(run)


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
