"""A calibration for people: one table, and plots of the thorough kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from testbed.calibration.result import Calibration, DirectionResult
from testbed.calibration.tolerance import Tolerance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    "Mbit/s asked",
    "achieved",
    "error %",
    "ms asked",
    "median",
    "error",
    "p99 error",
    "loss % asked",
    "achieved",
)


def calibration_table(calibration: Calibration) -> Table:
    """Return a row for each direction; what is off by more than its tolerance is red."""
    table = Table(
        title=f"Links, measured at their own two ends in {calibration.seconds:.1f} s",
        title_justify="left",
        caption=tolerance_text(calibration.tolerance),
        caption_justify="left",
    )
    table.add_column("direction", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for one in sorted(calibration.results, key=lambda one: one.direction.is_access):
        table.add_row(str(one.direction), *_cells(one), style="red" if one.faults else None)
    return table


def tolerance_text(tolerance: Tolerance) -> str:
    """Return the tolerances in a line."""
    return (
        f"tolerated: rate {tolerance.rate_pct:g} % either way, median delay "
        f"{tolerance.median_delay_ms:g} ms either way, 99th percentile "
        f"{tolerance.p99_delay_ms:g} ms later; no frame lost that is not asked to be"
    )


def verdict(calibration: Calibration) -> str:
    """Return the worst errors in a line, for where a table is too much."""
    rate, delay = calibration.worst_rate_error_pct, calibration.worst_delay_error_ms
    if rate is None or delay is None:
        return "links carry nothing"
    return f"worst rate error {rate:+.2f} %, worst delay error {delay:+.3f} ms"


def _cells(one: DirectionResult) -> tuple[str, ...]:
    asked, measured = one.asked, one.measured
    return (
        f"{asked.rate_mbps:g}",
        _number(measured.rate_mbps, ".2f"),
        _number(one.rate_error_pct, "+.2f"),
        f"{asked.one_way_delay_ms:g}",
        _number(measured.median_ms, ".3f"),
        _number(one.delay_error_ms, "+.3f"),
        _number(one.p99_delay_error_ms, "+.3f"),
        f"{asked.loss_pct:g}",
        f"{measured.loss_pct:g}",
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def plot(calibration: Calibration, folder: Path) -> tuple[Path, Path]:
    """Draw asked against achieved figures, and how delay errors are distributed.

    Returns:
        `calibration.svg` and `calibration.png` in `folder`, which must exist.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    rate, delay, errors = figure.subplots(1, 3)
    results = calibration.results
    rates = [(one.asked.rate_mbps, one.measured.rate_mbps) for one in results]
    delays = [(one.asked.one_way_delay_ms, one.measured.median_ms) for one in results]
    _against(rate, rates, "rate in Mbit/s")
    _against(delay, delays, "one-way delay in ms, median")
    _distribution(errors, calibration)
    paths = folder / "calibration.svg", folder / "calibration.png"
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _against(axes: Axes, pairs: Sequence[tuple[float, float | None]], what: str) -> None:
    came = [(asked, achieved) for asked, achieved in pairs if achieved is not None]
    top = 1.1 * max((value for pair in came for value in pair), default=1.0)
    axes.plot([0, top], [0, top], color="0.7", linewidth=1, label="as asked")
    axes.plot([asked for asked, _ in came], [value for _, value in came], "o", markersize=4)
    axes.set(xlabel=f"asked {what}", ylabel="achieved", xlim=(0, top), ylim=(0, top))
    axes.legend(frameon=False)


def _distribution(axes: Axes, calibration: Calibration) -> None:
    """One curve a direction: its every frame's delay minus what is asked."""
    for one in calibration.results:
        errors = sorted(x - one.asked.one_way_delay_ms for x in one.measured.one_way_ms)
        shares = [(place + 1) / len(errors) for place in range(len(errors))]
        axes.step(errors, shares, where="post", linewidth=0.7, alpha=0.6)
    pooled = calibration.delay_errors_ms()
    if pooled:
        least, most = min(pooled[0], 0.0), pooled[int(0.999 * (len(pooled) - 1))]
        axes.set_xlim(least, max(most, least + 0.1))
    axes.set(xlabel="error of one-way delay in ms", ylabel="share of frames", ylim=(0, 1))
    axes.grid(alpha=0.3)
