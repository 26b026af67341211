"""The plots of what the machine did: how true the links are, and whether it kept up.

See docs/calibration.md for the figures, and testbed.monitor.thresholds for what is tolerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.monitor.thresholds import DEFAULT_THRESHOLDS
from testbed.report.formats import number
from testbed.report.palette import LIGHT
from testbed.report.plotting import legend_above, logarithmic, new_plot
from testbed.report.run_plots import Plot
from testbed.report.view import RunView


def machine_plots(view: RunView) -> list[Plot]:
    """Return the plots of calibration and fidelity that the record has figures for."""
    plots = (_calibration(view), _processors(view), _lateness(view))
    return [plot for plot in plots if plot is not None]


def _calibration(view: RunView) -> Plot | None:
    rows = view.material.calibration.get("directions") or ()
    points = [
        (delay, rate)
        for row in rows
        if (delay := number(row.get("delay_error_ms"))) is not None
        and (rate := number(row.get("rate_error_pct"))) is not None
    ]
    if not points:
        return None
    figure, axes = new_plot()
    delays, rates = zip(*points, strict=True)
    axes.scatter(delays, rates, s=26, color=LIGHT["compute"], alpha=0.75, linewidth=0)
    axes.axhline(0, color=LIGHT["muted"], linewidth=0.8)
    axes.axvline(0, color=LIGHT["muted"], linewidth=0.8)
    axes.grid(axis="both", visible=True)
    axes.set_xlabel("error of the median one-way delay, ms")
    axes.set_ylabel("error of the rate, %")
    tolerance = view.material.calibration.get("tolerance") or {}
    caption = f"Each dot is one of {len(points)} directions, measured before the training."
    if tolerance:
        caption += (
            f" Tolerated: {tolerance.get('rate_pct')} % and {tolerance.get('median_delay_ms')} ms."
        )
    source = view.material.source("calibration.json")
    return Plot(
        "calibration", "What the links do, against what was asked", caption, (source,), figure
    )


def _processors(view: RunView) -> Plot | None:
    lines = (
        ("cpu_busy_pct", "processors busy", LIGHT["compute"]),
        ("links_cpu_pct", "links, of one core", LIGHT["exchange"]),
        ("busiest_switch_cpu_pct", "busiest switch, of one core", LIGHT["send"]),
        ("steal_pct", "stolen by the hypervisor", LIGHT["bad"]),
    )
    plot = _over_time(view, lines, "%")
    if plot is None:
        return None
    plot.axes[0].set_ylim(0, 105)
    caption = (
        "A sample a second. Busy processors alone do no harm: links and switches go first. "
        f"More than {DEFAULT_THRESHOLDS.steal_pct:g} % stolen for "
        f"{DEFAULT_THRESHOLDS.sustained_s:g} s makes a run invalid."
    )
    source = (view.material.source("fidelity.jsonl"),)
    return Plot("processors", "Processors while it trained", caption, source, plot)


def _lateness(view: RunView) -> Plot | None:
    lines = (
        ("lateness_p99_us", "99th percentile", LIGHT["receive"]),
        ("lateness_p50_us", "median", LIGHT["exchange"]),
    )
    plot = _over_time(view, lines, "lateness, \N{MICRO SIGN}s")
    if plot is None or not any(row.get("releases") for row in view.material.fidelity):
        return None
    axes = plot.axes[0]
    logarithmic(axes)
    axes.set_ylim(bottom=10)
    axes.axhline(DEFAULT_THRESHOLDS.late_us, color=LIGHT["bad"], lw=1.2, linestyle=(0, (4, 3)))
    caption = (
        "How long after its time a link let a frame go. Later than the dashed line is late; more "
        f"than {DEFAULT_THRESHOLDS.late_pct:g} % of them makes a run invalid."
    )
    source = (view.material.source("fidelity.jsonl"),)
    return Plot("lateness", "How late links let frames go", caption, source, plot)


def _over_time(view: RunView, lines: Sequence[tuple[str, str, str]], label: str) -> Figure | None:
    rows = [row for row in view.material.fidelity if number(row.get("time")) is not None]
    if not rows:
        return None
    figure, axes = new_plot()
    for name, text, colour in lines:
        _line(axes, rows, view.start_s, name, text, colour)
    axes.set_xlabel("seconds since the first local step")
    axes.set_ylabel(label)
    legend_above(axes, columns=2)
    return figure if axes.lines else None


def _line(
    axes: Axes, rows: Sequence[dict[str, Any]], start: float, name: str, text: str, colour: str
) -> None:
    points = [(r["time"] - start, y) for r in rows if (y := number(r.get(name))) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.3, label=text)
