"""The ring all-reduce of gloo in arithmetic: who sends to whom, and how many bytes.

A ring all-reduce over N members (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 69(2), 2009) cuts a message of M bytes into N chunks. In N - 1
steps of reduce-scatter each member comes to hold the sum of one chunk, and N - 1 steps of
all-gather pass the sums on. Each step moves about M / N bytes over each hop, so that a hop carries
2 (N - 1) / N x M bytes in all, and in one direction only.

Two things about gloo (`gloo/allreduce.cc`, function `ring`) are not what one would guess:

- **It sends downwards.** Rank r sends to rank r - 1 and receives from rank r + 1, modulo N.
- **Its chunks are not all of one size.** A chunk has at least two segments of at most 1 MiB, and a
  segment is rounded up to a whole number of elements, so that the chunks of the last ranks come
  out shorter, or empty. Nothing is padded: a hop that passes the short chunk on carries a little
  less than 2 (N - 1) / N x M, and one that leaves it out carries as much more.

Beside the payload each segment costs headers of 48 bytes: two along the ring (the offer, and one in
front of the data) and one against it (the receiver is ready). `docs/workloads.md` has what was
measured on real sockets and interfaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAXIMUM_SEGMENT_BYTES = 1024 * 1024
MINIMUM_SEGMENTS_PER_CHUNK = 2
HEADER_BYTES = 48


def ring_successor(rank: int, members: int) -> int:
    """Return the rank to which `rank` sends in a ring of `members`."""
    _check_rank(rank, members)
    return (rank - 1) % members


def ring_predecessor(rank: int, members: int) -> int:
    """Return the rank from which `rank` receives in a ring of `members`."""
    _check_rank(rank, members)
    return (rank + 1) % members


def downward_flow(members: int) -> tuple[int, ...]:
    """Return the ranks of a job in the order in which its ring of all passes data on."""
    return tuple(reversed(range(members)))


def place_in_gloo(flow: Sequence[int], rank: int) -> int:
    """Return the rank within gloo that makes data flow in a given order.

    Args:
        flow: ranks of the job, each sending to the next, and the last to the first.
        rank: one of them.
    """
    return len(flow) - 1 - flow.index(rank)


@dataclass(frozen=True)
class Segmentation:
    """How gloo cuts a message: `segments` of `segment_bytes` each, the last ones cut short."""

    message_bytes: int
    members: int
    segments: int
    segment_bytes: int

    @property
    def segments_per_chunk(self) -> int:
        """Segments of the chunk of one member."""
        return self.segments // self.members

    def chunk_bytes(self, chunk: int) -> int:
        """Return the bytes of the message that lie in a member's chunk, possibly none."""
        full = self.segments_per_chunk * self.segment_bytes
        return min(max(self.message_bytes - (chunk % self.members) * full, 0), full)

    def chunk_segments(self, chunk: int) -> int:
        """Return the segments of a member's chunk that are not empty."""
        return -(-self.chunk_bytes(chunk) // self.segment_bytes) if self.message_bytes else 0


def segmentation(message_bytes: int, members: int, element_bytes: int = 4) -> Segmentation:
    """Cut a message of `message_bytes` as gloo does for a ring of `members`.

    Raises:
        ValueError: the message is not a whole number of elements, or there is no ring.
    """
    if members < 1 or element_bytes < 1 or message_bytes < 0 or message_bytes % element_bytes:
        raise ValueError(
            f"{message_bytes} bytes in elements of {element_bytes} over {members} members: "
            "a ring needs a member and a whole number of elements"
        )
    largest = element_bytes * max(1, MAXIMUM_SEGMENT_BYTES // element_bytes)
    at_least = max(-(-message_bytes // largest), MINIMUM_SEGMENTS_PER_CHUNK * members)
    segments = _round_up(at_least, members)
    segment_bytes = _round_up(-(-message_bytes // segments), element_bytes)
    return Segmentation(message_bytes, members, segments, segment_bytes)


def expected_ring_payload_bytes(
    message_bytes: int, members: int, hop: int, element_bytes: int = 4
) -> int:
    """Return the payload bytes of one all-reduce from rank `hop` to its successor.

    A member passes on every chunk but its own while reducing, and every chunk but its successor's
    while gathering. Over all hops that adds up to exactly 2 (N - 1) M.

    Raises:
        ValueError: `hop` is no rank of the ring, or the message is not a whole number of elements.
    """
    _check_rank(hop, members)
    if members == 1:
        return 0
    cut = segmentation(message_bytes, members, element_bytes)
    omitted = cut.chunk_bytes(hop) + cut.chunk_bytes(ring_successor(hop, members))
    return 2 * message_bytes - omitted


def ring_segments_sent(message_bytes: int, members: int, hop: int, element_bytes: int = 4) -> int:
    """Return how many segments one all-reduce sends from rank `hop` to its successor."""
    _check_rank(hop, members)
    if members == 1:
        return 0
    cut = segmentation(message_bytes, members, element_bytes)
    sent_once = sum(cut.chunk_segments(chunk) for chunk in range(members))
    return 2 * sent_once - sum(
        cut.chunk_segments(chunk) for chunk in (hop, ring_successor(hop, members))
    )


def expected_ring_stream_bytes(
    message_bytes: int, members: int, hop: int, element_bytes: int = 4
) -> int:
    """Return the bytes that gloo hands to TCP for `hop`'s successor: payload and headers.

    In a ring of two both directions are one connection, and the headers against the ring, one a
    segment received, come on top.
    """
    segments = ring_segments_sent(message_bytes, members, hop, element_bytes)
    payload = expected_ring_payload_bytes(message_bytes, members, hop, element_bytes)
    return payload + 2 * HEADER_BYTES * segments


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _check_rank(rank: int, members: int) -> None:
    if not 0 <= rank < members:
        raise ValueError(f"rank {rank} is not in a ring of {members}: 0 to {members - 1}")
