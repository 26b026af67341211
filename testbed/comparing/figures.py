"""The figures of one run that variants are compared by, from its summary and manifest. Pure.

A *cycle* is the plan's rounds once through, after which every island holds the exact mean if the
plan is made for that; plans of one round and of several are so compared by what they are for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from testbed.record.tables import wan_bytes
from topologies.model import Direction

Json = Mapping[str, Any]

TIME_TO_TARGET = "time_to_target_s"
SECONDS_PER_CYCLE = "seconds_per_cycle"


@dataclass(frozen=True)
class Run:
    """One repetition of one variant.

    Attributes:
        variant: its name.
        repetition: from 1.
        path: its record, from the folder of the whole run.
        manifest: of the record.
        summary: of the record; None for a run that has none.
    """

    variant: str
    repetition: int
    path: str
    manifest: Json
    summary: Json | None

    @property
    def valid(self) -> bool:
        """Whether its figures may be cited."""
        return self.summary is not None and bool(self.summary["valid"])

    @property
    def reasons(self) -> list[str]:
        """Why they may not."""
        return ["it has no summary"] if self.summary is None else list(self.summary["reasons"])

    @property
    def plan_rounds(self) -> Sequence[Json]:
        """The different rounds of its plan."""
        rounds: Sequence[Json] = self.manifest.get("plan", {}).get("rounds", ())
        return rounds

    @property
    def cycle(self) -> Sequence[int]:
        """The order in which the plan's rounds repeat."""
        cycle: Sequence[int] = self.manifest.get("plan", {}).get("cycle") or [0]
        return cycle

    @property
    def target_loss(self) -> float | None:
        """The held-out loss that was asked for."""
        target = (self.summary or {}).get("time_to_target")
        return None if target is None else float(target["target_loss"])


Figure = Callable[[Json, Run], float | None]


def time_to_target_s(summary: Json, run: Run) -> float | None:
    """Return the seconds until the target loss; infinite if it was not reached, None without."""
    target = summary.get("time_to_target")
    if target is None:
        return None
    return math.inf if target["seconds"] is None else float(target["seconds"])


def wan_bytes_per_cycle(summary: Json, run: Run) -> float | None:
    """Return the bytes on all WAN links in a cycle, each counted at every link it crosses."""
    return _over_cycle(summary, run, lambda row: wan_bytes(row["link_bytes"]))


def link_bytes_per_cycle(summary: Json, run: Run) -> dict[str, float]:
    """Return the bytes on each WAN link direction in a cycle."""
    found = {}
    for name in summary["link_bytes"]:
        if not Direction.parse(name).is_access:
            carried = _over_cycle(summary, run, partial(_carried, name))
            if carried is not None:
                found[name] = carried
    return found


def _carried(name: str, row: Json) -> float:
    return float(row["link_bytes"].get(name, 0))


def _over_cycle(summary: Json, run: Run, amount: Callable[[Json], float]) -> float | None:
    """Return an amount added up over the rounds of a cycle, each by its median."""
    by_round: dict[int, list[float]] = {}
    for row in summary["rounds"]:
        by_round.setdefault(int(row.get("plan_round") or 0), []).append(amount(row))
    if not set(run.cycle) <= set(by_round):
        return None
    return sum(median(by_round[place]) for place in run.cycle)


def _median_of(name: str) -> Figure:
    def figure(summary: Json, run: Run) -> float | None:
        values = [row[name] for row in summary["rounds"] if row.get(name) is not None]
        return median(values) if values else None

    return figure


def _field(part: str, name: str) -> Figure:
    def figure(summary: Json, run: Run) -> float | None:
        value = (summary.get(part) or {}).get(name)
        return None if value is None else float(value)

    return figure


METRICS: Mapping[str, Figure] = {
    TIME_TO_TARGET: time_to_target_s,
    SECONDS_PER_CYCLE: _field("cycle", "median_s"),
    "predicted_s": _field("cycle", "predicted_s"),
    "cycle_error_pct": _field("cycle", "error_pct"),
    "round_s": _median_of("round_s"),
    "exposed_s": _median_of("exposed_s"),
    "wan_bytes": wan_bytes_per_cycle,
    "ratio": _median_of("ratio"),
    "consensus_distance": _median_of("consensus_distance"),
    "prediction_error_pct": _field("prediction", "mean_abs_error_pct"),
}
"""Every figure by its name: the headline first."""

PAIRED_METRICS = (TIME_TO_TARGET, SECONDS_PER_CYCLE, "round_s", "exposed_s", "wan_bytes")
"""Those by which variants are set against one another; less is better in each."""


def figures(run: Run) -> dict[str, float]:
    """Return what is known of a run, by the names of `METRICS`."""
    if run.summary is None:
        return {}
    found = {name: figure(run.summary, run) for name, figure in METRICS.items()}
    return {name: value for name, value in found.items() if value is not None}
