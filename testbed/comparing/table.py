"""Tables and sentences of a comparison, made from its figures alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from testbed.comparing.comparison import Comparison, Variant
from testbed.comparing.figures import SECONDS_PER_CYCLE, TIME_TO_TARGET, Run
from testbed.comparing.intervals import Interval, statement
from testbed.comparing.pairs import Ratio
from testbed.record.tables import MISSING, megabytes, number

NOISE_MARK = "~"
BOTH_TECHNOLOGIES = "multicast+aggregation"


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the headline, the other figures, the speed-ups and what they are worth."""
    console.print(headline_table(comparison))
    console.print(figures_table(comparison))
    console.print(speed_up_table(comparison))
    for line in closing_lines(comparison):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("variant", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _add(table: Table, variant: Variant, *cells: str) -> None:
    table.add_row(variant.name, *cells, style=None if variant.valid else "red")


def headline_table(comparison: Comparison) -> Table:
    """Return the seconds to the target and to an exact mean, with intervals and the prediction."""
    target = comparison.target_loss
    asked = "no target" if target is None else f"held-out loss {target:g}"
    table = _table(
        f"Time to target ({asked}) and to an exact mean of all islands",
        "runs", "s to target [low high]", "s a mean [low high]", "predicted s", "error %",
    )  # fmt: skip
    for variant in comparison.variants:
        _add(
            table,
            variant,
            f"{len(variant.figures)}/{len(variant.runs)}",
            span(variant.metrics.get(TIME_TO_TARGET), 1),
            span(variant.metrics.get(SECONDS_PER_CYCLE), 2),
            _median(variant, "predicted_s", 2),
            _median(variant, "cycle_error_pct", 1),
        )
    return table


def figures_table(comparison: Comparison) -> Table:
    """Return medians of what lies behind the headline."""
    table = _table(
        "Medians: a round, a cycle's bytes on WAN links",
        "plan", "round s", "exposed\ns", "WAN MB\na cycle", "busiest\nlink MB", "ratio to\nbound",
        "consensus\ndistance", "rounds'\nerror %",
    )  # fmt: skip
    for variant in comparison.variants:
        _add(
            table,
            variant,
            variant.plan or MISSING,
            _median(variant, "round_s", 2),
            _median(variant, "exposed_s", 2),
            megabytes(_value(variant, "wan_bytes"), 1),
            megabytes(max(variant.link_bytes.values(), default=None), 1),
            _median(variant, "ratio", 2),
            small(_value(variant, "consensus_distance")),
            _median(variant, "prediction_error_pct", 1),
        )
    return table


def speed_up_table(comparison: Comparison) -> Table:
    """Return how many times as fast each variant is as the naive exchange and as the best ring."""
    table = _table(
        f"Speed-up [95 % interval], {NOISE_MARK} = within the noise",
        "to target, over\nexchange", "to target, over\nbest ring",
        "a mean, over\nexchange", "a mean, over\nbest ring",
    )  # fmt: skip
    for variant in comparison.variants:
        cells = [
            speed_up(comparison.pair(variant.name, reference, metric))
            for metric in (TIME_TO_TARGET, SECONDS_PER_CYCLE)
            for reference in (comparison.naive, comparison.ring)
        ]
        _add(table, variant, *cells)
    return table


def span(interval: Interval | None, digits: int) -> str:
    """Return a median with its interval; one value has none, and `never` is no target reached."""
    if interval is None:
        return MISSING
    middle = _finite(interval.median, digits)
    if len(interval.values) < 2:
        return middle
    return f"{middle} [{_finite(interval.low, digits)} {_finite(interval.high, digits)}]"


def _finite(value: float, digits: int) -> str:
    return number(value, digits) if math.isfinite(value) else "never"


def speed_up(ratio: Ratio | None) -> str:
    """Return how many times as fast, the inverse of a ratio of times, with its interval."""
    if ratio is None or ratio.ratio is None:
        return MISSING
    middle = f"{1 / ratio.ratio:.2f}"
    if ratio.low is None or ratio.high is None:
        return middle
    mark = f" {NOISE_MARK}" if ratio.within_noise else ""
    return f"{middle} [{1 / ratio.high:.2f} {1 / ratio.low:.2f}]{mark}"


def _value(variant: Variant, metric: str) -> float | None:
    interval = variant.metrics.get(metric)
    return None if interval is None or not math.isfinite(interval.median) else interval.median


def _median(variant: Variant, metric: str, digits: int) -> str:
    return number(_value(variant, metric), digits)


def small(value: float | None) -> str:
    """Return a number of any size in three digits."""
    return MISSING if value is None else f"{value:.3g}"


def closing_lines(comparison: Comparison) -> Iterator[str]:
    """Return what the tables come to, in sentences."""
    yield statement(comparison.repetitions)
    yield from _both_speed_ups(comparison)
    yield from rotation_lines(comparison)
    yield from order_lines(comparison)
    yield from _missing_references(comparison)
    for variant in comparison.variants:
        for run in variant.runs:
            yield from _left_out(run)
        if not variant.valid:
            yield f"{variant.name} has no valid run: its figures must not be cited."


def _left_out(run: Run) -> Iterator[str]:
    """Return why a run was left out: the first reason, which is most often the cause of others."""
    if run.reasons:
        more = len(run.reasons) - 1
        others = f" (and {more} more in its summary.json)" if more else ""
        yield f"INVALID, left out: {run.path}: {run.reasons[0]}{others}"


def _both_speed_ups(comparison: Comparison) -> Iterator[str]:
    """Return what multicast and aggregation together bring, over both references."""
    for metric, what in ((TIME_TO_TARGET, "to the target"), (SECONDS_PER_CYCLE, "a mean")):
        for variant in _with_both(comparison, metric):
            said = [
                f"{1 / found.ratio:.2f} x over the {name}"
                for name, reference in (
                    ("naive exchange", comparison.naive),
                    ("best ring", comparison.ring),
                )
                if (found := comparison.pair(variant.name, reference, metric)) and found.ratio
            ]
            if said:
                yield f"{variant.name}, {what}: {' and '.join(said)}."


def _with_both(comparison: Comparison, metric: str) -> list[Variant]:
    return [
        x for x in comparison.variants
        if x.capability == BOTH_TECHNOLOGIES and metric in x.metrics
    ]  # fmt: skip


def rotation_lines(comparison: Comparison) -> Iterator[str]:
    """Return for each collective whether rotating plans or the full clique are sooner at a mean."""
    for full in comparison.variants:
        for other in comparison.variants:
            if full.everybody and not other.everybody and full.collective == other.collective:
                found = comparison.pair(other.name, full.name, SECONDS_PER_CYCLE)
                if found is not None and found.ratio is not None:
                    yield _rotation_line(other, full, found, found.ratio)


def _rotation_line(other: Variant, full: Variant, found: Ratio, ratio: float) -> str:
    wins = other.name if ratio < 1 else full.name
    said = "within the noise" if found.within_noise else f"{wins} wins"
    reach = ""
    if found.low is not None and found.high is not None:
        reach = f" [{found.low:.2f} {found.high:.2f}]"
    return (
        f"{full.collective}: {other.name} ({other.plan}) takes {ratio:.2f}{reach} times as long to "
        f"a mean as {full.name} ({full.plan}): {said}."
    )


def order_lines(comparison: Comparison) -> Iterator[str]:
    """Return whether seconds to an exact mean come in the order that was predicted."""
    if not any("predicted_s" in variant.metrics for variant in comparison.variants):
        return
    clear = [one for one in comparison.inversions if not one.within_noise]
    unclear = [one for one in comparison.inversions if one.within_noise]
    if not clear:
        yield "Order of the variants by seconds to an exact mean: as predicted, none inverted" + (
            f" ({len(unclear)} within the noise)." if unclear else "."
        )
    for one in [*clear, *unclear]:
        what = "Within the noise" if one.within_noise else "ORDER INVERTED"
        alone = ", by one run of each" if one.within_noise is None else ""
        yield (
            f"{what}{alone}: {one.slower} was predicted to take {one.predicted_ratio:.2f} times as "
            f"long as {one.faster} and took {one.measured_ratio:.2f} times as long."
        )


def _missing_references(comparison: Comparison) -> Iterator[str]:
    if comparison.naive is None:
        yield "No variant is a full clique of `exchange`: no speed-up over the naive exchange."
    if comparison.ring is None:
        yield "No variant is a ring of everybody: no speed-up over it."
