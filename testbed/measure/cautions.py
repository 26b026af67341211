"""When a forecast is likely to be too low, and why: what TCP does that it leaves out. Pure.

Queues are bounded in time, so at low rates they hold few frames. What does not fit is dropped, and
repairs are not forecast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from schedules.capabilities import EXCHANGE, RING
from schedules.plan import PlannedRound
from testbed.links.spec import LinkSpec
from testbed.measure.reach import asked_round_trips
from testbed.measure.ring_model import UNDER_WAY
from topologies.model import Direction, Topology
from topologies.routing import Routes
from workloads.collectives.ring import segmentation

BITS_PER_MBIT_AND_MS = 1e3
ELEMENT_BYTES = 4


def cautions(planned: PlannedRound, routes: Routes, message_bytes: int) -> tuple[str, ...]:
    """Return why a round may take longer than its forecast, a sentence each."""
    if planned.collective == RING:
        return _segments_that_overflow(planned.cliques, routes, message_bytes)
    if planned.collective == EXCHANGE:
        return _frames_that_overflow(planned.cliques, routes)
    return ()


def queues_ms(routes: Routes) -> dict[Direction, float]:
    """Return how much each direction's queue holds: what is asked for, or the emulation's default.

    The default is at least the longest round trip (`testbed.emulation.emulation.with_queue`).
    """
    topology = routes.topology
    longest_ms = max(asked_round_trips(routes).values(), default=0.0)
    return {
        way: max(
            LinkSpec.from_direction(spec, topology.mtu_bytes).effective_queue_ms,
            longest_ms if spec.queue_ms is None else -inf,
        )
        for way, spec in topology.directions().items()
    }


def _frames_that_overflow(cliques: Sequence[Sequence[str]], routes: Routes) -> tuple[str, ...]:
    """Paced flows that cross one direction may all send a frame at the same moment."""
    flows = Counter(
        way
        for clique in cliques
        for a in clique
        for b in clique
        if a != b
        for way in routes.directions(a, b)
    )
    queues, topology = queues_ms(routes), routes.topology
    return tuple(
        f"a frame of each of {count} flows does not fit into {queues[way]:.0f} ms of queue on {way}"
        for way, count in flows.most_common(1)
        if count * _frame_ms(topology, way) > queues[way]
    )


def _segments_that_overflow(
    cliques: Sequence[Sequence[str]], routes: Routes, message_bytes: int
) -> tuple[str, ...]:
    """A member may send two segments at once into its port."""
    queues, specs = queues_ms(routes), routes.topology.directions()
    found = []
    for clique in cliques:
        size = segmentation(
            _whole_elements(message_bytes), len(clique), ELEMENT_BYTES
        ).segment_bytes
        for site in clique:
            way = Direction.up(site)
            takes_ms = 8 * UNDER_WAY * size / (specs[way].rate_mbps * BITS_PER_MBIT_AND_MS)
            if takes_ms > queues[way]:
                found.append(
                    f"{UNDER_WAY} segments of {size / 1e3:.0f} KB do not fit into "
                    f"{queues[way]:.0f} ms of queue on {way}"
                )
    return tuple(found[:1])


def _whole_elements(message_bytes: int) -> int:
    return -(-message_bytes // ELEMENT_BYTES) * ELEMENT_BYTES


def _frame_ms(topology: Topology, way: Direction) -> float:
    bits = 8 * (topology.mtu_bytes + 14)
    return bits / (topology.directions()[way].rate_mbps * BITS_PER_MBIT_AND_MS)
