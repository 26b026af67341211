"""What background flows put on every link direction in a stretch of time, by their own counters.

A training's bytes are checked against its plan to a few percent, so bytes that are not its own must
be known. Both ends of a flow count: `sent` is what TCP or UDP handed to the interface (what TCP
sent again included), `received` what the program at the other end got.

The *expected* amount of a direction is what was sent in the window, earlier by the delay up to that
direction. How much it can be off follows from the two counters alone: at most what was sent by the
window's end and not received at its beginning entered a direction meanwhile, and at least what was
received by its end and not yet sent at its beginning did. Frames that were lost on the way, that
wait in queues, and the time between two reports all lie within.

Payload means here what `measure.predict.payload_estimate` makes of counters: bytes without one TCP
header a frame. A UDP frame has 24 bytes less of headers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.measure.predict import (
    ETHERNET_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    ExpectedBytes,
    expected_bytes,
)
from testbed.measure.series import Counts, Series
from topologies.model import Direction
from topologies.routing import Routes

UDP_HEADER_BYTES = ETHERNET_HEADER_BYTES + 20 + 8
SHORTER_HEADER_BYTES = FRAME_HEADER_BYTES - UDP_HEADER_BYTES


@dataclass
class FlowHistory:
    """What both ends of a flow counted over time.

    Attributes:
        source: site that sends.
        target: site that receives.
        datagram_bytes: payload of each packet of UDP, 0 for TCP.
        sent: bytes, packets and retransmitted bytes at the source.
        received: bytes and packets at the target.
    """

    source: str
    target: str
    datagram_bytes: int
    sent: Series = field(default_factory=Series)
    received: Series = field(default_factory=Series)

    def append(self, side: Series, before_s: float, time_s: float, counts: Counts) -> None:
        """Add totals that were reported at a time.

        Args:
            side: `sent` or `received` of this flow.
            before_s: when totals that had not moved were looked at last.
            time_s: of this report.
            counts: the totals; retransmitted bytes take the place of drops.
        """
        if not side.times:
            side.append(min(before_s, time_s), Counts(0, 0, 0))
        elif before_s > side.times[-1]:
            side.append(before_s, Counts(side.bytes[-1], side.packets[-1], side.drops[-1]))
        side.append(max(time_s, side.times[-1]), counts)


@dataclass(frozen=True)
class BackgroundLoad:
    """What others than the training put on a direction.

    Attributes:
        expected: most likely.
        fewest_payload: what it was at least.
        most_payload: what it was at most.
    """

    expected: ExpectedBytes = field(default_factory=ExpectedBytes)
    fewest_payload: float = 0.0
    most_payload: float = 0.0

    def __add__(self, other: BackgroundLoad) -> BackgroundLoad:
        return BackgroundLoad(
            self.expected + other.expected,
            self.fewest_payload + other.fewest_payload,
            self.most_payload + other.most_payload,
        )


def background_load(
    flows: Iterable[FlowHistory], routes: Routes, mtu_bytes: int, start_s: float, end_s: float
) -> dict[Direction, BackgroundLoad]:
    """Return what flows put on the directions of their ways between two UNIX times."""
    load: dict[Direction, BackgroundLoad] = {}
    for flow in flows:
        for direction, one in _of_flow(flow, routes, mtu_bytes, start_s, end_s).items():
            load[direction] = load.get(direction, BackgroundLoad()) + one
    return load


def _of_flow(
    flow: FlowHistory, routes: Routes, mtu_bytes: int, start_s: float, end_s: float
) -> dict[Direction, BackgroundLoad]:
    way = routes.directions(flow.source, flow.target)
    fewest, most = extremes(flow, start_s, end_s)
    load = {}
    for direction, delay_s in zip(way, _delays_s(way, routes), strict=True):
        sent = flow.sent.between(start_s - delay_s, end_s - delay_s)
        expected = _on_wire(flow, sent, routes, mtu_bytes).get(direction, ExpectedBytes())
        share = _payload_share(flow)
        load[direction] = BackgroundLoad(expected, fewest * share, most * share)
    if not flow.datagram_bytes:
        back = _on_wire(flow, flow.sent.between(start_s, end_s), routes, mtu_bytes)
        for direction in routes.directions(flow.target, flow.source):
            load[direction] = BackgroundLoad(back[direction])
    return load


def _delays_s(way: Sequence[Direction], routes: Routes) -> list[float]:
    """Return for each direction of a way how long a packet takes to where it enters it."""
    specs = routes.topology.directions()
    passed, delays = 0.0, []
    for direction in way:
        delays.append(passed)
        passed += specs[direction].one_way_delay_ms / 1000
    return delays


def _on_wire(
    flow: FlowHistory, sent: Counts, routes: Routes, mtu_bytes: int
) -> Mapping[Direction, ExpectedBytes]:
    if not flow.datagram_bytes:
        return expected_bytes({(flow.source, flow.target): sent.bytes}, routes, mtu_bytes)
    one = ExpectedBytes(
        payload=sent.bytes * _payload_share(flow), headers=sent.packets * FRAME_HEADER_BYTES
    )
    return dict.fromkeys(routes.directions(flow.source, flow.target), one)


def _payload_share(flow: FlowHistory) -> float:
    """Return what counters call payload for each byte of payload."""
    return 1 - SHORTER_HEADER_BYTES / flow.datagram_bytes if flow.datagram_bytes else 1.0


def extremes(flow: FlowHistory, start_s: float, end_s: float) -> tuple[float, float]:
    """Return the least and the most payload that can have entered a direction of a flow's way."""
    sent, received = flow.sent, flow.received
    fewest = _at_or_before(received, end_s) - _at_or_after(sent, start_s)
    most = _at_or_after(sent, end_s) - _at_or_before(received, start_s)
    return float(max(0, fewest)), float(max(0, most))


def _at_or_before(series: Series, time_s: float) -> int:
    place = bisect_right(series.times, time_s)
    return series.bytes[place - 1] if place else 0


def _at_or_after(series: Series, time_s: float) -> int:
    if not series.times:
        return 0
    return series.bytes[min(bisect_left(series.times, time_s), len(series.times) - 1)]
