"""Everything a summary is worked out from, and the rounds that follow from it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from testbed.experiment.background_load import BackgroundLoad
from testbed.measure.crosscheck import CrossCheckRow
from testbed.measure.planned import RoundPlan, total_expected
from testbed.measure.predict import ExpectedBytes
from testbed.measure.reach import Reachability
from testbed.measure.series import Series, traffic_between
from testbed.measure.windows import (
    CliqueTimes,
    RoundTimes,
    RoundWindow,
    WorkerRow,
    WorkerRows,
    clique_times,
    round_rows,
    round_times,
    round_windows,
)
from topologies.model import Direction
from workloads.training.estimates import consensus_of_round, gradient_noise_of_round

Row = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """Everything a summary is worked out from.

    Attributes:
        sites: islands that took part.
        workers: for each site the rows of its worker.
        links: for each direction its counters over time.
        message_bytes: what each island contributes to a round.
        rounds: the schedule's different rounds, with what is expected of each.
        cycle: the order in which they run, by index, over and over.
        exact_mean: whether islands hold the mean of all after each cycle.
        reach: round trips of all pairs, if they were measured.
        cross_check: what the witnesses of bytes said, if they were asked.
        target_loss: the held-out loss whose time is wanted.
        background: what other traffic put on directions beside the training.
        unjudged: why bytes cannot be held against the plan, such as a link that was down.
        further_reasons: why the run is invalid beside what is found here.
        machine_reasons: why the machine, not the network, may have made its figures.
    """

    sites: Sequence[str]
    workers: WorkerRows
    links: Mapping[Direction, Series]
    message_bytes: int
    rounds: Sequence[RoundPlan]
    cycle: Sequence[int] = (0,)
    exact_mean: bool = True
    reach: Reachability | None = None
    cross_check: Sequence[CrossCheckRow] = ()
    target_loss: float | None = None
    background: Mapping[Direction, BackgroundLoad] = field(default_factory=dict)
    unjudged: str = ""
    further_reasons: Sequence[str] = ()
    machine_reasons: Sequence[str] = ()

    @cached_property
    def participants(self) -> WorkerRows:
        """The rows of every island that took part, also of one that said nothing."""
        return {site: self.workers.get(site, ()) for site in self.sites}

    @cached_property
    def times(self) -> Sequence[RoundTimes]:
        """The times of every round that all islands finished."""
        return round_times(self.participants)

    @cached_property
    def windows(self) -> Sequence[RoundWindow]:
        """The stretch of time that belongs to each finished round."""
        return round_windows(self.participants)

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[int, WorkerRow]]:
        return {site: round_rows(rows) for site, rows in self.participants.items()}

    def rows(self, number: int) -> dict[str, WorkerRow]:
        """Return every island's row of a finished round."""
        return {site: rows[number] for site, rows in self._rows.items()}

    def plan_round(self, number: int) -> int:
        """Return which of the schedule's rounds a round of the training is."""
        return self.cycle[number % len(self.cycle)]

    def plan(self, number: int) -> RoundPlan:
        """Return what is expected of a round of the training."""
        return self.rounds[self.plan_round(number)]

    def predicted_s(self, number: int) -> float:
        """Return how long a round of the training should take; its first time is another."""
        plan, is_first = self.plan(number), number == self.cycle.index(self.plan_round(number))
        return plan.first_predicted_s if is_first else plan.predicted_s

    def expected(self) -> dict[Direction, ExpectedBytes]:
        """Return what all finished rounds together were to put on every direction."""
        runs = Counter(self.plan_round(one.number) for one in self.times)
        return total_expected(self.rounds, runs)


def finished_rounds(evidence: Evidence, first: int = 0) -> list[Row]:
    """Return one row for each round, from the first that is wanted, that every island finished.

    Seconds are those of `RoundTimes`; a round's `sync_s` is that of its slowest clique. Losses are
    means over the islands, the held-out loss weighed by the windows that each island evaluated;
    bytes are those that entered each direction in the round's window.
    """
    windows = {window.number: window for window in evidence.windows}
    wanted = [times for times in evidence.times if times.number >= first]
    return [_round(evidence, times, windows[times.number]) for times in wanted]


def settled_rounds(evidence: Evidence, first: int = 0) -> list[Row]:
    """Return the finished rounds whose bytes can no longer change, while the run goes on.

    The last one is left out: its window may still grow until the next round's quiet phase.

    Args:
        evidence: what is known so far.
        first: the first round that is wanted; those before are settled already.
    """
    return finished_rounds(evidence, first)[:-1]


def _round(evidence: Evidence, times: RoundTimes, window: RoundWindow) -> Row:
    number, by_site = times.number, evidence.rows(times.number)
    rows, plan = list(by_site.values()), evidence.plan(times.number)
    cliques = clique_times(plan.cliques, by_site)
    sync_s = max((one.sync_s for one in cliques), default=0.0)
    predicted_s = evidence.predicted_s(number)
    carried = traffic_between(evidence.links, window.start_s, window.end_s)
    apart, noise = consensus_of_round(rows), gradient_noise_of_round(rows)
    return {
        "round": number,
        "plan_round": evidence.plan_round(number),
        "start": window.start_s,
        "end": window.end_s,
        "local_s": times.longest_local_s,
        "wait_s": max((one.wait_s for one in cliques), default=0.0),
        "sync_s": sync_s,
        "exposed_s": mean_over(rows, "exposed_s"),
        "round_s": times.round_s,
        "cliques": [_clique(plan, one, predicted_s) for one in cliques],
        "bound_s": plan.bound.total_s,
        "ratio": ratio(sync_s, plan.bound.total_s),
        "predicted_s": predicted_s,
        "prediction_error_pct": error_pct(sync_s, predicted_s),
        "train_loss": mean_over(rows, "train_loss"),
        "held_out_loss": mean_over(rows, "held_out_loss", weight="held_out_windows"),
        "consensus_distance": apart and finite_or_none(apart.value),
        "gradient_noise": noise and noise.scale_islands,
        "link_bytes": {str(direction): counts.bytes for direction, counts in carried.items()},
    }


def _clique(plan: RoundPlan, times: CliqueTimes, predicted_s: float) -> Row:
    return {
        "sites": list(times.sites),
        "kind": plan.kind,
        "wait_s": times.wait_s,
        "sync_s": times.sync_s,
        "predicted_s": predicted_s,
    }


def mean_over(rows: Iterable[WorkerRow], name: str, weight: str | None = None) -> float | None:
    """Return the mean over the islands that have a value; None without any, or if one diverged."""
    weighed = [
        (float(row[name]), row.get(weight, 1) if weight else 1)
        for row in rows
        if row.get(name) is not None
    ]
    total = sum(w for _, w in weighed)
    mean = sum(x * w for x, w in weighed) / total if total else math.nan
    return finite_or_none(mean)


def finite_or_none(value: float) -> float | None:
    """Return a number, or None for one that a diverged training leaves."""
    return value if math.isfinite(value) else None


def ratio(measured: float, expected: float) -> float | None:
    """Return measured / expected, or None where nothing was expected."""
    return measured / expected if expected > 0 else None


def error_pct(measured_s: float | None, predicted_s: float) -> float | None:
    """Return by how many percent a measured time is off what was predicted for it."""
    if measured_s is None or predicted_s <= 0:
        return None
    return 100 * (measured_s / predicted_s - 1)
