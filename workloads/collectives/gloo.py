"""The ring all-reduce of `torch.distributed` over one pinned interface.

`dist.all_reduce` on CPU tensors is gloo's ring (see `ring` for its direction and bytes). All
members add the chunks in the same order and copy the sums around, so that all end with the same
bits; a world of another size adds in another order and may differ in the last bits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch import Tensor

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
from workloads.collectives.roster import Roster
from workloads.collectives.watch import Watch
from workloads.errors import CollectiveError, RendezvousError


class RingCollective:
    """The mean over all workers by gloo's ring all-reduce."""

    def __init__(self, roster: Roster, announcements: Sequence[Announcement], watch: Watch) -> None:
        self._roster = roster
        self._announcements = tuple(announcements)
        self._watch = watch

    @property
    def members(self) -> tuple[int, ...]:
        """All ranks of the job, in rank order."""
        return tuple(range(self._roster.size))

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        """Return the mean over all workers in a new tensor; the argument stays as it was.

        Raises:
            CollectiveError: a peer was lost or did not answer in time; the text names it.
        """
        total = tensor.clone()
        try:
            dist.all_reduce(total)
        except RuntimeError as error:
            symptom = symptom_of(error, self._announcements, self._roster)
            raise CollectiveError(self._watch.explain(symptom)) from error
        return total.div_(len(self.members))

    def counters(self) -> dict[str, int]:
        """Return nothing: gloo counts nothing."""
        return {}

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._watch.confess(reason)

    def close(self) -> None:
        """Part from the other workers once all are done, and free the sockets."""
        self._watch.close()
        dist.destroy_process_group()


def open_ring(
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    fingerprint: str,
    limits: Limits,
) -> RingCollective:
    """Meet the other workers and connect to them over `interface`.

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
    _connect_peers(meeting, endpoint, roster, interface, limits)
    return RingCollective(roster, meeting.announcements, Watch(meeting, endpoint, roster))


def _connect_peers(
    meeting: Meeting, endpoint: Endpoint, roster: Roster, interface: Interface, limits: Limits
) -> None:
    os.environ[INTERFACE_VARIABLE] = interface.name

    def connect() -> None:
        dist.init_process_group(
            "gloo",
            store=meeting.board.store_for_process_group(),
            rank=endpoint.rank,
            world_size=endpoint.world_size,
            timeout=timedelta(seconds=limits.collective_s),
        )

    try:
        bounded(connect, limits.collective_s + SLACK_S)
    except (RuntimeError, TimeoutError) as error:
        reason = symptom_of(error, meeting.announcements, roster)
        raise RendezvousError(
            f"{roster.name(endpoint.rank)} could not connect to all peers over "
            f"{interface.name} ({interface.address}): {reason}"
        ) from error


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
