"""The `tc` commands that give a wire its two directions in the kernel. Pure: text out, no I/O.

Each direction lives on the egress of its target's wire end, fed by a redirect from the ingress of
its source's wire end; the sender's own interface is left alone.

    source end, ingress: mirred redirect --> target end, egress: police --> root: netem
                                                         queue bound        loss, delay, rate

**Rate** is netem's own. It gives each frame the time max(now + delay, time of the frame before) +
bits / rate (`netem_enqueue` in the kernel): a virtual clock, exact at any rate. HTB and TBF refill
a bucket instead. A bucket must hold what a late timer lets run up, and passes it at once after a
pause: the 15 KB that Mininet gives it starve a fast link and flood a slow one.

**The queue bound** is a policer in front: a bucket of the queue's bytes that refills at the rate is
empty exactly when the queue behind it would be full, so it drops the very frames that a tail drop
would, counted in bytes. netem itself counts frames, of whatever size. `netem limit` is therefore
out of the way: delay, jitter and queue at the rate in the smallest Ethernet frames. (Its default
of 1000 drops on any long link.)

**Order.** netem orders by release time, so a frame of little jitter overtakes; with a rate it takes
each delay from the frame before, which keeps the order. A direction without a rate gets 1 Tbit/s,
which costs no time, unless it is to reorder. To reorder at a rate is what netem cannot do.

Everything is named in every command, zero too: netem keeps what a change leaves out.

netem draws from the kernel's own generator, so a spec's `seed` has no effect. It draws per buffer:
hosts must send with segmentation offload off where frames are to meet fates of their own
(`LinkSpec.draws_per_frame`), or 64 KB are lost at a time.
"""

from __future__ import annotations

import math

from testbed.links.registry import Lane
from testbed.links.spec import GilbertElliott, LinkSpec
from topologies.errors import UserError

SMALLEST_FRAME_BYTES = 64
LARGEST_FRAME_BYTES = 1 << 20  # above any segmentation-offload frame: a policer drops larger ones
MIN_NETEM_LIMIT = 1000
UNSHAPED_RATE_MBPS = 10_000.0  # what an unshaped direction is taken to carry at most
UNLIMITED_BITS_PER_S = 10**12
UNLIMITED_QUEUE_BYTES = 10**9
EVERY_FRAME = "pref 1 protocol all u32 match u32 0 0"


def refuse_unable(spec: LinkSpec) -> None:
    """Raise UserError for what netem cannot do."""
    if spec.reorder and spec.jitter_ms > 0 and spec.rate_mbps is not None:
        raise UserError("reorder needs rate_mbps none with netem: its rate keeps the order")


def join_commands(lanes: tuple[Lane, Lane]) -> list[str]:
    """Return what joins both directions of a wire: all shaping first, then what feeds it."""
    commands = [f"qdisc add dev {lane.source_end} clsact" for lane in lanes]
    for lane in lanes:
        end = lane.target_end
        commands += [
            f"qdisc add dev {end} root handle 1: {netem_words(lane.spec)}",
            f"filter add dev {end} egress {EVERY_FRAME} action {_policer(lane, lane.spec)}",
        ]
    return commands + [
        f"filter add dev {lane.source_end} ingress {EVERY_FRAME} "
        f"action mirred egress redirect dev {lane.target_end}"
        for lane in lanes
    ]


def change_commands(lane: Lane, new: LinkSpec) -> list[str]:
    """Return what puts `new` in force; no queue is emptied by it and no counter reset."""
    commands = [f"qdisc change dev {lane.target_end} root handle 1: {netem_words(new)}"]
    policer = _policer(lane, new)
    if policer != _policer(lane, lane.spec):
        commands.append(f"actions change action {policer}")
    return commands


def part_commands(lanes: tuple[Lane, Lane]) -> list[str]:
    """Return what parts a wire: first what feeds it, so that nothing passes unshaped."""
    return [
        *(f"qdisc del dev {lane.source_end} clsact" for lane in lanes),
        *(f"qdisc del dev {lane.target_end} root" for lane in lanes),
    ]


def counter_commands(lane: Lane) -> list[str]:
    """Return what shows one direction's counters: at its inlet, of netem, of the policer."""
    return [
        f"filter show dev {lane.source_end} ingress",
        f"qdisc show dev {lane.target_end}",
        f"filter show dev {lane.target_end} egress",
    ]


def _policer(lane: Lane, spec: LinkSpec) -> str:
    """An action with an index of its own in the namespace, by which it is changed in place."""
    index = 2 * lane.wire.index + (1 if lane.forward else 2)
    return f"police {policer_words(spec)} index {index}"


def policer_words(spec: LinkSpec) -> str:
    """Return the queue bound; without a rate, one that no link here comes near."""
    rate, queue_bytes = UNLIMITED_BITS_PER_S, UNLIMITED_QUEUE_BYTES
    if spec.rate_mbps is not None:
        rate = _bits_per_s(spec.rate_mbps)
        queue_bytes = math.ceil(rate * spec.effective_queue_ms / 8000)
    return f"rate {rate}bit burst {queue_bytes}b mtu {LARGEST_FRAME_BYTES}b conform-exceed drop/ok"


def netem_words(spec: LinkSpec) -> str:
    """Return everything that netem is told of a direction."""
    delay, jitter = _microseconds(spec.one_way_delay_ms), _microseconds(spec.jitter_ms)
    return (
        f"netem limit {netem_limit(spec)} delay {delay} {jitter} {_loss(spec)} "
        f"duplicate {_percent(spec.duplicate_pct)} corrupt {_percent(spec.corrupt_pct)} "
        f"rate {_rate(spec)}"
    )


def netem_limit(spec: LinkSpec) -> int:
    """Return the frames that delay and queue can hold at the rate."""
    rate_mbps = UNSHAPED_RATE_MBPS if spec.rate_mbps is None else spec.rate_mbps
    queue_ms = 0.0 if spec.rate_mbps is None else spec.effective_queue_ms
    held_ms = spec.one_way_delay_ms + spec.jitter_ms + queue_ms
    held_bytes = rate_mbps * held_ms * 1000 / 8
    return max(MIN_NETEM_LIMIT, math.ceil(held_bytes / SMALLEST_FRAME_BYTES))


def _rate(spec: LinkSpec) -> str:
    if spec.rate_mbps is not None:
        return f"{_bits_per_s(spec.rate_mbps)}bit"
    return "0bit" if spec.reorder else f"{UNLIMITED_BITS_PER_S}bit"


def _loss(spec: LinkSpec) -> str:
    model = spec.burst_loss
    if model is None:
        return f"loss random {_percent(spec.loss_pct)}"
    return f"loss gemodel {' '.join(map(_percent, _chances(model)))}"


def _chances(model: GilbertElliott) -> tuple[float, float, float, float]:
    """In the order of `tc`: p, r, 1-h, 1-k."""
    return model.p_enter_pct, model.p_leave_pct, model.loss_in_bad_pct, model.loss_in_good_pct


def _bits_per_s(rate_mbps: float) -> int:
    return round(rate_mbps * 1_000_000)


def _microseconds(milliseconds: float) -> str:
    return f"{milliseconds * 1000:.3f}us"  # tc knows no "ns", but fractions


def _percent(value: float) -> str:
    return f"{value:.7f}".rstrip("0").rstrip(".") + "%"
