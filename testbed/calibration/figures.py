"""From frames that were sent and came to delay, rate and loss. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.calibration.plan import wire_time_s
from testbed.calibration.probe import Arrival, Sent

RUN_UP = 0.1


@dataclass(frozen=True)
class Measured:
    """What one direction did.

    Attributes:
        one_way_ms: of each small frame that came, in order, its own wire time taken off.
        probes: small frames that were sent.
        lost: how many of them did not come.
        rate_mbps: at which a burst came out; None if too little of it came.
        offered_mbps: at which it was put in.
    """

    one_way_ms: tuple[float, ...]
    probes: int
    lost: int
    rate_mbps: float | None
    offered_mbps: float

    @property
    def median_ms(self) -> float | None:
        """The median delay; None if nothing came."""
        return statistics.median(self.one_way_ms) if self.one_way_ms else None

    @property
    def p99_ms(self) -> float | None:
        """The delay that 99 of 100 frames do not exceed; None if nothing came."""
        return quantile(self.one_way_ms, 0.99)

    @property
    def loss_pct(self) -> float:
        """The share of small frames that did not come."""
        return 100 * self.lost / self.probes if self.probes else 0.0


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the least of `values` that `share` of them do not exceed; None of no values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def one_way_ms(
    arrivals: Sequence[Arrival], frame_bytes: int, rate_mbps: float
) -> tuple[float, ...]:
    """Return each frame's delay without the time that the transmitter needed for it."""
    wire_ms = 1000 * wire_time_s(frame_bytes, rate_mbps)
    return tuple((one.received_ns - one.sent_ns) / 1e6 - wire_ms for one in arrivals)


def arrival_rate_mbps(times_ns: Sequence[int], frame_bytes: int) -> float | None:
    """Return the rate in wire bytes at which frames of one size came.

    It is the slope of bytes over time by least squares, which a frame that came late hardly moves.
    The first tenth is left out: a token bucket lets that much pass faster. None for fewer than
    three frames, or if all came at once.
    """
    kept = np.array(sorted(times_ns)[int(len(times_ns) * RUN_UP) :], dtype=np.int64)
    if len(kept) < 3 or kept[-1] == kept[0]:
        return None
    seconds = (kept - kept[0]) / 1e9
    numbers = np.arange(len(kept)) - (len(kept) - 1) / 2
    seconds_a_frame = float(numbers @ seconds / (numbers @ numbers))
    return frame_bytes * 8 / seconds_a_frame / 1e6


def offered_rate_mbps(sent: Sequence[Sent], frame_bytes: int) -> float:
    """Return the rate in wire bytes at which frames were really put in, between first and last."""
    if len(sent) < 2 or sent[-1].ns <= sent[0].ns:
        return 0.0
    return (len(sent) - 1) * frame_bytes * 8 / (sent[-1].ns - sent[0].ns) * 1000
