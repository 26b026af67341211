"""The plots of a comparison: every variant's median with its interval, and losses over time.

Each repetition is a small dot, the median a large one, the line through it its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.formats import digits, percent, seconds, size
from testbed.report.palette import LIGHT, series_colour
from testbed.report.plotting import NORMAL_INCHES, new_plot
from testbed.report.rounds import Round, elapsed_s, sent_bytes
from testbed.report.run_plots import Plot
from testbed.report.variants import COMPARISON, ComparisonView, Metric

VARIANT_RUNS = "variants/"
PREDICTED = "predicted_s"
WIDE_INCHES = 11.4
SECONDS_PER_CYCLE = "seconds_per_cycle"


@dataclass(frozen=True)
class MetricText:
    """What a metric is called, its axis, how it is written, and what to know about it."""

    title: str
    axis: str
    write: Callable[[Any], str]
    caption: str
    scale: float = 1.0


METRICS = {
    "time_to_target_s": MetricText(
        "Time to target", "seconds", seconds, "Seconds of training until the target loss."
    ),
    SECONDS_PER_CYCLE: MetricText(
        "Seconds of exchange a cycle",
        "seconds",
        seconds,
        "The plan's rounds once through, for an exact mean where the plan is made for it. "
        "Dark ticks are predicted.",
    ),
    "round_s": MetricText("Round", "seconds", seconds, "Local steps and exchange of a round."),
    "exposed_s": MetricText(
        "Exposed communication",
        "seconds",
        seconds,
        "Time of a round in which a worker neither computed nor was done.",
    ),
    "wan_bytes": MetricText(
        "Bytes between cities a cycle", "MB", size, "Each link counted that a message crosses.", 1e6
    ),
    "ratio": MetricText("Exchange over bound", "ratio", digits, "One is as fast as can be."),
    "consensus_distance": MetricText(
        "How far islands are apart",
        "consensus distance",
        digits,
        "Mean squared distance from the mean parameters, before the exchange.",
    ),
    "prediction_error_pct": MetricText(
        "Prediction off by", "%", percent, "Mean over the plan's rounds, without sign."
    ),
}


def headline_plots(view: ComparisonView) -> list[Plot]:
    """Return the plot of what variants are ranked by."""
    headline = _metric_plot(view, view.headline_metric, wide=True)
    return [] if headline is None else [headline]


def loss_plots(view: ComparisonView) -> list[Plot]:
    """Return the plots of every run's loss, against time and against bytes."""
    return [plot for plot in (_losses(view), _losses_by_bytes(view)) if plot is not None]


def metric_plots(view: ComparisonView) -> list[Plot]:
    """Return a small plot for every metric but the headline's."""
    names = [name for name in METRICS if name != view.headline_metric]
    return [plot for name in names if (plot := _metric_plot(view, name)) is not None]


def _metric_plot(view: ComparisonView, name: str, wide: bool = False) -> Plot | None:
    text = METRICS[name]
    if not any(name in one.metrics for one in view.variants):
        return None
    height = 0.75 + 0.27 * len(view.variants)
    narrow = _metric_figure(view, name, (NORMAL_INCHES[0], height))
    figure, phone = narrow, None
    if wide:
        figure, phone = _metric_figure(view, name, (WIDE_INCHES, height + 0.2)), narrow
    return Plot(f"compared_{name}", text.title, text.caption, (COMPARISON,), figure, phone)


def _metric_figure(view: ComparisonView, name: str, size_inches: tuple[float, float]) -> Figure:
    text = METRICS[name]
    figure, axes = new_plot(size_inches)
    rows = [(place, one) for place, one in enumerate(view.variants) if name in one.metrics]
    most = max([_largest(one.metrics[name]) for _, one in rows] + [1e-9]) / text.scale
    for place, one in rows:
        _interval(axes, place, one.metrics[name], text.scale, most)
        _written(axes, place, one.metrics[name], text.write)
        predicted = one.metrics.get(PREDICTED) if name == SECONDS_PER_CYCLE else None
        if predicted and predicted.median is not None:
            axes.vlines(predicted.median, place - 0.38, place + 0.38, color=LIGHT["bound"], lw=2.2)
    _variant_axis(axes, view)
    axes.set_xlim(0, most * 1.06)
    axes.set_xlabel(text.axis)
    return figure


def _written(axes: Axes, place: int, metric: Metric, write: Callable[[Any], str]) -> None:
    """Write the median beside its line, where the eye finds all of them in a column."""
    known = metric.median is not None
    axes.annotate(
        write(metric.median) if known else "not reached",
        (1.01, place),
        xycoords=("axes fraction", "data"),
        va="center",
        weight="bold",
        color=LIGHT["ink"] if known else LIGHT["bad"],
        annotation_clip=False,
    )


def _largest(metric: Metric) -> float:
    ends = (metric.median, metric.high, metric.low, *metric.values)
    return max((value for value in ends if value is not None), default=0.0)


def _interval(axes: Axes, place: int, metric: Metric, scale: float, most: float) -> None:
    colour = series_colour(place)
    known = [value / scale for value in metric.values if value is not None]
    axes.plot(known, [place] * len(known), "o", ms=4, color=colour, alpha=0.45, mew=0)
    if metric.median is None:
        return
    low = metric.median if metric.low is None else metric.low
    high = most * scale if metric.high is None else metric.high
    axes.plot([low / scale, high / scale], [place, place], color=colour, lw=2.4)
    edge = LIGHT["panel"]
    axes.plot(metric.median / scale, place, "o", ms=8.5, color=colour, mec=edge, mew=1.2)


def _variant_axis(axes: Axes, view: ComparisonView) -> None:
    names = [one.name if one.valid else f"{one.name} (not valid)" for one in view.variants]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)


# --- losses ---------------------------------------------------------------------------------------


def _losses(view: ComparisonView) -> Plot | None:
    figure = _loss_lines(view, elapsed_s, "seconds since the first local step")
    caption = "A line for the rounds.jsonl of each run: mean over the islands after each round."
    return _loss_plot("compared_loss_by_time", "Loss against time", caption, figure)


def _losses_by_bytes(view: ComparisonView) -> Plot | None:
    def sent_mb(rounds: Sequence[Round]) -> list[float]:
        return [count / 1e6 for count in sent_bytes(rounds)]

    figure = _loss_lines(view, sent_mb, "MB over the links between cities, each link counted")
    caption = "The same losses against what the WAN had carried by then."
    return _loss_plot("compared_loss_by_bytes", "Loss against bytes", caption, figure)


def _loss_plot(name: str, title: str, caption: str, figure: Figure | None) -> Plot | None:
    return None if figure is None else Plot(name, title, caption, (VARIANT_RUNS,), figure)


def _loss_lines(
    view: ComparisonView, x_of: Callable[[Sequence[Round]], Sequence[float]], label: str
) -> Figure | None:
    figure, axes = new_plot((NORMAL_INCHES[0], 3.6))
    for place, one in enumerate(view.variants):
        named = one.name
        for run in one.runs:
            losses = [x.figures.get("held_out_loss") for x in run.rounds]
            points = [
                (a, b) for a, b in zip(x_of(run.rounds), losses, strict=True) if b is not None
            ]
            if points:
                style: dict[str, Any] = {"color": series_colour(place), "lw": 1.6, "alpha": 0.8}
                axes.plot(*zip(*points, strict=True), label=named, **style)
                named = "_"
    if not axes.lines:
        return None
    if view.target_loss is not None:
        axes.axhline(view.target_loss, color=LIGHT["predicted"], lw=1.2, linestyle=(0, (4, 3)))
    axes.set_xlabel(label)
    axes.set_ylabel("held-out loss")
    axes.set_xlim(left=0)
    axes.legend(loc="upper right", fontsize=8.5, handlelength=1.2, labelspacing=0.3)
    return figure
