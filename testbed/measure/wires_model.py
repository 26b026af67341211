"""Packets on their way through the network's directions, one event a hop. Pure.

A direction is a virtual clock, as in the link back-ends (`testbed.links.spec`): a packet that comes
at t departs at max(t, last departure) + bits / rate and arrives after the delay. Queues are without
end here: what is modelled on them never fills one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from topologies.model import DirectionSpec
from topologies.routing import Routes

BITS_PER_MBIT = 1e6
SECONDS_PER_MS = 1e-3

Action = Callable[..., None]


class Pipe:
    """One direction: rate, delay, and when its transmitter is free."""

    __slots__ = ("delay_s", "free_at_s", "rate_bps")

    def __init__(self, spec: DirectionSpec) -> None:
        self.rate_bps = spec.rate_mbps * BITS_PER_MBIT
        self.delay_s = spec.one_way_delay_ms * SECONDS_PER_MS
        self.free_at_s = 0.0

    def pass_on(self, now_s: float, bits: float) -> float:
        """Return when a packet that comes now arrives at the far end."""
        self.free_at_s = max(now_s, self.free_at_s) + bits / self.rate_bps
        return self.free_at_s + self.delay_s

    def passage_s(self, now_s: float) -> float:
        """Return how long a packet of no length would take from now."""
        return max(self.free_at_s - now_s, 0.0) + self.delay_s


Way = tuple[Pipe, ...]


class Wires:
    """All directions of a network, and the agenda of what happens when."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.now_s = 0.0
        self._agenda: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._numbers = count()
        self._pipes = {way: Pipe(spec) for way, spec in routes.topology.directions().items()}

    def way(self, source: str, target: str) -> Way:
        """Return the directions that a packet from island to island crosses."""
        return tuple(self._pipes[one] for one in self.routes.directions(source, target))

    def at(self, time_s: float, action: Action, *arguments: Any) -> None:
        """Have something happen at a time."""
        heapq.heappush(self._agenda, (time_s, next(self._numbers), action, arguments))

    def run(self) -> None:
        """Let everything happen that is on the agenda, in order."""
        while self._agenda:
            self.now_s, _, action, arguments = heapq.heappop(self._agenda)
            action(*arguments)

    def carry(self, way: Way, bits: float, arrived: Action, *arguments: Any) -> None:
        """Send a packet along a way; in the end `arrived` is called with the arguments."""
        at_s = way[0].pass_on(self.now_s, bits)
        if len(way) == 1:
            self.at(at_s, arrived, *arguments)
        else:
            self.at(at_s, self.carry, way[1:], bits, arrived, *arguments)

    def passage_s(self, way: Way) -> float:
        """Return how long a packet of no length would take now, queues included."""
        return sum(pipe.passage_s(self.now_s) for pipe in way)
