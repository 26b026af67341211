"""The kinds of collectives by name, and how a worker opens one over its clique."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gathering import Exchange, Gathering
from workloads.collectives.interfaces import Interface
from workloads.collectives.limits import Limits
from workloads.collectives.mesh import Mesh, open_mesh
from workloads.collectives.network import NetworkCollective
from workloads.collectives.rendezvous import Announcement, Meeting, meet, meet_at
from workloads.collectives.roster import Roster
from workloads.collectives.summing import MulticastSharing, NetworkPort, Summing
from workloads.collectives.transport import Transport
from workloads.collectives.watch import Watch
from workloads.errors import UsageError
from workloads.innetwork.endpoint import Member
from workloads.innetwork.job import GroupJob, group_for, load_groups

RING = "ring"
ORDER_FREE_KINDS = ("exchange", "multicast", "aggregation", "innetwork")
ALL_KINDS = (RING, *ORDER_FREE_KINDS)
KIND_VARIABLE = "ATOLL_COLLECTIVE"
JOB_VARIABLE = "ATOLL_JOB"
ACCUMULATION_VARIABLE = "ATOLL_ACCUMULATION"


@dataclass(frozen=True)
class Choice:
    """Which collective, and how.

    Attributes:
        kind: one of `ORDER_FREE_KINDS`.
        job: the job file, for the kinds that work with the network.
        wide: sum `float32` in 64 bits.
    """

    kind: str = "exchange"
    job: Path | None = None
    wide: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ORDER_FREE_KINDS:
            raise UsageError(f"collective {self.kind}: one of {', '.join(ORDER_FREE_KINDS)}")
        if self.job is None and self.kind != "exchange":
            raise UsageError(f"collective {self.kind}: name the job's file in {JOB_VARIABLE}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Choice:
        """Read `ATOLL_COLLECTIVE`, `ATOLL_JOB` and `ATOLL_ACCUMULATION` (int32 or int64)."""
        accumulation = environ.get(ACCUMULATION_VARIABLE) or "int32"
        if accumulation not in ("int32", "int64"):
            raise UsageError(f"{ACCUMULATION_VARIABLE}={accumulation}: int32 or int64")
        job = environ.get(JOB_VARIABLE)
        return cls(
            kind=environ.get(KIND_VARIABLE) or "exchange",
            job=Path(job) if job else None,
            wide=accumulation == "int64",
        )

    def group(self, ranks: tuple[int, ...]) -> GroupJob | None:
        """Return the group of some ranks in the job's file; None for a kind without one."""
        return group_for(load_groups(self.job), self.kind, ranks) if self.job else None


class WatchedCollective(NetworkCollective):
    """A `NetworkCollective` whose workers find out together who was lost."""

    def __init__(
        self, clique: Clique, transport: Transport, watch: Watch, wide: bool = False
    ) -> None:
        super().__init__(clique, transport, watch.explain, wide)
        self._watch = watch

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._watch.confess(reason)

    def close(self) -> None:
        """Part from the other workers once all are done, and free the sockets."""
        self._watch.close()
        super().close()


def open_collective(
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    choice: Choice,
    fingerprint: str,
    limits: Limits,
) -> WatchedCollective:
    """Meet the other workers and open a collective over all of them.

    Args:
        endpoint: this worker's rank and where to meet.
        roster: the workers' names.
        interface: the one interface that carries the collectives.
        choice: which collective.
        fingerprint: what all workers must agree upon, in one readable line.
        limits: the time limits.

    Raises:
        RendezvousError: a worker is missing or cannot be connected to within the limit.
        UsageError: the port of the rendezvous is taken, or the job's file does not fit.
    """
    group = choice.group(tuple(range(roster.size)))
    words = f"{fingerprint} {_fingerprint(choice, group)}"
    announcement = _announcement(endpoint, roster, interface, words)
    meeting = meet(endpoint, roster, announcement, limits.rendezvous_s)
    return _open(meeting, endpoint, roster, choice, group, limits)


def open_at(
    board: Board,
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    choice: Choice,
    limits: Limits,
) -> WatchedCollective:
    """Do the same over a notice board that is there already."""
    group = choice.group(tuple(range(roster.size)))
    announcement = _announcement(endpoint, roster, interface, _fingerprint(choice, group))
    meeting = meet_at(board, endpoint, roster, announcement, limits.rendezvous_s)
    return _open(meeting, endpoint, roster, choice, group, limits)


def _open(
    meeting: Meeting,
    endpoint: Endpoint,
    roster: Roster,
    choice: Choice,
    group: GroupJob | None,
    limits: Limits,
) -> WatchedCollective:
    clique = Clique.of_all(endpoint.rank, roster)
    mesh = mesh_of(meeting, clique, limits.collective_s)
    transport = open_transport(clique, mesh, group, limits.collective_s)
    return WatchedCollective(clique, transport, Watch(meeting, endpoint, roster), choice.wide)


def mesh_of(meeting: Meeting, clique: Clique, limit_s: float) -> Mesh:
    """Connect the members of a clique after all workers of the job have met."""
    return open_mesh(meeting.board, clique, addresses(meeting.announcements), clique.label, limit_s)


def addresses(announcements: Sequence[Announcement]) -> dict[int, str]:
    """Return each rank's address on the interface of the collectives."""
    return {one.rank: one.address for one in announcements}


def open_transport(clique: Clique, mesh: Mesh, group: GroupJob | None, limit_s: float) -> Transport:
    """Return the transport of a kind over a clique whose mesh is there.

    Raises:
        UsageError: the group's trees do not fit this member.
        EndpointError: a socket of the endpoint cannot be opened.
    """
    if group is None:
        return Gathering(clique, Exchange(mesh))
    if group.kind == "innetwork" and len(group.trees) != 1:
        raise UsageError(f"group of innetwork with {len(group.trees)} trees: give one")
    member = Member(group, clique.index, group.trees)
    port = NetworkPort(clique, member, mesh, group, limit_s)
    if group.kind == "multicast":
        sources = [tree.leaves[0] for tree in group.trees if tree.leaves[0] != clique.index]
        return Gathering(clique, MulticastSharing(clique, port, sources))
    return Summing(clique, port, adds_own=group.kind == "aggregation")


def _fingerprint(choice: Choice, group: GroupJob | None) -> str:
    number = f" job={group.job:x}" if group is not None else ""
    return f"collective={choice.kind} accumulation={64 if choice.wide else 32}{number}"


def _announcement(
    endpoint: Endpoint, roster: Roster, interface: Interface, fingerprint: str
) -> Announcement:
    return Announcement(
        rank=endpoint.rank,
        site=roster.site(endpoint.rank),
        interface=interface.name,
        address=interface.address,
        process_id=os.getpid(),
        fingerprint=fingerprint,
    )
