"""Collectives in which every member receives what every other holds, and computes for itself."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from workloads.collectives import codec
from workloads.collectives.agreement import Statement, require_agreement
from workloads.collectives.clique import Clique
from workloads.collectives.fixed_point import Integers, settled
from workloads.collectives.frames import Bytes, Frame
from workloads.collectives.mesh import Mesh, place_like
from workloads.collectives.transport import FloatSum, FloatVector

NOTHING = np.empty(0, dtype=np.uint8)


class Sharing(Protocol):
    """How payloads get from each member to each other."""

    def share(self, statement: Statement, payload: Bytes, expected_bytes: int) -> dict[int, Frame]:
        """Give this member's payload to all, and return every member's frame by rank.

        A payload has the expected length, or none: of a member that has nothing to give.
        """

    def counters(self) -> dict[str, int]:
        """Return what was counted since the start, by name."""

    def close(self) -> None:
        """Free the sockets."""


class Exchange:
    """The way of sharing of `exchange`: each member sends its payload to each other one."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh

    def share(self, statement: Statement, payload: Bytes, expected_bytes: int) -> dict[int, Frame]:
        """Send a payload to every other member and receive theirs."""
        return self._mesh.share(statement, payload, place_like(statement, expected_bytes))

    def counters(self) -> dict[str, int]:
        """Return how much was sent and received over the mesh, headers included."""
        return self._mesh.counters()

    def close(self) -> None:
        """Free the sockets."""
        self._mesh.close()


class Gathering:
    """The `Transport` over any way of sharing."""

    def __init__(self, clique: Clique, sharing: Sharing) -> None:
        self._clique = clique
        self._sharing = sharing

    def sum_floats(self, vector: FloatVector, statement: Statement) -> FloatSum:
        """Return the sum of all members' vectors."""
        form, members = vector.form, len(self._clique)
        payloads = self._share(
            statement, vector.values.view(np.uint8), len(vector.values.view(np.uint8))
        )
        rows = [payload.view(form.name) for payload in payloads]
        needed = np.max([codec.block_codes(row, form) for row in rows], axis=0)
        codes = settled(vector.predicted, needed, form)
        sums = np.zeros(len(vector.values), dtype=form.integer)
        for row in rows:
            codec.accumulate(sums, row, codes, members, form)
        return FloatSum(sums, codes, needed)

    def sum_integers(self, values: Integers, statement: Statement) -> Integers:
        """Return the sum of all members' vectors, modulo the integers' size."""
        payload = values.view(np.uint8)
        total = np.zeros_like(values)
        for part in self._share(statement, payload, len(payload)):
            total += part.view(values.dtype)
        return total

    def gather(self, payload: Bytes, statement: Statement) -> list[Bytes]:
        """Return every member's payload in the order of the members."""
        return self._share(statement, payload, len(payload))

    def broadcast(self, payload: Bytes, root: int, statement: Statement) -> Bytes:
        """Return the payload of the member at place `root`; nobody else sends."""
        mine = payload if root == self._clique.index else NOTHING
        return self._share(statement, mine, len(payload))[root]

    def counters(self) -> dict[str, int]:
        """Return what the way of sharing has counted."""
        return self._sharing.counters()

    def close(self) -> None:
        """Free the sockets."""
        self._sharing.close()

    def _share(self, statement: Statement, payload: Bytes, expected_bytes: int) -> list[Bytes]:
        sent = NOTHING if statement.fault else payload
        frames = self._sharing.share(statement, sent, expected_bytes)
        statements = {rank: frame.statement for rank, frame in frames.items()}
        require_agreement(statements, self._clique.roster)
        payloads = [frames[rank].payload for rank in self._clique.ranks]
        return [NOTHING if payload is None else payload for payload in payloads]
