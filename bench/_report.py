"""What every bench does with its figures: medians, goals, a table, JSON, a plot for each group."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path("build/bench")
Samples = dict[str, list[float]]
Experiment = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Goal:
    """The bound of a figure: the largest size it may have, or the least."""

    bound: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else abs(value) <= self.bound


@dataclass(frozen=True)
class Figure:
    """What is known of a figure before it is measured; `group` names its plot."""

    unit: str
    group: str
    goal: Goal | None = None


@dataclass(frozen=True)
class Row:
    """One figure beside its goal, with every repetition that its median comes from."""

    what: str
    value: float
    unit: str
    goal: str
    met: bool
    group: str
    repetitions: tuple[float, ...]


def row_of(what: str, values: Sequence[float], figure: Figure) -> Row:
    value = statistics.median(values)
    goal = figure.goal
    return Row(
        what,
        round(value, 4),
        figure.unit,
        str(goal or ""),
        goal is None or goal.met(value),
        figure.group,
        tuple(round(each, 4) for each in values),
    )


def measure(experiments: Sequence[Experiment], repeat: int) -> Samples:
    """Carry all experiments out, then all again: what disturbs one repetition spares another."""
    samples: Samples = {}
    for _ in range(repeat):
        for experiment in experiments:
            for name, value in experiment().items():
                samples.setdefault(name, []).append(value)
                print(f"  {name}: {value:.3f}", file=sys.stderr, flush=True)
    return samples


def arguments(description: str, repeat: int) -> argparse.ArgumentParser:
    """The options of every bench."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--only", default="", help="run experiments whose name contains this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument(
        "--plot", type=Path, default=RESULTS, help=f"where plots go, by default {RESULTS}"
    )
    return parser


def conclude(rows: Sequence[Row], name: str, options: argparse.Namespace) -> int:
    """Show, write and plot; the exit code says whether every goal was met."""
    show(rows)
    one, five, fifteen = os.getloadavg()
    print(f"load average {one:.2f} (1 min), {five:.2f} (5 min), {fifteen:.2f} (15 min)")
    if options.json:
        options.json.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    for group in dict.fromkeys(row.group for row in rows):
        print(plot([row for row in rows if row.group == group], name, group, options.plot))
    return 0 if all(row.met for row in rows) else 1


def show(rows: Sequence[Row]) -> None:
    table = Table("what", "measured", "from", "to", "unit", "goal", "met")
    for row in rows:
        met = ("yes" if row.met else "NO") if row.goal else ""
        spread = (f"{min(row.repetitions):.3f}", f"{max(row.repetitions):.3f}")
        table.add_row(row.what, f"{row.value:.3f}", *spread, row.unit, row.goal, met)
    Console(width=120).print(table)


def plot(rows: Sequence[Row], name: str, group: str, directory: Path) -> Path:
    """Draw one group: a bar each, every repetition as a dot, its goal as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 0.4 * len(rows) + 1.2), layout="constrained")
    for place, row in enumerate(rows):
        axes.barh(place, row.value, color="tab:blue" if row.met else "tab:red")
        axes.plot(row.repetitions, [place] * len(row.repetitions), "k.", markersize=4)
        bound = float(row.goal.split()[-1]) if row.goal else math.nan
        axes.plot([bound, bound], [place - 0.45, place + 0.45], color="tab:green")
    axes.set_yticks(range(len(rows)), [row.what for row in rows])
    axes.set_xlabel(f"{group}, {rows[0].unit}; green: goal")
    axes.invert_yaxis()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{group.replace(' ', '-')}.png"
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
