"""A collective whose messages are cut into parts, each of which takes trees of its own.

A plan may split a message over several trees, because no single one is as quick. Each part then is
a `Transport` of its own, paced at its share, and here they work at the same time as one: every
vector is cut at block boundaries by the shares, the same on all members, and the results are put
together. Blocks are summed each by itself under an exponent of its own, so the bits are those of an
uncut message.

Every part takes part in every call, with an empty slice where a vector is short, so that members
who disagree about the length find that out in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np

from workloads.collectives.agreement import Statement
from workloads.collectives.fixed_point import BLOCK_ELEMENTS, Codes, Integers, block_count
from workloads.collectives.frames import Bytes
from workloads.collectives.transport import FloatSum, FloatVector, Transport

BLOCK_BYTES = 4 * BLOCK_ELEMENTS
LARGEST_COUNTS = ("round_trip_us", "failed_over")

Result = TypeVar("Result")


def block_cuts(blocks: int, shares: Sequence[float]) -> list[slice]:
    """Return which blocks each part carries: all in order, within one of its share of them."""
    ends = [round(blocks * share) for share in accumulate(shares)]
    return [slice(start, end) for start, end in pairwise([0, *ends[:-1], blocks])]


def of_blocks(blocks: slice, each: int, length: int) -> slice:
    """Return the places in a vector of some length that blocks of `each` places take."""
    return slice(min(each * blocks.start, length), min(each * blocks.stop, length))


class Parted:
    """The `Transport` over several, one for each part of every message.

    Args:
        parts: the transports, all of one clique and kind, in the order of the message.
        shares: of the message, which add up to one.
    """

    def __init__(self, parts: Sequence[Transport], shares: Sequence[float]) -> None:
        self._parts = tuple(parts)
        self._shares = tuple(shares)
        self._threads = ThreadPoolExecutor(len(self._parts), thread_name_prefix="part")

    def sum_floats(self, vector: FloatVector, statement: Statement) -> FloatSum:
        """Return the sum of all members' vectors."""
        blocks = block_cuts(block_count(len(vector.values)), self._shares)
        vectors = [_slice_of(vector, cut) for cut in blocks]
        sums = self._together(lambda part, number: part.sum_floats(vectors[number], statement))
        return FloatSum(
            np.concatenate([one.sums for one in sums]),
            np.concatenate([one.codes for one in sums]),
            np.concatenate([one.needed for one in sums]),
        )

    def sum_integers(self, values: Integers, statement: Statement) -> Integers:
        """Return the sum of all members' vectors, modulo the integers' size."""
        cuts = self._cuts(len(values), BLOCK_ELEMENTS)
        sums = self._together(
            lambda part, number: part.sum_integers(values[cuts[number]], statement)
        )
        return np.concatenate(sums)

    def gather(self, payload: Bytes, statement: Statement) -> list[Bytes]:
        """Return every member's payload in the order of the members."""
        cuts = self._cuts(len(payload), BLOCK_BYTES)
        rows = self._together(lambda part, number: part.gather(payload[cuts[number]], statement))
        return [np.concatenate(pieces) for pieces in zip(*rows, strict=True)]

    def broadcast(self, payload: Bytes, root: int, statement: Statement) -> Bytes:
        """Return the payload of the member at place `root`."""
        cuts = self._cuts(len(payload), BLOCK_BYTES)
        pieces = self._together(
            lambda part, number: part.broadcast(payload[cuts[number]], root, statement)
        )
        return np.concatenate(pieces)

    def counters(self) -> dict[str, int]:
        """Return what all parts have counted, rates too; of times and marks the largest."""
        counted = [part.counters() for part in self._parts]
        return {
            name: (max if name in LARGEST_COUNTS else sum)(one[name] for one in counted)
            for name in counted[0]
        }

    def close(self) -> None:
        """Free the sockets."""
        for part in self._parts:
            part.close()
        self._threads.shutdown(wait=False)

    def _cuts(self, length: int, each: int) -> list[slice]:
        return [
            of_blocks(cut, each, length) for cut in block_cuts(-(-length // each), self._shares)
        ]

    def _together(self, call: Callable[[Transport, int], Result]) -> list[Result]:
        """Make a call on every part at the same time; raise the first part's error once all end.

        A part that is left to itself would be out of step with the other members.
        """
        made = [self._threads.submit(call, part, number) for number, part in enumerate(self._parts)]
        wait(made)
        return [one.result() for one in made]


def _slice_of(vector: FloatVector, blocks: slice) -> FloatVector:
    places = of_blocks(blocks, BLOCK_ELEMENTS, len(vector.values))
    predicted: Codes | None = None if vector.predicted is None else vector.predicted[blocks]
    return FloatVector(vector.values[places], vector.codes[blocks], predicted, vector.form)
