"""The plots of one run: training, rounds, bytes, consensus. Each tells which files it is made of.

A plot is left out where its figures are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from testbed.report.formats import number
from testbed.report.palette import LIGHT, series_colour
from testbed.report.plotting import NORMAL_INCHES, legend_above, logarithmic, new_plot
from testbed.report.rounds import column, elapsed_s, has, is_access, sent_bytes
from testbed.report.view import RunView

ROUNDS, SUMMARY = "rounds.jsonl", "summary.json"
MOST_BARS = 60
MOST_NAMED_LINES = 10
LEAST_SPAN_OF_LOGARITHM = 5.0
MOST_DIRECTIONS = 40
QUIET_SHARE = 0.01  # of the busiest direction: what acknowledgements alone make


@dataclass(frozen=True)
class Plot:
    """A figure of a report.

    Attributes:
        name: of its files, and its identifier in the page.
        title: what it shows.
        caption: how to read it.
        sources: the files of the record that its figures are from.
        figure: the drawing.
        phone: the same for a narrow page, where the drawing would be too small to read.
    """

    name: str
    title: str
    caption: str
    sources: tuple[str, ...]
    figure: Figure
    phone: Figure | None = None


def training_plots(view: RunView) -> list[Plot]:
    """Return the plots of loss and of distance."""
    drawn = (_loss_by_time, _loss_by_bytes, _consensus, _gradient_noise, _island_losses)
    return _drawn(view, drawn)


def round_plots(view: RunView) -> list[Plot]:
    """Return the plots of how long rounds took."""
    return _drawn(view, (_round_time, _round_parts))


def _drawn(view: RunView, draw: Sequence[Callable[[RunView], Plot | None]]) -> list[Plot]:
    return [plot for one in draw if (plot := one(view)) is not None]


# --- training -------------------------------------------------------------------------------------


def loss_unit(view: RunView) -> str:
    """Return the unit of the loss as the workers give it; empty where they do not."""
    starts = (row for rows in view.material.run.workers.values() for row in rows[:1])
    return next((str(row["loss_unit"]) for row in starts if row.get("loss_unit")), "")


def target_loss(view: RunView) -> float | None:
    """Return the loss that the run was to reach, if it had a target."""
    manifest = view.material.manifest
    reached = view.material.summary.get("time_to_target") or {}
    experiment = manifest.get("experiment") or {}
    own = [v for v in experiment.get("variants") or () if v.get("name") == manifest.get("variant")]
    asked = [number(where.get("target_loss")) for where in (reached, *own, experiment)]
    return next((loss for loss in asked if loss is not None), None)


def _loss_axis(axes: Axes, view: RunView) -> None:
    unit = loss_unit(view)
    axes.set_ylabel(f"loss ({unit})" if unit else "loss")
    target = target_loss(view)
    if target is not None:
        axes.axhline(target, color=LIGHT["predicted"], linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(
            "target",
            (1, target),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            color=LIGHT["predicted"],
        )


def _loss_lines(axes: Axes, view: RunView, x: Sequence[float]) -> None:
    marker = "o" if len(view.rounds) <= MOST_BARS else ""
    for name, label, colour in (
        ("train_loss", "training", LIGHT["train"]),
        ("held_out_loss", "held out", LIGHT["exchange"]),
    ):
        points = [
            (a, b) for a, b in zip(x, column(view.rounds, name), strict=True) if b is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, ms=4, color=colour, label=label)
    legend_above(axes)


def _loss_by_time(view: RunView) -> Plot | None:
    if not has(view.rounds, "held_out_loss") and not has(view.rounds, "train_loss"):
        return None
    figure, axes = new_plot()
    _loss_axis(axes, view)
    _loss_lines(axes, view, elapsed_s(view.rounds))
    axes.set_xlabel("seconds since the first local step")
    axes.set_xlim(left=0)
    caption = "Mean over the islands, at the end of each round."
    return Plot("loss_by_time", "Loss against time", caption, (ROUNDS,), figure)


def _loss_by_bytes(view: RunView) -> Plot | None:
    sent = sent_bytes(view.rounds)
    if not has(view.rounds, "held_out_loss") or not any(sent):
        return None
    figure, axes = new_plot()
    _loss_axis(axes, view)
    _loss_lines(axes, view, [count / 1e6 for count in sent])
    axes.set_xlabel("MB over the links between cities, each link counted")
    axes.set_xlim(left=0)
    caption = "The same losses against what the WAN had carried by then, headers included."
    return Plot("loss_by_bytes", "Loss against bytes", caption, (ROUNDS,), figure)


def _island_losses(view: RunView) -> Plot | None:
    lines = {site: _held_out(rows) for site, rows in view.material.run.workers.items()}
    if not any(lines.values()):
        return None
    figure, axes = new_plot()
    _loss_axis(axes, view)
    for place, (site, points) in enumerate(sorted(lines.items())):
        if points:
            label = site if len(lines) <= MOST_NAMED_LINES else None
            axes.plot(*zip(*points, strict=True), color=series_colour(place), lw=1.3, label=label)
    _round_axis(axes)
    legend_above(axes, columns=5)
    caption = "Held-out loss as each island measured it, after each exchange."
    return Plot("loss_by_island", "Loss of every island", caption, ("workers/",), figure)


def _held_out(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    return [
        (int(row["round"]) + 1, loss)
        for row in rows
        if row.get("event") == "round" and (loss := number(row.get("held_out_loss"))) is not None
    ]


def _consensus(view: RunView) -> Plot | None:
    caption = (
        "Mean squared distance of the islands' parameters from their mean, after local steps and "
        "before the exchange."
    )
    return _by_round(view, "consensus_distance", "How far the islands are apart", caption)


def _gradient_noise(view: RunView) -> Plot | None:
    caption = (
        "How many islands there would have to be for noise and signal of their mean change to be "
        "equal: with far fewer, more islands help."
    )
    return _by_round(view, "gradient_noise", "Gradient noise", caption)


def _by_round(view: RunView, name: str, title: str, caption: str) -> Plot | None:
    """Return a plot of one figure of every round; on a logarithmic axis if it varies much."""
    values = column(view.rounds, name)
    points = [(r.number + 1, v) for r, v in zip(view.rounds, values, strict=True) if v and v > 0]
    if not points:
        return None
    figure, axes = new_plot()
    marker = "o" if len(points) <= MOST_BARS else ""
    axes.plot(*zip(*points, strict=True), marker=marker, ms=4, color=LIGHT["receive"])
    seen = [value for _, value in points]
    if max(seen) >= LEAST_SPAN_OF_LOGARITHM * min(seen):
        logarithmic(axes)
    else:
        axes.set_ylim(bottom=0)
    _round_axis(axes)
    axes.set_ylabel(name.replace("_", " "))
    return Plot(name, title, caption, (ROUNDS,), figure)


# --- rounds ---------------------------------------------------------------------------------------


def _round_axis(axes: Axes) -> None:
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _round_time(view: RunView) -> Plot | None:
    if not has(view.rounds, "sync_s"):
        return None
    figure, axes = new_plot()
    numbers = [one.number + 1 for one in view.rounds]
    measured = [value or 0.0 for value in column(view.rounds, "sync_s")]
    if len(numbers) <= MOST_BARS:
        axes.bar(numbers, measured, 0.62, color=LIGHT["exchange"], label="measured")
    else:
        axes.plot(numbers, measured, color=LIGHT["exchange"], linewidth=1.2, label="measured")
    for name, label, colour in (
        ("predicted_s", "predicted", LIGHT["predicted"]),
        ("bound_s", "bound", LIGHT["bound"]),
    ):
        values = column(view.rounds, name)
        points = [(x, y) for x, y in zip(numbers, values, strict=True) if y is not None]
        if points:
            _ticks(axes, points, colour, label)
    _round_axis(axes)
    axes.set_ylabel("seconds to exchange")
    axes.set_ylim(bottom=0)
    legend_above(axes, reverse=True)
    caption = (
        "From the last island ready until the last one has the result. No method can be faster "
        "than the bound."
    )
    return Plot("round_time", "Time to exchange, against bound", caption, (ROUNDS,), figure)


def _ticks(axes: Axes, points: Sequence[tuple[float, float]], colour: str, label: str) -> None:
    """Mark a value at each round: a short line across its bar, or a thin curve for many."""
    x, y = zip(*points, strict=True)
    if len(points) > MOST_BARS:
        axes.plot(x, y, color=colour, linewidth=1.2, label=label)
        return
    axes.hlines(y, [a - 0.42 for a in x], [a + 0.42 for a in x], color=colour, lw=2.2, label=label)


def _round_parts(view: RunView) -> Plot | None:
    names = [n for n in ("local_s", "wait_s", "sync_s") if has(view.rounds, n)]
    if not names:
        return None
    figure, axes = new_plot()
    labels = {"local_s": "compute", "wait_s": "wait", "sync_s": "exchange"}
    numbers = [one.number + 1 for one in view.rounds]
    stack = {n: [value or 0.0 for value in column(view.rounds, n)] for n in names}
    colours = [LIGHT[labels[name]] for name in names]
    if len(numbers) > MOST_BARS:
        axes.stackplot(
            numbers, *stack.values(), labels=[labels[n] for n in names], colors=colours, lw=0
        )
    else:
        base = [0.0] * len(numbers)
        for name, colour in zip(names, colours, strict=True):
            axes.bar(numbers, stack[name], 0.62, base, color=colour, label=labels[name])
            base = [a + b for a, b in zip(base, stack[name], strict=True)]
    _round_axis(axes)
    axes.set_ylabel("seconds")
    legend_above(axes)
    caption = (
        "Local steps of the slowest island; first island ready to last island ready; exchange. "
        "The parts may overlap, so their sum can exceed the round."
    )
    return Plot("round_parts", "Where a round's time goes", caption, (ROUNDS,), figure)


# --- bytes ----------------------------------------------------------------------------------------


def byte_plots(view: RunView) -> list[Plot]:
    """Return the plots of bytes by direction: between cities, and of access ports."""
    busy = busy_directions(view.material.summary.get("link_bytes") or {})
    between = [row for row in busy if not is_access(row[0])]
    access = [row for row in busy if is_access(row[0])]
    caption = (
        "Bars are counted, dark ticks are predicted; frames with their headers, all rounds. "
        "Directions that carried hardly more than acknowledgements are in the table."
    )
    return [
        Plot(name, title, caption, (SUMMARY,), _byte_bars(rows, colour))
        for name, title, rows, colour in (
            ("link_bytes", "Between cities, against prediction", between, LIGHT["exchange"]),
            ("access_bytes", "Access ports, against prediction", access, LIGHT["compute"]),
        )
        if rows
    ]


def _byte_bars(rows: Sequence[tuple[str, Mapping[str, Any]]], colour: str) -> Figure:
    figure, axes = new_plot((NORMAL_INCHES[0], 0.75 + 0.2 * len(rows)))
    places = list(range(len(rows)))
    axes.barh(places, [row["measured_bytes"] / 1e6 for _, row in rows], 0.68, color=colour)
    for place, (_, row) in enumerate(rows):
        predicted = number(row.get("predicted_bytes"))
        if predicted is not None:
            axes.vlines(predicted / 1e6, place - 0.46, place + 0.46, LIGHT["bound"], lw=2.2)
    axes.set_yticks(places, [name for name, _ in rows])
    axes.tick_params(axis="y", labelsize=8.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", visible=True)
    axes.set_xlabel("MB")
    return figure


def busy_directions(
    link_bytes: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the directions that carried or should have carried something, WAN first.

    Those under a hundredth of the busiest are left out; of too many, the busiest are kept.
    """
    known = {
        n: row for n, row in link_bytes.items() if number(row.get("measured_bytes")) is not None
    }
    most = {n: _measured_or_predicted(row) for n, row in known.items()}
    least = QUIET_SHARE * max(most.values(), default=0.0)
    busiest = sorted((n for n in known if most[n] > least), key=lambda n: (-most[n], n))
    kept = sorted(busiest[:MOST_DIRECTIONS], key=lambda name: (is_access(name), name))
    return [(name, known[name]) for name in kept]


def _measured_or_predicted(row: Mapping[str, Any]) -> float:
    return max(float(row["measured_bytes"]), number(row.get("predicted_bytes")) or 0.0)
