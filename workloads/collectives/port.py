"""A clique's way through the network, and what to do when a result does not come.

An endpoint repairs what a network loses, and even an accelerator that starts anew heals by itself.
What is left is a network that stands still: an accelerator that stays dead, a tree that is gone.
Then members *confer* over the mesh, at the latest `STALL_S` after the last result came:

1. Whoever stalls says so over the mesh; whoever waits for a result, or comes to wait for one, sees
   it and joins. So all members are at hand, and nobody merely computes.
2. They compare statements; if these differ that is an error on all (`agreement`).
3. The oldest message that anybody lacks is summed once more over the network, under new sequence
   numbers. A member has no result before all have contributed, so that none is more than one
   message ahead; whoever is ahead contributes again what it kept.
4. If the message stalls again the network is at fault: from then on the members exchange their
   integers over the mesh, as the kind `exchange` does. The sums are the same, bit by bit.

So a round is delayed by twice `STALL_S` at most, and by the slower transfer from then on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from workloads.collectives.agreement import Statement, require_agreement
from workloads.collectives.clique import Clique
from workloads.collectives.frames import Bytes
from workloads.collectives.mesh import Mesh, PeerLost, place_like
from workloads.errors import CollectiveError
from workloads.innetwork.endpoint import Chunks, Member, Status
from workloads.innetwork.job import GroupJob

STALL_S = 5.0
WAIT_S = 0.1


class Message(Protocol):
    """What one use of the network carries."""

    statement: Statement
    chunks: Chunks
    keep: tuple[Any, ...]
    strides: tuple[int, int]

    def contribution(self) -> Bytes:
        """Return all that this member sends, in one piece."""

    def accept(self, contributions: Mapping[int, Bytes]) -> None:
        """Put the results in place, from what the members at each place contributed."""


class NetworkPort:
    """Carries the messages of one member, one after the other.

    Args:
        clique: the members.
        member: the endpoint.
        mesh: the connections by which members confer.
        group: the job's description.
        limit_s: how long to wait for a member.
        stall_s: how long to wait for the network.
    """

    def __init__(
        self,
        clique: Clique,
        member: Member,
        mesh: Mesh,
        group: GroupJob,
        limit_s: float,
        stall_s: float = STALL_S,
    ) -> None:
        self._clique = clique
        self._member = member
        self._mesh = mesh
        self._limit_s = limit_s
        self._stall_s = min(stall_s, limit_s)
        self._period = 2 * group.window
        self._number = 0
        self._last: Message | None = None
        self._retried = -1
        self._retries = 0
        self.failed_over = False
        self.area_bytes = group.area_bytes

    def carry(self, message: Message) -> None:
        """Have a message summed.

        Raises:
            DisagreementError: on all members, if they ask for different things.
            PeerLost: a member's process has ended, or one did not come within the time limit.
        """
        self._number += 1
        self._again(message, self._number)
        self._last = message

    def counters(self) -> dict[str, int]:
        """Return the endpoint's counters, messages that were carried twice, and fail-overs."""
        own = {"retries": self._retries, "failed_over": int(self.failed_over)}
        return {**self._member.counters(), **own}

    def close(self) -> None:
        """Free the sockets."""
        self._member.close()
        self._mesh.close()

    def _run(self, message: Message, number: int) -> None:
        """Carry a message over the network, or in the end over the mesh."""
        self._member.begin(message.chunks, message.keep, *message.strides)
        if self._await() == Status.DONE:
            return
        oldest = self._confer(message.statement, number)
        if oldest < number:
            self._again(self._kept(), oldest)
        self._again(message, number)

    def _again(self, message: Message, number: int) -> None:
        """Carry a message by what members agreed upon when they conferred."""
        if self.failed_over:
            self._exchange(message)
        else:
            self._run(message, number)

    def _await(self) -> Status:
        """Wait for the message that is under way; anything but DONE means to confer."""
        progress, deadline = -1, 0.0
        while (status := self._member.wait(WAIT_S)) == Status.RUNNING:
            if (now_at := self._member.progress()) != progress:
                progress, deadline = now_at, time.monotonic() + self._stall_s
            if broken := self._mesh.broken():
                self._member.abort()
                raise PeerLost(f"{self._clique.roster.names(broken)}: connection closed", broken)
            if self._mesh.is_called() or time.monotonic() > deadline:
                self._member.abort()
                return self._member.wait(0)
        return status

    def _confer(self, statement: Statement, number: int) -> int:
        """Compare statements with all members; return the number of the oldest message lacking.

        Sets `failed_over` if that message was carried twice already.
        """
        mine = np.array([number, self._member.sequence()], dtype="<u8").view(np.uint8)
        frames = self._mesh.share(statement, mine, lambda rank, said, size: _sixteen(size))
        told = {rank: _two_numbers(frame.payload) for rank, frame in frames.items()}
        oldest = min(number for number, _ in told.values())
        latest = max(sequence for _, sequence in told.values())
        self._member.jump((latest // self._period + 2) * self._period)
        lacking = {rank: one.statement for rank, one in frames.items() if told[rank][0] == oldest}
        require_agreement(lacking, self._clique.roster)
        self.failed_over = self._retried == oldest
        self._retried = oldest
        self._retries += 1
        return oldest

    def _exchange(self, message: Message) -> None:
        mine = message.contribution()
        place = place_like(message.statement, len(mine))
        frames = self._mesh.share(message.statement, mine, place)
        statements = {rank: frame.statement for rank, frame in frames.items()}
        require_agreement(statements, self._clique.roster)
        payloads = [frames[rank].payload for rank in self._clique.ranks]
        message.accept({i: part for i, part in enumerate(payloads) if part is not None})

    def _kept(self) -> Message:
        if self._last is None:
            raise CollectiveError("a member lacks a message that this one never sent")
        return self._last


def _sixteen(payload_bytes: int) -> Bytes | None:
    return np.empty(16, dtype=np.uint8) if payload_bytes == 16 else None


def _two_numbers(payload: Bytes | None) -> tuple[int, int]:
    if payload is None:
        return 0, 0
    number, sequence = payload.view("<u8")
    return int(number), int(sequence)
