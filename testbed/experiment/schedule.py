"""A schedule: rounds of cliques that workers run in turn, and the file that tells them. Pure.

A worker knows ranks, not sites: a site's rank is its place in `rank_order`, which follows the best
ring of the network, read backwards, because gloo's ring sends from each rank to the one before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from schedules.capabilities import RING
from schedules.plan import PlannedRound
from topologies.model import Topology

FORMAT = 1
BITS_PER_MBIT = 1e6
FILE_NAME = "schedule.json"


@dataclass(frozen=True)
class Schedule:
    """Rounds to run in turn.

    Attributes:
        rounds: the different rounds.
        cycle: the order in which they run, by index, over and over.
        rank_order: site codes; the place is the rank.
        written: what else the plan says, for the record.
    """

    rounds: tuple[PlannedRound, ...]
    cycle: tuple[int, ...]
    rank_order: tuple[str, ...]
    written: Mapping[str, Any]

    def plan_round(self, number: int) -> int:
        """Return which of the rounds the training's round of this number (from 0) is."""
        return self.cycle[number % len(self.cycle)]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of collectives it uses, sorted."""
        return tuple(sorted({one.collective for one in self.rounds}))

    @property
    def is_one_clique(self) -> bool:
        """Whether every round is one clique of all islands."""
        return all(len(one.cliques[0]) == len(self.rank_order) for one in self.rounds)

    @property
    def exact_mean(self) -> bool:
        """Whether after each cycle all islands hold the mean of all of them."""
        size = len(self.rank_order)
        product = np.eye(size)
        for place in self.cycle:
            product = _averaging(self.rounds[place].cliques, self.rank_order) @ product
        return bool(np.allclose(product, 1 / size, atol=1e-9))


def _averaging(cliques: Sequence[Sequence[str]], codes: Sequence[str]) -> Any:
    """Return (N, N) what a round does to the islands' values: means within its cliques."""
    number = {code: place for place, code in enumerate(codes)}
    weights = np.eye(len(codes))
    for clique in cliques:
        members = [number[code] for code in clique]
        weights[np.ix_(members, members)] = 1 / len(members)
    return weights


@cache
def schedule_format() -> TypeAdapter[Schedule]:
    """Return what reads and writes schedules on their way into a run."""
    return TypeAdapter(Schedule)


def to_data(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as plain data that `from_data` reads back."""
    data: dict[str, Any] = schedule_format().dump_python(schedule, mode="json")
    return data


def from_data(data: Mapping[str, Any]) -> Schedule:
    """Return the schedule that `to_data` wrote."""
    return schedule_format().validate_python(data)


def for_the_record(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as a manifest keeps it: the fields of a plan, and the order of ranks."""
    own = to_data(schedule)
    return {**own.pop("written"), **own, "exact_mean": schedule.exact_mean}


def transfer_s(planned: PlannedRound, topology: Topology, message_bytes: float) -> float:
    """Return the time of a round's busiest direction, headers left out."""
    slowest = min(spec.rate_mbps for spec in topology.directions().values())
    return planned.predicted.transfer_units * 8 * message_bytes / (slowest * BITS_PER_MBIT)


def worker_file(
    schedule: Schedule, predicted_s: Sequence[float], paces_mbps: Sequence[float | None]
) -> str:
    """Return the text of the file that tells workers their rounds.

    Args:
        schedule: the rounds.
        predicted_s: seconds that each of the rounds should take.
        paces_mbps: of each round's connections; None where TCP finds its own pace.
    """
    rounds = [
        {"cliques": _cliques(one, schedule.rank_order, pace_mbps), "predicted_s": seconds}
        for one, seconds, pace_mbps in zip(schedule.rounds, predicted_s, paces_mbps, strict=True)
    ]
    told = {
        "format": FORMAT,
        "sites": list(schedule.rank_order),
        "rounds": rounds,
        "cycle": list(schedule.cycle),
        "exact_mean": schedule.exact_mean,
        **_final(schedule),
    }
    return json.dumps(told, indent=1) + "\n"


def _final(schedule: Schedule) -> dict[str, Any]:
    """Return how the last mean is taken: by a clique of the plan if it can, else by the best ring.

    An exchange of everybody would take several times as long, for a mean that is not timed.
    """
    size = len(schedule.rank_order)
    if any(len(one.cliques[0]) == size for one in schedule.rounds):
        return {}
    return {"final": {"ranks": list(reversed(range(size))), "kind": RING}}


def _cliques(
    planned: PlannedRound, rank_order: Sequence[str], pace_mbps: float | None
) -> list[dict[str, Any]]:
    kind = planned.collective
    pace = {} if pace_mbps is None else {"pace_mbps": pace_mbps}
    return [
        {"ranks": clique_ranks(kind, clique, rank_order), "kind": kind, **pace}
        for clique in planned.cliques
    ]


def clique_ranks(kind: str, clique: Sequence[str], rank_order: Sequence[str]) -> list[int]:
    """Return a clique's ranks: of a ring in the order in which data flow, else ascending."""
    ranks = [rank_order.index(code) for code in clique]
    return ranks if kind == RING else sorted(ranks)
