"""What a kind of collective must be able to do: sum, gather and broadcast plain vectors of numbers.

`NetworkCollective` makes tensors of them and back. There are two families: in `gathering` kinds
every member receives what every other holds and computes for itself, in `summing` kinds the network
computes on the way. Both do the same arithmetic, so that they arrive at the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workloads.collectives.agreement import Statement
from workloads.collectives.fixed_point import Codes, Floats, Format, Integers
from workloads.collectives.frames import Bytes


@dataclass(frozen=True)
class FloatVector:
    """A member's numbers with what is known of them.

    Attributes:
        values: contiguous, one-dimensional, of the format's floating-point type.
        codes: the blocks' own codes.
        predicted: the codes that all members predict, or None at the first vector of its kind.
        form: the format.
    """

    values: Floats
    codes: Codes
    predicted: Codes | None
    form: Format


@dataclass(frozen=True)
class FloatSum:
    """The sum of all members' numbers, as integers.

    Attributes:
        sums: the integers.
        codes: the codes under which they were summed.
        needed: the maxima of the members' codes.
    """

    sums: Integers
    codes: Codes
    needed: Codes


class Transport(Protocol):
    """One kind of collective for one clique; every member makes the same calls in the same order.

    Each method raises `DisagreementError` on all members if their statements differ or one of them
    has a fault, and `PeerLost` if a member does not answer.
    """

    def sum_floats(self, vector: FloatVector, statement: Statement) -> FloatSum:
        """Return the sum of all members' vectors."""

    def sum_integers(self, values: Integers, statement: Statement) -> Integers:
        """Return the sum of all members' vectors of int32 or int64, modulo the integers' size."""

    def gather(self, payload: Bytes, statement: Statement) -> list[Bytes]:
        """Return every member's payload, all of one length, in the order of the members."""

    def broadcast(self, payload: Bytes, root: int, statement: Statement) -> Bytes:
        """Return the payload of the member at place `root`; the others' are of the same length."""

    def counters(self) -> dict[str, int]:
        """Return what was counted since the start, by name."""

    def close(self) -> None:
        """Free the sockets."""
