"""Why sums in the network are no faster than a ring, where they are not. Pure.

Users of in-network aggregation mostly meet two surprises: no traffic at all, and no speed-up. This
module names what held a collective back, from figures that the run measured anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedules.capabilities import INNETWORK, MULTICAST, RING, TREE_COLLECTIVES
from testbed.accelerator.config import Counters, TreeCounters
from workloads.innetwork.job import FRAME_OVERHEAD_BYTES, HEADER_BYTES, GroupJob

BUSY_SHARE = 0.9
LATENCY_SHARE = 0.5
WINDOW_SHARE = 0.98


@dataclass(frozen=True)
class Circumstances:
    """What a collective ran under.

    Attributes:
        row: of the benchmark.
        groups: what its members were told, one for each part of their messages.
        access_rate_mbps: of the slowest access port.
        before: what each accelerator had counted before the collective's workers began.
        after: and after they ended.
        timed_s: seconds between the two.
    """

    row: Mapping[str, Any]
    groups: Sequence[GroupJob]
    access_rate_mbps: float
    before: Mapping[str, Counters]
    after: Mapping[str, Counters]
    timed_s: float

    @property
    def kind(self) -> str:
        """The collective's kind."""
        return self.groups[0].kind

    @property
    def rate_mbps(self) -> float:
        """The pace of a copy of a member's stream, of all parts together."""
        return sum(group.rate_mbps for group in self.groups)

    def trees(self) -> Iterator[TreeCounters]:
        """Yield what accelerators counted of its trees."""
        jobs = {group.job for group in self.groups}
        for counters in self.after.values():
            for (job, _), tree in counters.trees.items():
                if job in jobs:
                    yield tree


def explanations(circumstances: Circumstances) -> list[str]:
    """Return what held the collective back, the plainest first; empty if nothing is known."""
    causes: Sequence[Callable[[Circumstances], str]] = (
        _no_traffic,
        _small_message,
        _window,
        _pacing,
        _accelerator_limit,
        _accelerator_cpu,
        _worker_cpu,
        _repairs,
    )
    return [found for cause in causes if (found := cause(circumstances))]


def slower_than_ring(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of in-network kinds that took no less time than the ring on their size."""
    ring = {row["size_bytes"]: row["time_p50_s"] for row in rows if row["collective"] == RING}
    return [
        row
        for row in rows
        if row["collective"] in TREE_COLLECTIVES
        and row["time_p50_s"] >= ring.get(row["size_bytes"], float("inf"))
    ]


def _no_traffic(x: Circumstances) -> str:
    if x.kind == MULTICAST or any(tree.packets for tree in x.trees()):
        return ""
    return "no packet of it reached an accelerator: its traffic was not steered to one"


def _small_message(x: Circumstances) -> str:
    share = x.row["bound_latency_s"] / x.row["bound_s"]
    if share < LATENCY_SHARE:
        return ""
    return (
        f"{100 * share:.0f} % of its bound is the latency of the tree: the message is too small "
        "for these delays"
    )


def _window(x: Circumstances) -> str:
    return next((said for group in x.groups if (said := _window_of(group))), "")


def _window_of(group: GroupJob) -> str:
    packet_bits = 8 * (group.area_bytes + HEADER_BYTES + FRAME_OVERHEAD_BYTES)
    reach_mbps = group.window * packet_bits / (group.round_trip_ms * 1000)
    if reach_mbps >= WINDOW_SHARE * group.rate_mbps:
        return ""
    return (
        f"its window of {group.window} packets and round trip of {group.round_trip_ms:.1f} ms "
        f"allow {reach_mbps:.1f} Mbit/s, less than the planned {group.rate_mbps:.1f}"
    )


def _pacing(x: Circumstances) -> str:
    if x.kind != INNETWORK or x.rate_mbps >= WINDOW_SHARE * x.access_rate_mbps:
        return ""
    return (
        f"it is paced at {x.rate_mbps:.1f} Mbit/s, the plan's rate, while access ports carry "
        f"{x.access_rate_mbps:.1f}"
    )


def _accelerator_limit(x: Circumstances) -> str:
    return _most(x, "throttled_us", "was held at its own rate limit")


def _accelerator_cpu(x: Circumstances) -> str:
    return _most(x, "busy_us", "was at work, so a processor was the limit")


def _most(x: Circumstances, field: str, what: str) -> str:
    shares = {
        site: (getattr(after.process, field) - getattr(x.before[site].process, field))
        / (1e6 * x.timed_s)
        for site, after in x.after.items()
        if site in x.before
    }
    site = max(shares, key=lambda one: shares[one], default="")
    if not site or shares[site] < BUSY_SHARE:
        return ""
    return f"the accelerator of {site} {what} {100 * shares[site]:.0f} % of the time"


def _worker_cpu(x: Circumstances) -> str:
    share = x.row["worker_cpu_s"] / x.row["time_p50_s"]
    if share < BUSY_SHARE:
        return ""
    return f"the busiest worker computed {100 * share:.0f} % of the time: processors were the limit"


def _repairs(x: Circumstances) -> str:
    gaps = sum(tree.gaps for tree in x.trees())
    return f"accelerators missed {gaps} packets, which had to be sent again" if gaps else ""
