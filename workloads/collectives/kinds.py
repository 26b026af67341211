"""The kinds of collectives by name, and how a worker opens one over its clique."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from workloads.collectives.agreement import Statement
from workloads.collectives.base import Collective
from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gathering import Exchange, Gathering
from workloads.collectives.gloo import RingCollective
from workloads.collectives.interfaces import Interface
from workloads.collectives.limits import Limits
from workloads.collectives.mesh import Mesh, open_mesh
from workloads.collectives.names import (
    AGGREGATION,
    EXCHANGE,
    MULTICAST,
    ORDER_FREE_KINDS,
    RING,
)
from workloads.collectives.network import NetworkCollective
from workloads.collectives.parted import Parted
from workloads.collectives.port import STALL_S, NetworkPort
from workloads.collectives.rendezvous import Announcement, Meeting, meet, meet_at
from workloads.collectives.roster import Roster
from workloads.collectives.summing import MulticastSharing, Summing
from workloads.collectives.transport import Transport
from workloads.collectives.watch import Watch
from workloads.errors import CollectiveError, UsageError
from workloads.innetwork.endpoint import Member
from workloads.innetwork.job import GroupJob, groups_for, load_groups

KIND_VARIABLE = "ATOLL_COLLECTIVE"
JOB_VARIABLE = "ATOLL_JOB"
ACCUMULATION_VARIABLE = "ATOLL_ACCUMULATION"
PACE_VARIABLE = "ATOLL_PACE_MBPS"


@dataclass(frozen=True)
class Choice:
    """Which collective, and how.

    Attributes:
        kind: one of `ORDER_FREE_KINDS`.
        job: the job file, for the kinds that work with the network.
        wide: sum `float32` in 64 bits.
        pace_mbps: of each connection of `exchange`, see `mesh.open_mesh`.
        ranks: what the job file calls the ranks 0, 1, ... of a group of its own; empty where they
            are the same.
    """

    kind: str = EXCHANGE
    job: Path | None = None
    wide: bool = False
    pace_mbps: float | None = None
    ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ORDER_FREE_KINDS:
            raise UsageError(f"collective {self.kind}: one of {', '.join(ORDER_FREE_KINDS)}")
        if self.job is None and self.kind != EXCHANGE:
            raise UsageError(f"collective {self.kind}: name the job's file in {JOB_VARIABLE}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Choice:
        """Read `ATOLL_COLLECTIVE`, `ATOLL_JOB`, `ATOLL_ACCUMULATION` and `ATOLL_PACE_MBPS`."""
        accumulation = environ.get(ACCUMULATION_VARIABLE) or "int32"
        if accumulation not in ("int32", "int64"):
            raise UsageError(f"{ACCUMULATION_VARIABLE}={accumulation}: int32 or int64")
        job = environ.get(JOB_VARIABLE)
        return cls(
            kind=environ.get(KIND_VARIABLE) or EXCHANGE,
            job=Path(job) if job else None,
            wide=accumulation == "int64",
            pace_mbps=_pace_mbps(environ.get(PACE_VARIABLE)),
        )

    def of(self, kind: str) -> Choice:
        """Return the same choice for another kind."""
        return replace(self, kind=kind)

    def groups(self, ranks: tuple[int, ...]) -> tuple[GroupJob | None, ...]:
        """Return the groups of some ranks in the job's file, one for each part of their messages.

        For a kind that needs no group it is one None: a message in one part.
        """
        if self.job is None or self.kind == EXCHANGE:
            return (None,)
        named = tuple(self.ranks[rank] for rank in ranks) if self.ranks else ranks
        return groups_for(load_groups(self.job), self.kind, named)

    def words(self) -> str:
        """Return what all workers must agree upon, in one line."""
        groups = load_groups(self.job) if self.job else ()
        jobs = "".join(f" group={group.job:x}" for group in groups)
        return f"kind={self.kind} accumulation={64 if self.wide else 32}{jobs}"


class Assembly:
    """The workers of a job after they have met: any of them can form cliques, one after another.

    Args:
        meeting: what the workers told one another.
        endpoint: this worker's rank.
        roster: the workers' names.
        choice: which collective.
        limits: the time limits.
    """

    def __init__(
        self, meeting: Meeting, endpoint: Endpoint, roster: Roster, choice: Choice, limits: Limits
    ) -> None:
        self._meeting = meeting
        self._rank = endpoint.rank
        self._roster = roster
        self._choice = choice
        self._limit_s = limits.collective_s
        self._watch = Watch(meeting, endpoint, roster)
        self._meshes: list[Mesh] = []

    def clique(
        self, ranks: tuple[int, ...], kind: str | None = None, pace_mbps: float | None = None
    ) -> NetworkCollective:
        """Open a collective of some ranks; all of them call, and once for each kind.

        Args:
            ranks: in ascending order.
            kind: one of `ORDER_FREE_KINDS`; without it the kind chosen for the job.
            pace_mbps: of each connection of `exchange`; without it the job's.

        Raises:
            RendezvousError: a member cannot be connected to within the limit.
            UsageError: the job's file has no such group.
        """
        choice = self._choice if kind is None else self._choice.of(kind)
        clique = Clique(ranks, self._rank, self._roster)
        groups = choice.groups(ranks)
        label = f"{choice.kind}/{clique.label}"
        pace = (pace_mbps or choice.pace_mbps) if choice.kind == EXCHANGE else None
        parts = [
            self._part(clique, group, f"{label}/{number}" if number else label, pace)
            for number, group in enumerate(groups)
        ]
        shares = [1.0 if group is None else group.share for group in groups]
        transport = parts[0] if len(parts) == 1 else Parted(parts, shares)
        return NetworkCollective(clique, transport, self._watch.explain, self._choice.wide)

    def _part(
        self, clique: Clique, group: GroupJob | None, label: str, pace_mbps: float | None
    ) -> Transport:
        """Open what carries a part of a clique's messages, and wait until all members listen."""
        where = {one.rank: one.address for one in self._meeting.announcements}
        mesh = open_mesh(self._meeting.board, clique, where, label, self._limit_s, pace_mbps)
        self._meshes.append(mesh)
        transport = open_transport(clique, mesh, group, self._limit_s)
        if group is not None:
            _await_listeners(mesh)
        return transport

    def ring(self, flow: tuple[int, ...]) -> RingCollective:
        """Open a ring in which each of some ranks sends to the next; all of them call, once.

        Raises:
            RendezvousError: a member cannot be connected to within the limit.
        """
        return RingCollective(
            flow, self._rank, self._meeting, self._roster, self._watch.explain, self._limit_s
        )

    def open(self, kind: str, ranks: tuple[int, ...], pace_mbps: float | None = None) -> Collective:
        """Open a collective of any kind: `ring` in the order of the ranks, or see `clique`."""
        return self.ring(ranks) if kind == RING else self.clique(ranks, kind, pace_mbps)

    def await_all(self, occasion: str) -> None:
        """Wait until every worker of the job has come to an occasion.

        Raises:
            CollectiveError: a worker was lost meanwhile, or does not come.
        """
        self._watch.await_all(occasion, self._limit_s)

    def begin_together(self, occasion: str) -> None:
        """Wait for every worker of the job, and then for a moment that all agree on.

        Raises:
            CollectiveError: a worker was lost meanwhile, or does not come.
        """
        self._watch.begin_together(occasion, self._limit_s)

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._watch.confess(reason)

    def interrupt(self) -> None:
        """Let every call that is under way fail, in whatever thread, and all later ones."""
        for mesh in self._meshes:
            mesh.interrupt()

    def part(self) -> None:
        """Part from the other workers: returns when all are done."""
        self._watch.close()


def _pace_mbps(text: str | None) -> float | None:
    if not text:
        return None
    try:
        pace_mbps = float(text)
    except ValueError:
        pace_mbps = math.nan
    if not 0 < pace_mbps < math.inf:
        raise UsageError(f"{PACE_VARIABLE}={text}: give Mbit/s above 0, or nothing")
    return pace_mbps


def _await_listeners(mesh: Mesh) -> None:
    """Return when every member listens: what is multicast earlier would have to be sent again."""
    nothing = np.empty(0, dtype=np.uint8)
    mesh.share(Statement("open"), nothing, lambda rank, said, size: None if size else nothing)


class WholeJob:
    """A collective of all workers of a job, which meet and part for it."""

    def __init__(self, assembly: Assembly, size: int) -> None:
        self._assembly = assembly
        self._collective = assembly.clique(tuple(range(size)))
        self.members = self._collective.members
        self.allreduce = self._collective.allreduce
        self.sum = self._collective.sum
        self.gather = self._collective.gather
        self.broadcast = self._collective.broadcast
        self.barrier = self._collective.barrier
        self.counters = self._collective.counters

    def confess(self, reason: str) -> None:
        """Tell the other workers that this one fails, before its connections break."""
        self._assembly.confess(reason)

    def interrupt(self, reason: str) -> None:
        """Give up: tell the others why, and let every call fail that is under way or comes."""
        self._assembly.confess(reason)
        self._assembly.interrupt()

    def free(self) -> None:
        """Free the sockets, without a word to the others; no call may be under way."""
        self._collective.close()

    def close(self) -> None:
        """Part from the other workers once all are done, and free the sockets."""
        with contextlib.suppress(CollectiveError):
            self._collective.barrier()  # nobody leaves who may still be needed for the last sum
            self._assembly.part()
        self._collective.close()


def assemble(
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    choice: Choice,
    fingerprint: str,
    limits: Limits,
) -> Assembly:
    """Meet the other workers of the job.

    Args:
        endpoint: this worker's rank and where to meet.
        roster: the workers' names.
        interface: the one interface that carries the collectives.
        choice: which collective.
        fingerprint: what all workers must agree upon, in one readable line.
        limits: the time limits.

    Raises:
        RendezvousError: a worker is missing or has other options.
        UsageError: the port of the rendezvous is taken, or the job's file is wrong.
    """
    announcement = _announcement(endpoint, roster, interface, f"{fingerprint} {choice.words()}")
    meeting = meet(endpoint, roster, announcement, limits.rendezvous_s)
    return Assembly(meeting, endpoint, roster, choice, limits)


def open_collective(
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    choice: Choice,
    fingerprint: str,
    limits: Limits,
) -> WholeJob:
    """Meet the other workers and open the collective of all of them; see `assemble`."""
    choice.groups(tuple(range(roster.size)))  # a wrong file is told before anybody is waited for
    return WholeJob(assemble(endpoint, roster, interface, choice, fingerprint, limits), roster.size)


def open_at(
    board: Board,
    endpoint: Endpoint,
    roster: Roster,
    interface: Interface,
    choice: Choice,
    limits: Limits,
) -> WholeJob:
    """Do the same over a notice board that is there already."""
    announcement = _announcement(endpoint, roster, interface, choice.words())
    meeting = meet_at(board, endpoint, roster, announcement, limits.rendezvous_s)
    return WholeJob(Assembly(meeting, endpoint, roster, choice, limits), roster.size)


def open_transport(
    clique: Clique, mesh: Mesh, group: GroupJob | None, limit_s: float, stall_s: float = STALL_S
) -> Transport:
    """Return the transport of a kind over a clique whose mesh is there.

    Raises:
        UsageError: the group's trees do not fit this member.
        EndpointError: a socket of the endpoint cannot be opened.
    """
    if group is None:
        return Gathering(clique, Exchange(mesh))
    member = Member(group, clique.index, group.trees)
    port = NetworkPort(clique, member, mesh, group, limit_s, stall_s)
    if group.kind == MULTICAST:
        sources = [tree.leaves[0] for tree in group.trees if tree.leaves[0] != clique.index]
        return Gathering(clique, MulticastSharing(clique, port, sources))
    return Summing(clique, port, adds_own=group.kind == AGGREGATION)


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
