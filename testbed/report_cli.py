"""The command `atoll report`: the report of a recorded run, whatever became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli_options import Json, Runs
from testbed.record.reader import find_run


def report_command(
    run: Annotated[
        str, typer.Argument(help="Name of a run, the path of its record, or latest.")
    ] = "latest",
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Write the report of a recorded run or comparison: one page, plots, tables, a trace."""
    from testbed.report import write_any_report

    page = write_any_report(find_run(run, runs))
    print(json.dumps({"report": str(page)}) if as_json else f"Report: {page}")
