"""Writes the report of a run: one page of HTML, and beside it plots, tables and traces."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.record.damage import readable
from testbed.report.exports import write_exports
from testbed.report.machine_plots import machine_plots
from testbed.report.page import Drawing, drawing, run_page
from testbed.report.plotting import report_style, svg_text, write_plot
from testbed.report.run_plots import Plot, byte_plots, round_plots, training_plots
from testbed.report.timeline import timeline_plot
from testbed.report.variants import REPORT
from testbed.report.view import RunView, view_run

PLOTS = "plots"


def write_report(run: Path) -> Path:
    """Write `report.html` into a run's record, and all that stands beside it.

    Args:
        run: the folder of the record; see docs/reports.md for what is written there.

    Returns:
        The page, which needs no other file and no network.

    Raises:
        UserError: there is no record there.
        RunError: a file of it is damaged.
    """
    with readable(run):
        view = view_run(run)
        remove_plots(run / PLOTS)
        with report_style():
            drawings = _drawn(_plots(view), run / PLOTS)
        page = write_page(run / REPORT, run_page(view, drawings))
        write_exports(view, run)
    return page


def write_page(path: Path, text: str) -> Path:
    """Replace a page as one step, so that nobody opens half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def remove_plots(folder: Path) -> None:
    """Remove the plots of an earlier report, of which this one may not have all."""
    for old in [*folder.glob("*.svg"), *folder.glob("*.png")]:
        old.unlink()


def _plots(view: RunView) -> dict[str, list[Plot]]:
    """Return the plots of every section."""
    timeline = timeline_plot(view)
    return {
        "training": training_plots(view),
        "rounds": round_plots(view),
        "timeline": [] if timeline is None else [timeline],
        "links": byte_plots(view),
        "machine": machine_plots(view),
    }


def _drawn(sections: Mapping[str, Sequence[Plot]], folder: Path) -> dict[str, list[Drawing]]:
    """Write every plot as SVG and PNG, and return them as parts of the page."""
    return {
        section: [draw_and_write(plot, folder) for plot in plots]
        for section, plots in sections.items()
    }


def draw_and_write(plot: Plot, folder: Path) -> Drawing:
    """Draw a plot once, into its files and for the page."""
    folder.mkdir(exist_ok=True)
    svg = svg_text(plot.figure)
    write_plot(plot.figure, folder, plot.name, svg)
    return drawing(plot, svg, svg_text(plot.phone) if plot.phone else None)
