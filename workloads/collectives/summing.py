"""Collectives whose sums or copies the network makes: `innetwork`, `aggregation`, `multicast`.

All three run over the same endpoint (`workloads.innetwork.endpoint`) and differ in their trees:

- `innetwork`: one tree sums all contributions on the way up, one multicast brings the sum down.
- `aggregation`: a tree for each receiver. Each member sends a copy into every other member's tree,
  and receives the sum of all others in one stream, to which it adds its own.
- `multicast`: each member multicasts what it holds, and receives every other member's.

A message begins with a *guard*: a chunk with the signature of what the member asks for and its
complement, of which the network takes the maximum. If the maximum is not what the member sent,
somebody asks for something else; all members see it, and find out over the mesh who.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.collectives import codec
from workloads.collectives.agreement import SIGNATURE_BYTES, Statement
from workloads.collectives.clique import Clique
from workloads.collectives.fixed_point import (
    BLOCK_ELEMENTS,
    Codes,
    Floats,
    Format,
    Integers,
    block_count,
    fitting,
)
from workloads.collectives.frames import Bytes, Frame
from workloads.collectives.port import NetworkPort
from workloads.collectives.transport import FloatSum, FloatVector
from workloads.errors import CollectiveError
from workloads.innetwork.endpoint import CHUNK, Chunks

ELEMENTS = {"int32": 1, "int64": 2}
NO_BYTES = np.empty(0, dtype=np.uint8)
NO_ROWS = NO_BYTES.reshape(0, 0)
CONTINUED = Statement("the rest of a sum")
NO_CODES = np.empty(0, dtype=np.uint8)


def guard_of(statement: Statement) -> Bytes:
    """Return the bytes whose maximum over all members is unchanged only if all send the same.

    A member with a fault sends what no other does.
    """
    text = secrets.token_bytes(SIGNATURE_BYTES) if statement.fault else statement.signature
    signature = np.frombuffer(text, dtype=np.uint8)
    return np.concatenate([signature, ~signature])


@dataclass(frozen=True)
class Areas:
    """What a message consists of, and where its results go.

    Attributes:
        maxima: one row a chunk; rows may be empty.
        values: integers, cut into chunks of `per_chunk`; none for a message of maxima alone.
        per_chunk: how many integers a chunk carries.
    """

    maxima: Bytes
    values: Integers
    per_chunk: int


class Summing:
    """The `Transport` of `innetwork` and `aggregation`."""

    def __init__(self, clique: Clique, port: NetworkPort, adds_own: bool) -> None:
        self._clique = clique
        self._port = port
        self._adds_own = adds_own

    def sum_floats(self, vector: FloatVector, statement: Statement) -> FloatSum:
        """Return the sum of all members' vectors.

        The first of its kind takes a round trip to find the largest codes. Later ones predict
        them; the blocks whose prediction did not fit are sent again.
        """
        form = vector.form
        if vector.predicted is None:
            needed = self._largest_codes(vector.codes, statement)
            sums, _ = self._sum_blocks(vector.values, needed, NO_CODES, form, None)
            return FloatSum(sums, needed, needed)
        predicted = vector.predicted
        sums, needed = self._sum_blocks(vector.values, predicted, vector.codes, form, statement)
        wrong = np.flatnonzero(~fitting(predicted, needed, form))
        codes = predicted.copy()
        if len(wrong):
            places = _places_of(wrong, len(vector.values))
            codes[wrong] = needed[wrong]
            again = _padded_blocks(vector.values, wrong)
            sums_again, _ = self._sum_blocks(again, needed[wrong], NO_CODES, form, None)
            sums[places] = sums_again[: len(places)]
        return FloatSum(sums, codes, needed)

    def sum_integers(self, values: Integers, statement: Statement) -> Integers:
        """Return the sum of all members' vectors, modulo the integers' size."""
        per_chunk = self._port.area_bytes // values.itemsize
        sums, _ = self._carry(Areas(NO_ROWS, values, per_chunk), statement)
        return sums

    def gather(self, payload: Bytes, statement: Statement) -> list[Bytes]:
        """Return every member's payload: the sum of vectors in which each fills its own place."""
        words = -(-len(payload) // 4)
        places = np.zeros((len(self._clique), 4 * words), dtype=np.uint8)
        places[self._clique.index, : len(payload)] = payload
        total = self.sum_integers(places.reshape(-1).view("<i4"), statement)
        rows = total.view(np.uint8).reshape(len(self._clique), -1)
        return [row[: len(payload)] for row in rows]

    def broadcast(self, payload: Bytes, root: int, statement: Statement) -> Bytes:
        """Return the payload of the member at place `root`: the others send zeros."""
        words = np.zeros(4 * -(-len(payload) // 4), dtype=np.uint8)
        if root == self._clique.index:
            words[: len(payload)] = payload
        return self.sum_integers(words.view("<i4"), statement).view(np.uint8)[: len(payload)]

    def counters(self) -> dict[str, int]:
        """Return the endpoint's counters."""
        return self._port.counters()

    def close(self) -> None:
        """Free the sockets."""
        self._port.close()

    def _largest_codes(self, codes: Codes, statement: Statement) -> Codes:
        """Return the maxima of all members' codes."""
        per_chunk = self._port.area_bytes
        rows = -(-len(codes) // per_chunk)
        padded = np.zeros(rows * per_chunk, dtype=np.uint8)
        padded[: len(codes)] = codes
        empty = np.empty(0, dtype=np.int32)
        _, maxima = self._carry(Areas(padded.reshape(rows, per_chunk), empty, 1), statement)
        return maxima.reshape(-1)[: len(codes)]

    def _sum_blocks(
        self,
        values: Floats,
        codes: Codes,
        needed: Codes,
        form: Format,
        statement: Statement | None,
    ) -> tuple[Integers, Codes]:
        """Return the sums of whole blocks, and the maxima of the needed codes where given."""
        integers = codec.quantize(values, codes, len(self._clique), form)
        per_chunk = blocks_per_chunk(self._port.area_bytes, integers.itemsize)
        rows = -(-block_count(len(values)) // per_chunk)
        padded = np.zeros((rows, per_chunk if len(needed) else 0), dtype=np.uint8)
        if len(needed):
            padded.reshape(-1)[: len(needed)] = needed
        sums, maxima = self._carry(Areas(padded, integers, per_chunk * BLOCK_ELEMENTS), statement)
        return sums, maxima.reshape(-1)[: len(needed)]

    def _carry(self, areas: Areas, statement: Statement | None) -> tuple[Integers, Bytes]:
        """Have the network sum; without a statement members are known to agree."""
        others = [place for place in range(len(self._clique)) if place != self._clique.index]
        summed = others if self._adds_own else list(range(len(self._clique)))
        message = SumMessage(areas, statement, summed)
        if len(message.chunks):
            self._port.carry(message)
        if not self._adds_own:
            return message.sums, message.maxima
        return message.sums + areas.values, np.maximum(message.maxima, areas.maxima)


class SumMessage:
    """A `Message` of which the network makes one sum.

    Args:
        areas: what this member contributes.
        statement: what it asks for; None where members are known to agree, for a message without
            guard.
        summed: the places of the members whose contributions are in the sum.
    """

    def __init__(self, areas: Areas, statement: Statement | None, summed: Sequence[int]) -> None:
        self.statement = statement or CONTINUED
        self.sums, self.maxima = np.zeros_like(areas.values), np.zeros_like(areas.maxima)
        self.strides = (0, 0)
        self._areas, self._summed = areas, tuple(summed)
        guard = guard_of(statement) if statement is not None else NO_BYTES
        guard_result = np.zeros_like(guard)
        self.chunks = chunk_table(guard, guard_result, areas, self.sums, self.maxima)
        self.keep = (guard, guard_result, areas, self.sums, self.maxima)

    def contribution(self) -> Bytes:
        """Return maxima and integers in one piece."""
        parts = [self._areas.maxima.reshape(-1), self._areas.values.view(np.uint8)]
        return np.concatenate(parts)

    def accept(self, contributions: Mapping[int, Bytes]) -> None:
        """Put maxima and sums in place."""
        self.sums[:] = 0
        self.maxima[:] = 0
        for place in self._summed:
            part = contributions[place]
            rows, values = part[: self.maxima.size], part[self.maxima.size :]
            self.maxima[:] = np.maximum(self.maxima, rows.reshape(self.maxima.shape))
            self.sums += np.frombuffer(values.tobytes(), dtype=self.sums.dtype)


def blocks_per_chunk(area_bytes: int, integer_bytes: int) -> int:
    """Return how many blocks fit in a packet, each with a code in the padded max area."""
    blocks = area_bytes // (BLOCK_ELEMENTS * integer_bytes)
    while blocks > 0 and -(-blocks // 8) * 8 + blocks * BLOCK_ELEMENTS * integer_bytes > area_bytes:
        blocks -= 1
    if blocks == 0:
        raise CollectiveError(
            f"packets of {area_bytes} bytes have no room for a block of {BLOCK_ELEMENTS} integers "
            f"of {integer_bytes} bytes: use a larger MTU"
        )
    return blocks


def chunk_table(
    guard: Bytes, guard_result: Bytes, areas: Areas, sums: Integers, maxima: Bytes
) -> Chunks:
    """Return the table of a message: the guard, where there is one, then the chunks in order."""
    first = 1 if len(guard) else 0
    rows = max(-(-len(areas.values) // areas.per_chunk), len(areas.maxima))
    table = np.zeros(first + rows, dtype=CHUNK)
    if first:
        table[0] = (guard.ctypes.data, guard_result.ctypes.data, 0, 0, len(guard), 0, 0, 1)
    body, index = table[first:], np.arange(rows, dtype=np.uint64)
    width = np.uint64(areas.maxima.shape[1])
    if width:
        body["max_in"] = areas.maxima.ctypes.data + index * width
        body["max_out"] = maxima.ctypes.data + index * width
        body["max_bytes"] = width
    if len(areas.values):
        step = np.uint64(areas.per_chunk * areas.values.itemsize)
        body["sum_in"] = areas.values.ctypes.data + index * step
        body["sum_out"] = sums.ctypes.data + index * step
        left = areas.values.nbytes - index * step
        body["sum_bytes"] = np.minimum(left, step)
        body["element"] = ELEMENTS[areas.values.dtype.name]
    return table


def _places_of(blocks: Any, elements: int) -> Any:
    """Return the indices of all elements of some blocks."""
    within = np.arange(BLOCK_ELEMENTS)
    places = (blocks[:, None] * BLOCK_ELEMENTS + within).reshape(-1)
    return places[places < elements]


def _padded_blocks(values: Floats, blocks: Any) -> Floats:
    """Return some blocks of a vector in one; zeros fill the vector's last block."""
    places = (blocks[:, None] * BLOCK_ELEMENTS + np.arange(BLOCK_ELEMENTS)).reshape(-1)
    inside = places < len(values)
    picked = np.zeros(len(places), dtype=values.dtype)
    picked[inside] = values[places[inside]]
    return picked


class MulticastSharing:
    """The way of sharing of `multicast`: each member's payload reaches all others in one stream."""

    def __init__(self, clique: Clique, port: NetworkPort, sources: Sequence[int]) -> None:
        self._clique = clique
        self._port = port
        self._sources = tuple(sources)

    def share(self, statement: Statement, payload: Bytes, expected_bytes: int) -> dict[int, Frame]:
        """Multicast a payload of the expected length, or none, and receive all others'."""
        message = SpreadMessage(
            statement, payload, expected_bytes, self._port.area_bytes, self._sources
        )
        self._port.carry(message)
        frames = {self._clique.rank: Frame(statement, payload)}
        for row, source in zip(message.results, self._sources, strict=True):
            rank = self._clique.ranks[source]
            frames[rank] = Frame(statement, row.view(np.uint8)[:expected_bytes])
        return frames

    def counters(self) -> dict[str, int]:
        """Return the endpoint's counters."""
        return self._port.counters()

    def close(self) -> None:
        """Free the sockets."""
        self._port.close()


class SpreadMessage:
    """A `Message` of which every other member receives a copy."""

    def __init__(
        self,
        statement: Statement,
        payload: Bytes,
        expected_bytes: int,
        area_bytes: int,
        sources: Sequence[int],
    ) -> None:
        self.statement = statement
        self._sources = tuple(sources)
        words = np.zeros(4 * -(-expected_bytes // 4), dtype=np.uint8)
        words[: len(payload)] = payload
        self._values = words.view("<i4")
        guard = guard_of(statement)
        guards = np.zeros((len(self._sources), len(guard)), dtype=np.uint8)
        self.results = np.zeros((len(self._sources), len(self._values)), dtype=np.int32)
        areas = Areas(NO_ROWS, self._values, area_bytes // 4)
        self.chunks = chunk_table(guard, guards, areas, self.results[0], NO_BYTES)
        if not len(payload):
            self.chunks["sum_in"] = 0  # nothing but a header is sent for such a chunk
        self.strides = (guards.strides[0], self._values.nbytes)
        self.keep = (guard, guards, self._values, self.results)

    def contribution(self) -> Bytes:
        """Return the payload, filled up to whole words."""
        return self._values.view(np.uint8)

    def accept(self, contributions: Mapping[int, Bytes]) -> None:
        """Put the others' payloads in place."""
        for row, source in zip(self.results, self._sources, strict=True):
            row[:] = np.frombuffer(contributions[source].tobytes(), dtype=np.int32)
