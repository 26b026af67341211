"""Three witnesses for the same bytes: switch ports, interfaces, the link back-end.

A figure that only one counter supports may be that counter's mistake. Every direction is counted
by three parts that know nothing of one another: the switch that sends into the link and the one
that receives from it (OpenFlow port statistics), the kernel's interfaces at the wire ends, and the
link back-end itself. They are compared at both ends of the link, because bytes that entered but did
not leave are either in flight or dropped.

The interfaces are the reference: they see both ends of every direction, islands included, where no
switch counts what an island sends. They are read twice, before and after the others: what another
witness says must lie between. So the comparison is as sharp on a busy network as on a quiet one,
and at the end of a run, when nothing moves, it is exact.

Where islands hand down segments whole (segmentation offload), an interface counts a segment as one
frame with one header; a link back-end may count the frames it becomes on a real wire, each with a
header of its own. So headers of frames that a witness counts beyond the interface are taken off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from testbed.measure.counters import DirectionCounters
from testbed.measure.predict import FRAME_HEADER_BYTES
from topologies.model import Direction

# A link back-end may miss the first frames of an interface, from before it joined the wire.
STRAY_BYTES = 4096

PortStatistics = Mapping[str, Mapping[str, Any]]


class BackendCounters(Protocol):
    """What a link back-end counts of one direction, as far as it is compared here."""

    @property
    def bytes_in(self) -> int:
        """Bytes that entered the link."""

    @property
    def frames_in(self) -> int:
        """Frames that entered the link."""

    @property
    def bytes_out(self) -> int:
        """Bytes that left the link."""

    @property
    def frames_out(self) -> int:
        """Frames that left the link."""


@dataclass(frozen=True)
class End:
    """One end of a direction: where it enters the link, or where it leaves it."""

    direction: Direction
    entry: bool

    def __str__(self) -> str:
        return f"{self.direction} {'in' if self.entry else 'out'}"


@dataclass(frozen=True)
class Count:
    """Bytes and frames counted at one end since the run began."""

    bytes: int
    packets: int


@dataclass(frozen=True)
class CrossCheckRow:
    """What the witnesses say of one end of a direction, and whether they agree.

    Attributes:
        direction: as `NYC>LON`.
        end: `in` where the direction enters its link, `out` where it leaves it.
        interface_bytes: by the wire end's interface, the reference.
        moved_bytes: what the interface counted while the others were read.
        controller_bytes: by the switch port there; None where no switch counts.
        backend_bytes: by the link back-end; None where it does not count.
        difference_bytes: by how much the witness furthest off misses the reference and what moved;
            negative where it counted less.
        allowed_bytes: the greatest difference that is explained.
    """

    direction: str
    end: str
    interface_bytes: int
    moved_bytes: int
    controller_bytes: int | None
    backend_bytes: int | None
    difference_bytes: int
    allowed_bytes: int = STRAY_BYTES

    @property
    def agree(self) -> bool:
        """Whether every witness is within what is allowed."""
        return abs(self.difference_bytes) <= self.allowed_bytes


def counts_at_ends(counters: Mapping[Direction, DirectionCounters]) -> dict[End, Count]:
    """Return the counts of directions at each of their two ends."""
    return dict(_both_ends(counters))


def _both_ends(counters: Mapping[Direction, DirectionCounters]) -> Iterator[tuple[End, Count]]:
    for direction, x in counters.items():
        yield End(direction, entry=True), Count(x.bytes_in, x.packets_in)
        yield End(direction, entry=False), Count(x.bytes_out, x.packets_out)


def counts_of_backend(counters: Mapping[Direction, BackendCounters]) -> dict[End, Count]:
    """Return what the link back-end says of the ends of directions."""
    entries = {End(d, entry=True): Count(x.bytes_in, x.frames_in) for d, x in counters.items()}
    exits = {End(d, entry=False): Count(x.bytes_out, x.frames_out) for d, x in counters.items()}
    return entries | exits


def counts_of_ports(ports: PortStatistics) -> dict[End, Count]:
    """Return what the controller's port statistics say of the ends of directions.

    Args:
        ports: by the direction that leaves through the port (`NYC>LON`), with `tx_bytes`,
            `tx_packets`, `rx_bytes` and `rx_packets`. What the port received left the link on the
            opposite direction.
    """
    counts: dict[End, Count] = {}
    for name, port in ports.items():
        leaving = Direction.parse(name)
        counts[End(leaving, entry=True)] = Count(port["tx_bytes"], port["tx_packets"])
        counts[End(leaving.reverse, entry=False)] = Count(port["rx_bytes"], port["rx_packets"])
    return counts


def cross_check(
    before: Mapping[End, Count],
    controller: Mapping[End, Count],
    backend: Mapping[End, Count],
    after: Mapping[End, Count],
) -> list[CrossCheckRow]:
    """Compare the witnesses at every end the interfaces count.

    Args:
        before: the interfaces, read before the others.
        controller: port statistics, where there are any.
        backend: the link back-end's own counts, where it has any.
        after: the interfaces, read after the others.
    """
    ends = sorted(before, key=lambda end: (end.direction, not end.entry))
    return [_row(x, before[x], controller.get(x), backend.get(x), after[x]) for x in ends]


def _row(
    end: End, before: Count, controller: Count | None, backend: Count | None, after: Count
) -> CrossCheckRow:
    moved_bytes = after.bytes - before.bytes
    witnesses = [_excess(x, before) for x in (controller, backend) if x is not None]
    return CrossCheckRow(
        direction=str(end.direction),
        end="in" if end.entry else "out",
        interface_bytes=before.bytes,
        moved_bytes=moved_bytes,
        controller_bytes=None if controller is None else controller.bytes,
        backend_bytes=None if backend is None else backend.bytes,
        difference_bytes=max((_outside(x, moved_bytes) for x in witnesses), key=abs, default=0),
    )


def _excess(witness: Count, reference: Count) -> int:
    """Return how many bytes a witness has more, without the headers of frames it counts apart."""
    frames_apart = max(0, witness.packets - reference.packets)
    return witness.bytes - reference.bytes - frames_apart * FRAME_HEADER_BYTES


def _outside(excess_bytes: int, moved_bytes: int) -> int:
    """Return how far an excess is from lying between nothing and what moved."""
    return excess_bytes - min(max(excess_bytes, 0), max(moved_bytes, 0))


def disagreements(rows: Iterable[CrossCheckRow]) -> list[str]:
    """Return one line for each end at which the witnesses do not agree."""
    return [
        f"{row.direction} {row.end}: counters differ by {row.difference_bytes} bytes, "
        f"{row.allowed_bytes} are explained"
        for row in rows
        if not row.agree
    ]
