"""The interface of a link back-end, and which one this machine gets.

A back-end takes *wires*: two interfaces in the namespace it works in, each the far end of a veth
pair whose near end is a node's. Joining a wire is what makes it carry frames, so that a link can
never be there unshaped: until `join` has returned, nothing passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from testbed.links.spec import LinkSpec
from topologies.errors import MachineError, UserError
from topologies.model import Direction

DROP_CAUSES = ("queue", "loss", "socket", "oversize", "memory", "transmit")


@dataclass(frozen=True)
class Wire:
    """Two wire ends to be joined.

    Attributes:
        index: unique to the run; the ends are usually named after it.
        end_a: interface whose far side is the node at `direction.source`.
        end_b: interface whose far side is the node at `direction.target`.
        direction: the way from a to b; the other way is its reverse.
    """

    index: int
    end_a: str
    end_b: str
    direction: Direction


@dataclass(frozen=True)
class Lateness:
    """How long after its due time each frame was released.

    Attributes:
        bucket_counts: frames whose lateness in microseconds lies in [0, 1), [1, 2), [2, 4), [4, 8)
            and so on, doubling; the last bucket is open.
        max_us: the latest one.
    """

    bucket_counts: tuple[int, ...]
    max_us: float

    @property
    def total(self) -> int:
        """The number of releases counted."""
        return sum(self.bucket_counts)

    def quantile_us(self, share: float) -> float:
        """Return the upper edge in µs of the bucket that holds this share of all releases."""
        wanted, seen = share * self.total, 0
        for exponent, count in enumerate(self.bucket_counts):
            seen += count
            if count and seen >= wanted:
                return min(float(2**exponent), self.max_us)
        return 0.0

    def minus(self, earlier: Lateness) -> Lateness:
        """Return the releases since `earlier`; the maximum stays that of the whole time."""
        pairs = zip(self.bucket_counts, earlier.bucket_counts, strict=True)
        return Lateness(tuple(now - then for now, then in pairs), self.max_us)


@dataclass(frozen=True)
class DirectionCounters:
    """What one direction has done since it was joined. A frame is a wire frame, never an aggregate.

    Attributes:
        frames_in: frames that came in at the source's end.
        bytes_in: their wire bytes.
        frames_out: frames handed to the target's end, duplicates included.
        bytes_out: their wire bytes.
        queued_frames: frames still inside.
        dropped: frames dropped by cause, keys from `DROP_CAUSES`: `queue` full, `loss` by the
            model, `socket` buffer overflow, `oversize` for the other end, no `memory`, `transmit`
            refused by the interface. Only `queue` and `loss` are asked for.
        duplicated: frames sent a second time; None where the back-end cannot know.
        corrupted: frames with a bit flipped; None likewise.
        lateness: of releases; None where the back-end cannot know.
    """

    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    queued_frames: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    duplicated: int | None = 0
    corrupted: int | None = 0
    lateness: Lateness | None = None

    @property
    def unasked_drops(self) -> int:
        """Frames dropped that neither the loss model nor the queue bound asked for."""
        return sum(count for cause, count in self.dropped.items() if cause not in ("queue", "loss"))


class LinkBackend(Protocol):
    """Gives wires their rate, delay, loss and queue, in the namespace it was started in."""

    name: ClassVar[str]

    def join(self, wire: Wire, forward: LinkSpec, backward: LinkSpec) -> None:
        """Let frames pass between the ends; `forward` shapes a to b, `backward` b to a.

        Raises:
            UserError: for a direction or interface that is already joined.
            MachineError: when the machine cannot shape it, with the reason and a remedy.
        """
        ...

    def spec(self, direction: Direction) -> LinkSpec:
        """Return what is in force; raises UserError for a direction that is not joined."""
        ...

    def change(self, direction: Direction, **named: object) -> LinkSpec:
        """Change the named fields of a live direction, losing no queued frame; return the whole.

        Raises:
            UserError: for an unknown direction or field, or a value out of range.
        """
        ...

    def counters(self) -> Mapping[Direction, DirectionCounters]:
        """Return the counters of every direction; raises RunError when the back-end is gone."""
        ...

    def failure(self) -> str | None:
        """Return why links are no longer shaped, or None while all is well."""
        ...

    def close(self) -> None:
        """Stop shaping and carry nothing any more; a second call does nothing."""
        ...


BACKEND_NAMES = ("netem", "linkd")


@dataclass(frozen=True)
class Availability:
    """Whether a back-end works here: `missing` is empty, or says what is not there."""

    missing: str = ""
    remedy: str = ""

    def __bool__(self) -> bool:
        return not self.missing


def choose(preferred: str | None, available: Mapping[str, Availability]) -> str:
    """Return the name of the back-end to use: the preferred one, or else the first that works.

    `netem` comes first, because the kernel releases frames from a timer interrupt and no process
    has to be scheduled for it.

    Raises:
        UserError: when `preferred` is no back-end.
        MachineError: when the preferred one, or every one, is not available, with the remedy.
    """
    if preferred is not None and preferred not in BACKEND_NAMES:
        raise UserError(f"{preferred} is no link back-end: one of {', '.join(BACKEND_NAMES)}")
    wanted = BACKEND_NAMES if preferred is None else (preferred,)
    for name in wanted:
        if available[name]:
            return name
    reasons = "; ".join(f"{n}: {available[n].missing} ({available[n].remedy})" for n in wanted)
    raise MachineError(f"links cannot be shaped here: {reasons}")
