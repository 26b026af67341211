"""Which wires a back-end has joined and what each of their directions was asked to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.links.backend import Wire
from testbed.links.spec import LinkSpec
from topologies.errors import UserError
from topologies.model import Direction


@dataclass(frozen=True)
class Lane:
    """One direction of a joined wire.

    Attributes:
        wire: the wire it belongs to.
        forward: whether it runs from end a to end b.
        spec: what is in force.
    """

    wire: Wire
    forward: bool
    spec: LinkSpec

    @property
    def direction(self) -> Direction:
        """The direction this lane carries."""
        return self.wire.direction if self.forward else self.wire.direction.reverse

    @property
    def source_end(self) -> str:
        """The interface at which its frames come in."""
        return self.wire.end_a if self.forward else self.wire.end_b

    @property
    def target_end(self) -> str:
        """The interface through which its frames leave."""
        return self.wire.end_b if self.forward else self.wire.end_a


class Registry:
    """The joined lanes by direction."""

    def __init__(self) -> None:
        self._lanes: dict[Direction, Lane] = {}
        self._ends: dict[str, Direction] = {}
        self._indices: set[int] = set()

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def refuse_known(self, wire: Wire) -> None:
        """Raise UserError when the wire's index, a direction or an end of it is already joined."""
        if wire.index in self._indices:
            raise UserError(f"wire {wire.index} is already joined")
        if wire.end_a == wire.end_b:
            raise UserError(f"wire {wire.index} has interface {wire.end_a} at both ends")
        for direction in (wire.direction, wire.direction.reverse):
            if direction in self._lanes:
                raise UserError(f"link direction {direction} is already joined")
        for end in (wire.end_a, wire.end_b):
            if end in self._ends:
                raise UserError(f"interface {end} already belongs to link {self._ends[end]}")

    def add(self, wire: Wire, forward: LinkSpec, backward: LinkSpec) -> tuple[Lane, Lane]:
        """Remember a wire as joined and return its two lanes."""
        lanes = Lane(wire, True, forward), Lane(wire, False, backward)
        for lane in lanes:
            self._lanes[lane.direction] = lane
            self._ends[lane.source_end] = wire.direction
        self._indices.add(wire.index)
        return lanes

    def lane(self, direction: Direction) -> Lane:
        """Return the lane of a direction; raises UserError when it is not joined."""
        if direction not in self._lanes:
            raise UserError(f"{direction} is no direction of a joined link")
        return self._lanes[direction]

    def replace(self, lane: Lane, spec: LinkSpec) -> None:
        """Put another spec in force for a lane."""
        self._lanes[lane.direction] = Lane(lane.wire, lane.forward, spec)
