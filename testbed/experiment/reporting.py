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
from testbed.progress import Stages


def report_on(run: Path, experiment: Experiment, console: Console, as_json: bool) -> None:
    """Write and print what a finished run came to, and say where it is.

    Args:
        run: its record.
        experiment: what was carried out.
        console: for people.
        as_json: whether a comparison goes to standard output.
    """
    # Drawing takes a second to load, which no other command has to wait for.
    from testbed.comparing.compare import write_comparison
    from testbed.comparing.table import print_comparison
    from testbed.report import write_report

    if experiment.is_plain:
        _say(console, f"Report: {write_report(run)}")
        return
    comparison = write_comparison(run)
    with Stages(console) as stages:
        parts = sorted((run / VARIANTS).glob("*/*"))
        stages.announce("Writing reports", total=len(parts))
        for done, part in enumerate(parts, start=1):
            write_report(part)
            stages.advance(done)
    print_comparison(console, comparison)
    _say(console, f"Record: {run}")
    if as_json:
        print(json.dumps(comparison.to_json(), indent=1))


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
