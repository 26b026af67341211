"""The `tc` commands that give a wire its two directions in the kernel. Pure: text out, no I/O.

Each direction lives on the egress of its target's wire end, fed by a redirect from the ingress of
its source's wire end; the sender's own interface is left alone.

    source end  --ingress: mirred redirect-->  target end: netem (root)  -->  tbf (child)
                                               loss, delay                    rate, queue

`netem` hands a frame to its child when its delay is over. Delay before rate instead of after it is
the same to a frame, for a constant delay shifts everything alike; and it lets `tbf` bound the queue
in bytes, where `netem` counts frames. `tbf` rather than `htb`, because HTB over netem makes the
kernel log "is non-work-conserving" and would leave the queue to netem.

Why the numbers are what they are:

- `tbf burst` is one millisecond of the rate, at least one full frame: a bucket must hold what a
  late timer lets run up (a fixed 15 KB starves 150 Mbit/s and more), and no more than that, because
  the bucket passes at once after a pause.
- `tbf limit` is the queue bound in bytes.
- `netem limit`, in frames, covers rate x (delay + jitter + queue) in the smallest Ethernet frames,
  so that it never drops before the queue bound does. The default of 1000 drops on any long link.
- Jitter without reordering: netem orders by release time, so a frame of little jitter overtakes.
  With a `rate` of its own netem takes each delay from the release of the frame before (see
  `netem_enqueue` in the kernel), which keeps the order; 1 Tbit/s is a rate that costs no time.
- Everything is named in every command, zero too: netem keeps what a change leaves out.

netem draws from the kernel's own generator, so a spec's `seed` has no effect. It draws per buffer:
hosts must send with segmentation offload off where frames are to meet fates of their own
(`LinkSpec.draws_per_frame`), or 64 KB are lost at a time.
"""

from __future__ import annotations

import math

from testbed.links.registry import Lane
from testbed.links.spec import ETHERNET_HEADER_BYTES, GilbertElliott, LinkSpec

VLAN_TAG_BYTES = 4
SMALLEST_FRAME_BYTES = 64
BURST_S = 0.001
MIN_NETEM_LIMIT = 1000
UNSHAPED_RATE_MBPS = 10_000.0  # what an unshaped direction is taken to carry at most
NO_LIMIT_TBF = "tbf rate 100000000000bit burst 16777216b limit 268435456b"
ORDER_KEEPING_RATE = "1000000000000bit"


def join_commands(lane: Lane) -> list[str]:
    """Return what joins one direction: first its shaping, then the redirect that feeds it."""
    source, target = lane.source_end, lane.target_end
    commands = [f"qdisc add dev {target} root handle 1: {netem_words(lane.spec)}"]
    if lane.spec.rate_mbps is not None:
        commands.append(_add_tbf(target, lane.spec))
    return [
        *commands,
        f"qdisc add dev {source} ingress",
        f"filter add dev {source} parent ffff: protocol all u32 match u32 0 0 "
        f"action mirred egress redirect dev {target}",
    ]


def change_commands(target: str, spec: LinkSpec, has_tbf: bool) -> list[str]:
    """Return what puts another spec in force; a `tbf` once there stays, with what it holds."""
    commands = [f"qdisc change dev {target} root handle 1: {netem_words(spec)}"]
    if has_tbf:
        commands.append(f"qdisc change dev {target} parent 1:1 handle 10: {tbf_words(spec)}")
    elif spec.rate_mbps is not None:
        commands.append(_add_tbf(target, spec))
    return commands


def part_commands(lane: Lane) -> list[str]:
    """Return what parts one direction: first the redirect, so that nothing passes unshaped."""
    return [f"qdisc del dev {lane.source_end} ingress", f"qdisc del dev {lane.target_end} root"]


def _add_tbf(target: str, spec: LinkSpec) -> str:
    return f"qdisc add dev {target} parent 1:1 handle 10: {tbf_words(spec)}"


def tbf_words(spec: LinkSpec) -> str:
    """Return the rate and the queue bound; without a rate, more than any link here carries."""
    if spec.rate_mbps is None:
        return NO_LIMIT_TBF
    bits_per_s = round(spec.rate_mbps * 1_000_000)
    frame_bytes = spec.mtu_bytes + ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES
    burst = max(math.ceil(bits_per_s * BURST_S / 8), frame_bytes)
    limit = max(math.ceil(bits_per_s * spec.effective_queue_ms / 8000), frame_bytes)
    return f"tbf rate {bits_per_s}bit burst {burst}b limit {limit}b"


def netem_words(spec: LinkSpec) -> str:
    """Return delay, jitter, loss, duplication and corruption."""
    delay, jitter = _microseconds(spec.one_way_delay_ms), _microseconds(spec.jitter_ms)
    rate = ORDER_KEEPING_RATE if spec.jitter_ms > 0 and not spec.reorder else "0bit"
    return (
        f"netem limit {netem_limit(spec)} delay {delay} {jitter} {_loss(spec)} "
        f"duplicate {_percent(spec.duplicate_pct)} corrupt {_percent(spec.corrupt_pct)} rate {rate}"
    )


def netem_limit(spec: LinkSpec) -> int:
    """Return the frames that delay and queue can hold at the rate."""
    rate_mbps = UNSHAPED_RATE_MBPS if spec.rate_mbps is None else spec.rate_mbps
    queue_ms = 0.0 if spec.rate_mbps is None else spec.effective_queue_ms
    held_ms = spec.one_way_delay_ms + spec.jitter_ms + queue_ms
    held_bytes = rate_mbps * held_ms * 1000 / 8
    return max(MIN_NETEM_LIMIT, math.ceil(held_bytes / SMALLEST_FRAME_BYTES))


def _loss(spec: LinkSpec) -> str:
    model = spec.burst_loss
    if model is None:
        return f"loss random {_percent(spec.loss_pct)}"
    return f"loss gemodel {' '.join(map(_percent, _chances(model)))}"


def _chances(model: GilbertElliott) -> tuple[float, float, float, float]:
    """In the order of `tc`: p, r, 1-h, 1-k."""
    return model.p_enter_pct, model.p_leave_pct, model.loss_in_bad_pct, model.loss_in_good_pct


def _microseconds(milliseconds: float) -> str:
    return f"{milliseconds * 1000:.3f}us"  # tc knows no "ns", but fractions


def _percent(value: float) -> str:
    return f"{value:.7f}".rstrip("0").rstrip(".") + "%"
