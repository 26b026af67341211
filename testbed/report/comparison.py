"""Writes the report of a comparison: variants against each other, and links to every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.record.damage import readable
from testbed.report.comparison_plots import METRICS, headline_plots, loss_plots, metric_plots
from testbed.report.comparison_tables import (
    heat_table,
    inversion_lines,
    metric_table,
    pair_table,
    write_values,
)
from testbed.report.formats import digits, percent
from testbed.report.headline import BAD, GOOD, OPEN, Fact, Verdict, few
from testbed.report.machine_plots import machine_plots
from testbed.report.page import Drawing, environment, manifest_data, phone_map
from testbed.report.plotting import report_style
from testbed.report.run_plots import Plot
from testbed.report.tables import calibration_table
from testbed.report.variants import COMPARISON, REPORT, ComparisonView, VariantView, view_comparison
from testbed.report.view import RunView, view_run
from testbed.report.writing import PLOTS, draw_and_write, remove_plots, write_page

MOST_PLANNED_ROUNDS = 4
VALUES = "comparison.csv"
TIMES = "\N{NARROW NO-BREAK SPACE}\N{MULTIPLICATION SIGN}"


def write_comparison_report(run: Path) -> Path:
    """Write `report.html` of a run that compared variants, its plots, and `comparison.csv`.

    Args:
        run: the folder of the record, with `comparison.json` and `variants/`.

    Returns:
        The page; it links to the reports of single runs as far as they are written.

    Raises:
        UserError: there is no comparison there.
        RunError: a file is damaged.
    """
    with readable(run):
        return _write(run)


def _write(run: Path) -> Path:
    view, shared = view_comparison(run), view_run(run)
    remove_plots(run / PLOTS)
    with report_style():
        drawings = {
            "headline": _drawn(headline_plots(view), run / PLOTS),
            "losses": _drawn(loss_plots(view), run / PLOTS),
            "metrics": _drawn(metric_plots(view), run / PLOTS),
            "machine": _drawn(machine_plots(shared), run / PLOTS),
        }
    write_values(view, run / VALUES)
    return write_page(run / REPORT, comparison_page(view, shared, drawings))


def _drawn(plots: Sequence[Plot], folder: Path) -> list[Drawing]:
    return [draw_and_write(plot, folder) for plot in plots]


def comparison_page(
    view: ComparisonView, shared: RunView, drawings: Mapping[str, Sequence[Drawing]]
) -> str:
    """Return the page of a comparison.

    Args:
        view: the comparison.
        shared: the record of the network that all variants ran on.
        drawings: by section: `headline`, `losses`, `metrics`, `machine`.
    """
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            title=str(view.data.get("experiment") or view.data.get("topology") or view.path.name),
            description=describe(view),
            verdict=judge(view),
            facts=key_figures(view),
            view=view,
            drawings=drawings,
            plans=plan_maps(view, shared),
            metric_table=metric_table(view),
            pair_table=pair_table(view),
            heat=heat_table(view),
            inversions=inversion_lines(view),
            calibration_table=calibration_table(shared),
            manifest=manifest_data(shared),
            islands=len(shared.material.sites),
        )
    )


def describe(view: ComparisonView) -> str:
    """Return one sentence of what was compared."""
    repetitions = max((len(one.runs) for one in view.variants), default=0)
    times = "once each" if repetitions == 1 else f"{repetitions} times each, in turn"
    where = view.data.get("topology") or "one network"
    return f"{len(view.variants)} variants on {where}, run {times}."


def judge(view: ComparisonView) -> Verdict:
    """Return whether the figures may be cited, with a line for every run whose figures may not."""
    reasons = few(
        [
            f"{one.name}, repetition {run.repetition}: {run.reason}"
            for one in view.variants
            for run in one.runs
            if not run.valid
        ],
        COMPARISON,
    )
    statement = str(view.data.get("statement") or "")
    if not view.variants or not all(one.valid for one in view.variants):
        return Verdict(BAD, "Not valid in part: do not cite", reasons)
    said = (statement,) if statement else ()
    if not reasons:
        return Verdict(GOOD, "Valid", said)
    runs = [run for one in view.variants for run in one.runs]
    title = f"Valid by {sum(run.valid for run in runs)} of {len(runs)} runs"
    return Verdict(OPEN, title, (*said, *(f"Left out: {reason}" for reason in reasons)))


def key_figures(view: ComparisonView) -> list[Fact]:
    """Return the best variant and how it stands against what people use today."""
    best, name = view.best(), view.headline_metric
    if best is None:
        return []
    text = METRICS[name]
    target = f" a held-out loss of {digits(view.target_loss)}" if view.target_loss else ""
    note = f"{best.name}" + (f", to{target}" if name == "time_to_target_s" and target else "")
    found = [Fact(f"{text.title}, best", text.write(best.metrics[name].median), note, COMPARISON)]
    for label, key in (
        ("Speed-up over naive exchange", "naive_exchange"),
        ("Speed-up over best ring", "ring"),
    ):
        found += _speed_up(view, best, name, label, view.data.get(key))
    return [*found, *_worst_prediction(view)]


def _speed_up(
    view: ComparisonView, best: VariantView, metric: str, label: str, other: Any
) -> list[Fact]:
    """Return how many times as fast as another variant the best is, with its interval."""
    pair = view.pair(best.name, other, metric)
    if other in (None, best.name) or pair is None or not pair.get("ratio"):
        return []
    value = f"{digits(1 / pair['ratio'])}{TIMES}"
    note = f"{best.name} against {other}"
    if pair.get("low") and pair.get("high"):
        note += f"; 95 %: {digits(1 / pair['high'])} to {digits(1 / pair['low'])}"
    if pair.get("within_noise"):
        note += "; within the noise"
    return [Fact(label, value, note, COMPARISON)]


def _worst_prediction(view: ComparisonView) -> list[Fact]:
    errors = [
        (abs(metric.median), one.name)
        for one in view.variants
        if (metric := one.metrics.get("prediction_error_pct")) and metric.median is not None
    ]
    if not errors:
        return []
    mean = sum(error for error, _ in errors) / len(errors)
    worst, name = max(errors)
    note = f"mean over variants; worst {percent(worst)}, {name}"
    return [Fact("Prediction off by", percent(mean), note, COMPARISON)]


def plan_maps(view: ComparisonView, shared: RunView) -> dict[str, Any] | None:
    """Return, for each variant, the rounds of its plan to draw small; None without a topology."""
    topology = shared.material.topology
    if topology is None:
        return None
    drawn = []
    for one in view.variants:
        rounds = one.planned[:MOST_PLANNED_ROUNDS]
        states = [
            {"used": {}, "clique": {site: i for i, c in enumerate(cliques) for site in c.sites},
             "frame": {"label": f"Round {place + 1}", "cliques": cliques}}
            for place, cliques in enumerate(rounds)
        ]  # fmt: skip
        drawn.append((one, states, len(one.planned) - len(states)))
    return {**phone_map(topology), "variants": drawn}
