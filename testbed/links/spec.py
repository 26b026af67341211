"""What one direction of a link does to frames, in one meaning that both back-ends keep.

The order of things on the way through a direction is the same in both back-ends:

1. **Loss**, **corruption** and **duplication** are drawn as a frame enters. A lost frame takes no
   wire time; a duplicate takes its own.
2. The **queue** waits for the transmitter and is bounded in milliseconds of wire time. A frame that
   would have to wait longer is dropped at the tail.
3. The **rate** counts *wire bytes*: the Ethernet frame from its destination address to the end of
   its payload, as `skb->len` has it and every Linux queueing discipline counts it. Preamble, frame
   check sequence and interframe gap (another 24 bytes on a real Ethernet) are not charged. A
   segmentation-offload frame is charged as the frames it stands for, every header included.
4. The **delay**, with its jitter, is the time in the fibre.

Jitter is uniform on [delay - jitter, delay + jitter]. Without `reorder` a frame never overtakes
the one before it, as on a real path through first-in-first-out queues; `tc netem` reorders unless
told otherwise, which TCP answers with needless retransmissions.

**Default queue**: the largest of twice the one-way delay (one bandwidth-delay product of the link's
own round trip: C. Villamizar and C. Song, "High performance TCP in ANSNET", ACM CCR 24(5), 1994),
50 ms (a path may be far longer than the shortest of its links, and WAN routers hold tens of
milliseconds) and ten full frames.

**Burst loss** is the Gilbert-Elliott chain (E. N. Gilbert, Bell System Technical Journal 39, 1960;
E. O. Elliott, same journal 42, 1963) with the parameters of `tc netem loss gemodel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from topologies.errors import UserError
from topologies.model import DirectionSpec, frame_ms

MIN_RATE_MBPS = 0.064
MAX_RATE_MBPS = 10_000.0
MAX_DELAY_MS = 10_000.0
MAX_QUEUE_MS = 60_000.0
MIN_MTU_BYTES = 68  # RFC 791: every IPv4 module forwards 68 bytes whole
MAX_MTU_BYTES = 65_535
DEFAULT_QUEUE_FLOOR_MS = 50.0
DEFAULT_QUEUE_FRAMES = 10


@dataclass(frozen=True)
class GilbertElliott:
    """Loss in bursts: a two-state chain that moves once a frame.

    Attributes:
        p_enter_pct: chance that a frame in the good state is followed by the bad state.
        p_leave_pct: chance that a frame in the bad state is followed by the good state.
        loss_in_bad_pct: loss while in the bad state.
        loss_in_good_pct: loss while in the good state.
    """

    p_enter_pct: float
    p_leave_pct: float
    loss_in_bad_pct: float = 100.0
    loss_in_good_pct: float = 0.0

    def __post_init__(self) -> None:
        for each in fields(self):
            _number(f"burst_loss.{each.name}", getattr(self, each.name), 0.0, 100.0)

    @classmethod
    def of_means(cls, loss_pct: float, burst_frames: float) -> GilbertElliott:
        """Return Gilbert's chain, which loses all in the bad state, from its two means.

        Stays in the bad state are geometric, so it is left with 1 / burst; that the bad state's
        share is the loss gives the chance to enter it.

        Args:
            loss_pct: share of all frames that is lost, under 100.
            burst_frames: mean number of frames lost in a row, from 1 and the loss's odds.

        Raises:
            UserError: for means that no chain has.
        """
        if not loss_pct < 100:
            raise UserError(f"loss of {loss_pct:g} % comes in no bursts: leave their length out")
        p_leave_pct = 100 / burst_frames
        p_enter_pct = p_leave_pct * loss_pct / (100 - loss_pct)
        return cls(100.0 if math.isclose(p_enter_pct, 100.0) else p_enter_pct, p_leave_pct)

    @property
    def mean_loss_pct(self) -> float:
        """The long-run share of frames lost: the stationary mix of both states."""
        total = self.p_enter_pct + self.p_leave_pct
        in_bad = self.p_enter_pct / total if total else 0.0
        return in_bad * self.loss_in_bad_pct + (1 - in_bad) * self.loss_in_good_pct

    @property
    def mean_burst_frames(self) -> float:
        """The mean stay in the bad state in frames: geometric, so the inverse of leaving it."""
        return 100.0 / self.p_leave_pct if self.p_leave_pct else math.inf


@dataclass(frozen=True)
class LinkSpec:
    """One direction of a link, checked on construction.

    Attributes:
        rate_mbps: wire bytes' rate, 0.064 to 10,000; None leaves the direction unshaped.
        one_way_delay_ms: time in the fibre, 0 to 10,000.
        jitter_ms: half width of the uniform spread of the delay, at most the delay.
        loss_pct: independent loss of each frame, 0 to 100; not together with `burst_loss`.
        burst_loss: loss in bursts.
        duplicate_pct: chance that a frame is sent twice, 0 to 100.
        corrupt_pct: chance that one bit of a frame is flipped, 0 to 100.
        reorder: whether jitter may let a frame overtake another.
        queue_ms: longest wait for the transmitter; None takes the default rule of this module.
        mtu_bytes: largest IP packet; a queue must hold one such frame.
        seed: of this direction's random draws.

    Raises:
        UserError: for a value out of range, in one line that names the field.
    """

    rate_mbps: float | None = None
    one_way_delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_pct: float = 0.0
    burst_loss: GilbertElliott | None = None
    duplicate_pct: float = 0.0
    corrupt_pct: float = 0.0
    reorder: bool = False
    queue_ms: float | None = None
    mtu_bytes: int = 9000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rate_mbps is not None:
            _number("rate_mbps", self.rate_mbps, MIN_RATE_MBPS, MAX_RATE_MBPS)
        _number("one_way_delay_ms", self.one_way_delay_ms, 0.0, MAX_DELAY_MS)
        _number("jitter_ms", self.jitter_ms, 0.0, MAX_DELAY_MS)
        for percent in ("loss_pct", "duplicate_pct", "corrupt_pct"):
            _number(percent, getattr(self, percent), 0.0, 100.0)
        _integer("mtu_bytes", self.mtu_bytes, MIN_MTU_BYTES, MAX_MTU_BYTES)
        _integer("seed", self.seed, 0, 2**64 - 1)
        self._check_together()

    def _check_together(self) -> None:
        if self.jitter_ms > self.one_way_delay_ms:
            raise UserError(
                f"jitter_ms {self.jitter_ms:g} is larger than one_way_delay_ms: "
                f"at most {self.one_way_delay_ms:g}"
            )
        if not isinstance(self.reorder, bool):
            raise UserError(f"reorder {self.reorder!r} is neither true nor false")
        if self.burst_loss is not None and not isinstance(self.burst_loss, GilbertElliott):
            raise UserError(f"burst_loss {self.burst_loss!r} is no Gilbert-Elliott model")
        if self.burst_loss is not None and self.loss_pct > 0:
            raise UserError("loss_pct and burst_loss exclude each other: set loss_pct to 0")
        if self.queue_ms is not None:
            self._check_queue(self.queue_ms)

    def _check_queue(self, queue_ms: float) -> None:
        _number("queue_ms", queue_ms, 0.0, MAX_QUEUE_MS)
        if queue_ms < self.frame_ms:
            raise UserError(
                f"queue_ms {queue_ms:g} is shorter than one frame of {self.mtu_bytes} bytes at "
                f"{self.rate_mbps:g} Mbit/s: at least {math.ceil(self.frame_ms * 1000) / 1000:g}"
            )

    @classmethod
    def from_direction(
        cls, direction: DirectionSpec, mtu_bytes: int = 9000, seed: int = 0
    ) -> LinkSpec:
        """Return the spec of a direction of a topology; raises UserError."""
        loss_pct, burst_loss = direction.loss_pct, None
        if direction.loss_burst_packets is not None and loss_pct > 0:
            burst_loss = GilbertElliott.of_means(loss_pct, direction.loss_burst_packets)
            loss_pct = 0.0
        return cls(
            rate_mbps=direction.rate_mbps,
            one_way_delay_ms=direction.one_way_delay_ms,
            jitter_ms=direction.jitter_ms,
            loss_pct=loss_pct,
            burst_loss=burst_loss,
            duplicate_pct=direction.duplicate_pct,
            corrupt_pct=direction.corrupt_pct,
            queue_ms=direction.queue_ms,
            mtu_bytes=mtu_bytes,
            seed=seed,
        )

    def changed(self, **named: object) -> LinkSpec:
        """Return this spec with the named fields replaced; what is not named stays.

        Raises:
            UserError: for an unknown field or a value out of range.
        """
        known = {each.name for each in fields(self)}
        for name in named:
            if name not in known:
                raise UserError(f"{name} is no field of a link: one of {', '.join(sorted(known))}")
        return replace(self, **named)  # type: ignore[arg-type]  # checked by __post_init__

    @property
    def frame_ms(self) -> float:
        """Wire time of one full frame in ms; 0 for an unshaped direction."""
        if self.rate_mbps is None:
            return 0.0
        return frame_ms(self.mtu_bytes, self.rate_mbps)

    @property
    def effective_queue_ms(self) -> float:
        """The queue bound in force in ms: `queue_ms`, or the default rule of this module."""
        if self.queue_ms is not None:
            return self.queue_ms
        frames_ms = DEFAULT_QUEUE_FRAMES * self.frame_ms
        return max(2 * self.one_way_delay_ms, DEFAULT_QUEUE_FLOOR_MS, frames_ms)

    @property
    def draws_per_frame(self) -> bool:
        """Whether each wire frame meets its own fate, so that offloaded frames must be cut up."""
        return (
            self.loss_pct > 0
            or self.burst_loss is not None
            or self.duplicate_pct > 0
            or self.corrupt_pct > 0
        )


def _number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} {value!r} is not a number: {least:g} to {most:g}, without a unit")
    if not least <= value <= most:  # NaN compares false, so it ends here too
        raise UserError(f"{name} {value:g} is out of range: {least:g} to {most:g}")


def _integer(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} {value!r} is not a whole number: {least} to {most}")
    if not least <= value <= most:
        raise UserError(f"{name} {value} is out of range: {least} to {most}")
