"""The ring all-reduce of `torch.distributed` over one pinned interface, in any clique of a job.

An all-reduce of CPU tensors is gloo's ring (see `ring` for its direction and bytes). All members
add the chunks in the same order and copy the sums around, so that all end with the same bits; a
ring in another order adds in another order and may differ in the last bits.

A process group is made for each clique by itself: `torch.distributed.new_group` would want every
worker of the job to take part in each, and would sort the ranks, which decide where data flows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import timedelta

from torch import Tensor
from torch.distributed import ProcessGroupGloo

from workloads.collectives.bounded import bounded
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import INTERFACE_VARIABLE, Interface
from workloads.collectives.limits import Limits
from workloads.collectives.rendezvous import (
    SLACK_S,
    Announcement,
    Meeting,
    first_line,
    meet,
)
from workloads.collectives.ring import downward_flow, place_in_gloo
from workloads.collectives.roster import Roster
from workloads.collectives.watch import Watch
from workloads.errors import CollectiveError, RendezvousError

Explain = Callable[[str], str]


class RingCollective:
    """The mean over one clique by gloo's ring all-reduce, in the order in which data shall flow.

    Args:
        flow: the members' ranks in the job; each sends to the next, and the last to the first.
        rank: this worker's, one of them.
        meeting: what the workers of the job told one another.
        roster: their names.
        explain: makes of a symptom, after a peer was lost, the line that says who.
        limit_s: the time to connect within, and afterwards to wait for a peer.

    Raises:
        RendezvousError: a member cannot be connected to within the limit.
    """

    def __init__(
        self,
        flow: tuple[int, ...],
        rank: int,
        meeting: Meeting,
        roster: Roster,
        explain: Explain,
        limit_s: float,
    ) -> None:
        self._flow = flow
        self._announcements = meeting.announcements
        self._roster = roster
        self._explain = explain
        self._group = self._connect(meeting, rank, limit_s)

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the clique in the order in which data flows."""
        return self._flow

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        """Return the mean over the clique in a new tensor; the argument stays as it was.

        Raises:
            CollectiveError: a peer was lost or did not answer in time; the text names it.
        """
        total = tensor.clone()
        try:
            self._group.allreduce([total]).wait()  # type: ignore[attr-defined]
        except RuntimeError as error:
            symptom = symptom_of(error, self._announcements, self._roster)
            raise CollectiveError(self._explain(symptom)) from error
        return total.div_(len(self._flow))

    def counters(self) -> dict[str, int]:
        """Return nothing: gloo counts nothing."""
        return {}

    def close(self) -> None:
        """Free the sockets."""
        self._group.shutdown()

    def _connect(self, meeting: Meeting, rank: int, limit_s: float) -> ProcessGroupGloo:
        mine = meeting.announcements[rank]
        os.environ[INTERFACE_VARIABLE] = mine.interface
        store = meeting.board.store_for_process_group("-".join(map(str, self._flow)))
        size, timeout = len(self._flow), timedelta(seconds=limit_s)
        place = place_in_gloo(self._flow, rank)
        try:
            return bounded(lambda: ProcessGroupGloo(store, place, size, timeout), limit_s + SLACK_S)
        except (RuntimeError, TimeoutError) as error:
            reason = symptom_of(error, meeting.announcements, self._roster)
            peers = "all peers" if size == self._roster.size else self._roster.names(self._flow)
            raise RendezvousError(
                f"{self._roster.name(rank)} could not connect to {peers} over "
                f"{mine.interface} ({mine.address}): {reason}"
            ) from error


class RingOfAll:
    """The ring of all workers of a job, which meet and part for it."""

    def __init__(self, ring: RingCollective, watch: Watch) -> None:
        self._ring = ring
        self._watch = watch
        self.members = ring.members
        self.allreduce = ring.allreduce
        self.counters = ring.counters

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._watch.confess(reason)

    def close(self) -> None:
        """Part from the other workers once all are done, and free the sockets."""
        self._watch.close()
        self._ring.close()


def open_ring(
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    fingerprint: str,
    limits: Limits,
) -> RingOfAll:
    """Meet the other workers and join them in a ring over `interface`, each sending downwards.

    Args:
        endpoint: this worker's rank and where to meet.
        roster: the workers' names.
        interface: the one interface that carries the collectives.
        fingerprint: what all workers must agree upon, in one readable line.
        limits: the time limits.

    Raises:
        RendezvousError: a worker is missing or cannot be connected to within the limit.
        UsageError: the port of the rendezvous is taken.
    """
    announcement = Announcement(
        rank=endpoint.rank,
        site=roster.site(endpoint.rank),
        interface=interface.name,
        address=interface.address,
        process_id=os.getpid(),
        fingerprint=fingerprint,
    )
    meeting = meet(endpoint, roster, announcement, limits.rendezvous_s)
    watch = Watch(meeting, endpoint, roster)
    flow = downward_flow(roster.size)
    ring = RingCollective(flow, endpoint.rank, meeting, roster, watch.explain, limits.collective_s)
    return RingOfAll(ring, watch)


def symptom_of(error: BaseException, announcements: Sequence[Announcement], roster: Roster) -> str:
    """Return what gloo said in a few words, with the worker's name behind each address.

    Gloo puts its source line in front and general advice behind. An address is named where it
    belongs to one worker only, so not on the loopback interface.
    """
    without_source = re.sub(r"\[[^]]*\.(?:cc|cpp|h):\d+\] ", "", first_line(error))
    without_advice = without_source.split(". This is typically")[0]

    def with_name(match: re.Match[str]) -> str:
        ranks = [a.rank for a in announcements if a.address == match["address"]]
        return f"{match[0]}, {roster.name(ranks[0])}" if len(ranks) == 1 else match[0]

    address = r"\[?(?P<address>\d{1,3}(?:\.\d{1,3}){3})\]?(?::\d+)?"
    return "gloo: " + re.sub(address, with_name, without_advice)
