"""What flows of TCP between islands put on every link direction.

Where their bytes cross the WAN follows from the routes: a flow from island a to island b loads the
access port of a, each link direction on the way, and the access port of b. How many bytes a flow
carries says the collective (`testbed.measure.planned`).

On the wire there is more than payload. It is *estimated* for TCP over IPv4 with time stamps:

- headers: every segment has 14 bytes of Ethernet, 20 of IP, 20 of TCP and 12 of options
  (RFC 7323) in front of at most MTU - 52 bytes of payload;
- acknowledgements: one frame of 66 bytes the other way for every second segment (RFC 5681, 4.2).

Retransmissions come on top and are not predicted: a loss-free run must not have any.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topologies.model import Direction
from topologies.routing import Routes

ETHERNET_HEADER_BYTES = 14
IP_TCP_HEADER_BYTES = 20 + 20 + 12
FRAME_HEADER_BYTES = ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES
SEGMENTS_PER_ACKNOWLEDGEMENT = 2

Hop = tuple[str, str]


@dataclass(frozen=True)
class ExpectedBytes:
    """Bytes expected in one direction: payload exactly, the rest as the stated estimate."""

    payload: float = 0.0
    headers: float = 0.0
    acknowledgements: float = 0.0

    @property
    def on_wire(self) -> float:
        """All bytes of the Ethernet frames."""
        return self.payload + self.headers + self.acknowledgements

    def __add__(self, other: ExpectedBytes) -> ExpectedBytes:
        return ExpectedBytes(
            self.payload + other.payload,
            self.headers + other.headers,
            self.acknowledgements + other.acknowledgements,
        )

    def times(self, factor: float) -> ExpectedBytes:
        """Return what `factor` rounds of this are."""
        return ExpectedBytes(
            self.payload * factor, self.headers * factor, self.acknowledgements * factor
        )


def ring_hops(order: Sequence[str]) -> tuple[Hop, ...]:
    """Return the hops of a ring that runs through the islands in this order and closes."""
    if len(order) < 2:
        return ()
    return tuple(zip(order, (*order[1:], order[0]), strict=True))


def expected_bytes(
    payload: Mapping[Hop, float], routes: Routes, mtu_bytes: int
) -> dict[Direction, ExpectedBytes]:
    """Return what TCP flows put on every direction of the network.

    Args:
        payload: bytes of each flow, by source and target island.
        routes: how the network forwards; acknowledgements take the way back.
        mtu_bytes: longest IP packet.

    Returns:
        Every direction of the topology, also those with nothing to carry.
    """
    load: defaultdict[Direction, ExpectedBytes] = defaultdict(ExpectedBytes)
    for (source, target), payload_bytes in payload.items():
        there, back = _flow(payload_bytes, mtu_bytes)
        for direction in routes.directions(source, target):
            load[direction] += there
        for direction in routes.directions(target, source):
            load[direction] += back
    return {direction: load[direction] for direction in routes.topology.directions()}


def _flow(payload_bytes: float, mtu_bytes: int) -> tuple[ExpectedBytes, ExpectedBytes]:
    """Return what a flow puts on its way there, and its acknowledgements on the way back."""
    segments = math.ceil(payload_bytes / (mtu_bytes - IP_TCP_HEADER_BYTES))
    frames_back = math.ceil(segments / SEGMENTS_PER_ACKNOWLEDGEMENT)
    there = ExpectedBytes(payload=payload_bytes, headers=segments * FRAME_HEADER_BYTES)
    return there, ExpectedBytes(acknowledgements=frames_back * FRAME_HEADER_BYTES)


def payload_estimate(bytes_: int, packets: int) -> int:
    """Return the TCP payload in counted frames: what is left without one header a frame."""
    return max(0, bytes_ - FRAME_HEADER_BYTES * packets)


def traversals(payload: Mapping[Direction, float], message_bytes: int) -> float:
    """Return how many messages crossed WAN links, each counted at every link it crosses."""
    wan = sum(amount for direction, amount in payload.items() if not direction.is_access)
    return wan / message_bytes if message_bytes else 0.0


@dataclass(frozen=True)
class TimeBound:
    """The least a round's collective can take: transfer and latency, with the words for both."""

    transfer_s: float
    latency_s: float
    statement: str

    @property
    def total_s(self) -> float:
        """Transfer and latency together."""
        return self.transfer_s + self.latency_s
