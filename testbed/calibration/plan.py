"""Which frames are sent when: decided beforehand, as plain data.

Two questions are asked of each direction, and they must not meet. *Delay and loss* want an empty
queue: small frames at even intervals, all directions in turn, so that no two frames are under way
into the same process at once. *Rate* wants a full one: frames at 1.2 times the rate, so that the
transmitter never idles and the arrivals come at its pace. Bursts of several directions go together
only as far as the machine carries them easily, or they would measure each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.calibration.frames import LEAST_FRAME_BYTES
from topologies.model import ETHERNET_HEADER_BYTES, DirectionSpec

OVERLOAD = 1.2
BURST_FRAMES = 100  # at least; a slow rate is measured longer for them
LARGEST_BURST_BYTES = 32 << 20
LEAST_PROBES = 20


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        probes: small frames for each direction's delay.
        loss_probes: the same where loss is asked for.
        probes_per_s: of all directions together.
        longest_probing_s: a direction's probes are fewer if they would take longer.
        burst_s: how long each rate is measured.
        together_mbps: what bursts that go together may offer in sum.
    """

    probes: int
    loss_probes: int
    probes_per_s: float
    longest_probing_s: float
    burst_s: float
    together_mbps: float

    def with_more_patience(self) -> Effort:
        """Return the same with a quarter of the load and four times the length of a burst.

        A pause of the machine weighs a quarter in a burst four times as long.
        """
        return replace(
            self,
            probes_per_s=self.probes_per_s / 4,
            burst_s=self.burst_s * 4,
            together_mbps=self.together_mbps / 4,
        )


# A userspace switch wakes for every frame that reaches it, some 200 us of processor time each. In
# nine cities at 100 Mbit/s two cores begin to fall behind at 600 to 1200 Mbit/s together: bursts of
# links that are right come out up to 12 % slow. At 360 they are right to 0.1 %.
QUICK = Effort(200, 2000, 5000.0, 2.0, 0.075, 360.0)
THOROUGH = Effort(2000, 20_000, 2500.0, 300.0, 0.5, 240.0)


@dataclass(frozen=True)
class Train:
    """Frames of one size at even intervals in one direction.

    Attributes:
        direction: its number.
        first: sequence number of the first frame.
        start_s: when the first frame is sent, counted from the start of sending.
    """

    direction: int
    frame_bytes: int
    count: int
    interval_s: float
    start_s: float = 0.0
    first: int = 0

    @property
    def end_s(self) -> float:
        """When the last frame is sent."""
        return self.start_s + (self.count - 1) * self.interval_s


def wire_time_s(frame_bytes: int, rate_mbps: float) -> float:
    """Return how long a frame occupies the transmitter."""
    return frame_bytes * 8 / (rate_mbps * 1e6)


def delay_trains(asked: Mapping[int, DirectionSpec], effort: Effort) -> tuple[Train, ...]:
    """Return the small frames of every direction, spread so that they go in turn.

    The interval leaves every transmitter idle at least half of the time.
    """
    turn_s = 1.0 / effort.probes_per_s
    common_s = turn_s * max(1, len(asked))
    trains = []
    for place, (direction, spec) in enumerate(asked.items()):
        interval_s = max(common_s, 2 * wire_time_s(LEAST_FRAME_BYTES, spec.rate_mbps))
        count = _probe_count(spec, effort, interval_s)
        trains.append(Train(direction, LEAST_FRAME_BYTES, count, interval_s, place * turn_s))
    return tuple(trains)


def _probe_count(spec: DirectionSpec, effort: Effort, interval_s: float) -> int:
    wanted = effort.loss_probes if spec.loss_pct > 0 else effort.probes
    affordable = int(effort.longest_probing_s / interval_s)
    return max(LEAST_PROBES, min(wanted, affordable))


def burst_train(direction: int, spec: DirectionSpec, mtu_bytes: int, effort: Effort) -> Train:
    """Return the frames that fill one direction's transmitter for the time of a burst.

    Lost frames take no wire time, so more are offered where loss is asked for.
    """
    kept = max(0.1, 1 - spec.loss_pct / 100)
    offered_bytes_per_s = spec.rate_mbps * 1e6 / 8 * OVERLOAD / kept
    burst_bytes = min(offered_bytes_per_s * effort.burst_s, LARGEST_BURST_BYTES)
    largest = mtu_bytes + ETHERNET_HEADER_BYTES
    frame_bytes = min(largest, max(LEAST_FRAME_BYTES, int(burst_bytes / BURST_FRAMES)))
    count = max(BURST_FRAMES, math.ceil(burst_bytes / frame_bytes))
    return Train(direction, frame_bytes, count, frame_bytes / offered_bytes_per_s)


def offered_mbps(train: Train) -> float:
    """Return the rate of a train in wire bytes."""
    return train.frame_bytes * 8 / train.interval_s / 1e6


def burst_groups(trains: Sequence[Train], together_mbps: float) -> tuple[tuple[Train, ...], ...]:
    """Divide bursts into groups that go together; one that is too fast for company goes alone."""
    groups: list[list[Train]] = []
    room_mbps = 0.0
    for train in trains:
        rate_mbps = offered_mbps(train)
        if not groups or rate_mbps > room_mbps:
            groups.append([])
            room_mbps = together_mbps
        groups[-1].append(train)
        room_mbps -= rate_mbps
    return tuple(_staggered(group) for group in groups)


def _staggered(group: Sequence[Train]) -> tuple[Train, ...]:
    """Let the trains of a group begin one after another within an interval, not all at once."""
    return tuple(
        replace(train, start_s=train.interval_s * place / len(group))
        for place, train in enumerate(group)
    )


def longest_way_s(specs: Sequence[DirectionSpec], mtu_bytes: int) -> float:
    """Return after what time a frame that was sent has come, or never will.

    The queue is taken as the back-end's default rule has it where none is asked for.
    """
    return max((_way_s(spec, mtu_bytes) for spec in specs), default=0.0)


def _way_s(spec: DirectionSpec, mtu_bytes: int) -> float:
    largest = mtu_bytes + ETHERNET_HEADER_BYTES
    queue_s = max(0.05, 2 * spec.one_way_delay_ms / 1000, 10 * wire_time_s(largest, spec.rate_mbps))
    if spec.queue_ms is not None:
        queue_s = spec.queue_ms / 1000
    return (spec.one_way_delay_ms + spec.jitter_ms) / 1000 + queue_s
