"""The collectives of a schedule: opened once, at the start, then used round by round.

Every worker opens its cliques in the one order of the schedule. So whoever waits for the members of
a clique waits for workers that are busy with earlier ones, of which the very first has nobody to
wait for: no two can wait for each other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.collectives.base import Collective
from workloads.collectives.kinds import Assembly, Choice
from workloads.collectives.names import NETWORK_KINDS
from workloads.collectives.network import NetworkCollective
from workloads.errors import CollectiveError, UsageError
from workloads.training.schedule import Schedule, ScheduledClique

SILENCE_S = 1.0
SMALLEST_COUNTS = ("least_rate_kbps",)
LARGEST_COUNTS = ("rate_kbps", "round_trip_us", "failed_over")


@dataclass(frozen=True)
class Turn:
    """What one worker does in one round.

    Attributes:
        number: of the round, from 0.
        plan_round: which of the schedule's different rounds it is.
        clique: the worker's clique, or None where it is idle.
        collective: that clique's.
        meets_all: whether the clique is everybody.
    """

    number: int
    plan_round: int
    clique: ScheduledClique | None
    collective: Collective | None
    meets_all: bool


class Rotation:
    """The collectives of one worker's cliques.

    Raises:
        RendezvousError: a member of a clique cannot be connected to.
        UsageError: the job file lacks the group of a clique.
    """

    def __init__(self, assembly: Assembly, schedule: Schedule, rank: int) -> None:
        self._assembly = assembly
        self._schedule = schedule
        self._rank = rank
        self._opened = {
            clique: assembly.open(clique.kind, clique.ranks, clique.pace_mbps)
            for clique in schedule.distinct
            if rank in clique.ranks
        }

    def turn(self, number: int) -> Turn:
        """Return what this worker does in a round."""
        plan_round = self._schedule.plan_round(number)
        clique = self._schedule.rounds[plan_round].clique_of(self._rank)
        return Turn(
            number,
            plan_round,
            clique,
            None if clique is None else self._opened[clique],
            self._schedule.meets_all(number),
        )

    def begin_together(self) -> None:
        """Wait until all workers have opened their cliques, and begin at one moment.

        Raises:
            CollectiveError: a worker was lost, or does not come.
        """
        self._assembly.begin_together("the first round")

    @property
    def ends_in_mean(self) -> bool:
        """Whether all islands take one more mean after the last round."""
        return self._schedule.ends_in_mean

    def final(self) -> Collective:
        """Return the collective of everybody, once all have done their rounds and are silent.

        The silence lets whoever counts bytes tell those of the last round from what follows.

        Raises:
            CollectiveError: a worker was lost, or does not come.
        """
        self._assembly.await_all("the last mean")
        time.sleep(SILENCE_S)
        return self._opened[self._schedule.final]

    def counters(self) -> dict[str, int]:
        """Return what all collectives have counted, together."""
        return combined([one.counters() for one in self._opened.values()])

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._assembly.confess(reason)

    def close(self) -> None:
        """Part from the other workers once all are done, and free the sockets."""
        whole = self._opened.get(self._schedule.final)
        with contextlib.suppress(CollectiveError):
            if isinstance(whole, NetworkCollective):
                whole.barrier()  # nobody leaves who may still be needed for the last sum
            self._assembly.part()
        for collective in self._opened.values():
            collective.close()


def require_groups(schedule: Schedule, rank: int, choice: Choice) -> None:
    """Look up the groups of a worker's cliques, before anybody is waited for.

    Raises:
        UsageError: the job file lacks one, or cannot be read.
    """
    for clique in schedule.distinct:
        if rank in clique.ranks and clique.kind in NETWORK_KINDS:
            if choice.job is None:
                raise UsageError(f"the schedule has cliques of {clique.kind}: give --job-file FILE")
            choice.of(clique.kind).groups(clique.ranks)


def combined(counted: list[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of some counters by name; of rates and times the furthest."""
    names = dict.fromkeys(name for counters in counted for name in counters)
    return {name: _combined(name, [c[name] for c in counted if name in c]) for name in names}


def _combined(name: str, counts: list[int]) -> int:
    if name in SMALLEST_COUNTS:
        return min(counts)
    return max(counts) if name in LARGEST_COUNTS else sum(counts)
