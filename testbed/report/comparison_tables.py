"""The tables of a comparison."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.report.comparison_plots import METRICS
from testbed.report.formats import UNKNOWN, digits, number, size
from testbed.report.tables import Table, cut
from testbed.report.variants import COMPARISON, ComparisonView, Metric

DASH = "\N{EN DASH}"
MOST_HEAT_ROWS = 60


@dataclass(frozen=True)
class Heat:
    """What each direction carried in a cycle of each variant: text, and a share of the most."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


def metric_table(view: ComparisonView) -> Table:
    """Return every metric of every variant: the median and its interval."""
    names = [name for name in METRICS if any(name in one.metrics for one in view.variants)]
    rows = [
        (
            one.name + ("" if one.valid else " (not valid)"),
            one.capability or UNKNOWN,
            one.plan or one.collective,
            *(_with_interval(one.metrics.get(name), name) for name in names),
        )
        for one in view.variants
    ]
    columns = ("variant", "network", "plan", *(METRICS[name].title.lower() for name in names))
    words = frozenset({0, 1, 2})
    return cut("Every figure of every variant", columns, rows, source=COMPARISON, words=words)


def _with_interval(metric: Metric | None, name: str) -> str:
    if metric is None:
        return UNKNOWN
    write = METRICS[name].write
    if metric.median is None:
        return "not reached"
    if len(metric.values) < 2:
        return write(metric.median)
    high = "never" if metric.high is None else write(metric.high)
    return f"{write(metric.median)} ({write(metric.low)} {DASH} {high})"


def pair_table(view: ComparisonView) -> Table:
    """Return how variants stand against the naive exchange and the ring."""
    rows = [
        (
            str(pair.get("a")),
            str(pair.get("b")),
            METRICS[name].title.lower() if (name := str(pair.get("metric"))) in METRICS else name,
            digits(pair.get("ratio")),
            f"{digits(pair.get('low'))} {DASH} {digits(pair.get('high'))}",
            _noise(pair.get("within_noise")),
        )
        for pair in view.pairs
    ]
    columns = ("variant", "against", "by", "ratio", "interval, 95 %", "difference")
    words = frozenset({0, 1, 2, 5})
    title = "Ratios of variants: below one is less"
    return cut(title, columns, rows, source=COMPARISON, words=words)


def _noise(within: Any) -> str:
    return {True: "within the noise", False: "beyond the noise"}.get(within, "too few to say")


def inversion_lines(view: ComparisonView) -> list[str]:
    """Return a line for each pair that the prediction orders otherwise than the measurement."""
    order = view.data.get("order") or {}
    return [
        f"{one.get('faster')} was predicted to be faster than {one.get('slower')} "
        f"({digits(one.get('predicted_ratio'))} times), and was measured "
        f"{digits(one.get('measured_ratio'))} times as fast"
        + (", which is within the noise." if one.get("within_noise") else ".")
        for one in order.get("inverted") or ()
    ]


def heat_table(view: ComparisonView) -> Heat | None:
    """Return bytes by direction and variant; None where none are recorded."""
    carried = [one.link_bytes for one in view.variants]
    total: dict[str, float] = {}
    for of_variant in carried:
        for name, count in of_variant.items():
            total[name] = total.get(name, 0.0) + (number(count) or 0.0)
    names = sorted(sorted(total, key=lambda name: -total[name])[:MOST_HEAT_ROWS])
    most = max((number(c) or 0.0 for one in carried for c in one.values()), default=0.0)
    if not names or most <= 0:
        return None
    rows = tuple((name, tuple(_cell(one, name, most) for one in carried)) for name in names)
    return Heat(tuple(one.name for one in view.variants), rows)


def _cell(of_variant: Mapping[str, float], name: str, most: float) -> tuple[str, int]:
    count = number(of_variant.get(name)) or 0.0
    return (size(count) if count else UNKNOWN, round(100 * count / most))


def write_values(view: ComparisonView, path: Path) -> None:
    """Write every value of every metric as CSV, a row for each repetition that counts."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("variant", "metric", "place", "value"))
        for one in view.variants:
            for name, metric in one.metrics.items():
                for place, value in enumerate(metric.values, start=1):
                    writer.writerow((one.name, name, place, "" if value is None else value))
