"""From two readings of what only ever grows to a sample of the time between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.links.backend import DirectionCounters, Lateness
from testbed.monitor.procfs import CpuTimes, ProcessTimes
from topologies.model import Direction


@dataclass(frozen=True)
class Reading:
    """Everything that is looked at, at one moment.

    Attributes:
        time_s: UNIX time.
        clock_s: monotonic time, for intervals.
        runnable: threads of the machine that run or could.
        links: the process that shapes links; None where the kernel does it.
        switches: the switch daemon of each site that has one.
    """

    time_s: float
    clock_s: float
    cpu: CpuTimes
    runnable: int
    links: ProcessTimes | None
    switches: Mapping[str, ProcessTimes]
    counters: Mapping[Direction, DirectionCounters]


@dataclass(frozen=True)
class FidelitySample:
    """How the machine kept up for about a second; a line of `fidelity.jsonl`.

    Attributes:
        time: UNIX time of the end of the interval.
        interval_s: its length.
        cpu_busy_pct: of all processors.
        steal_pct: of all processors, taken by the hypervisor.
        runnable: threads that ran or could, at the end.
        links_cpu_pct: of one processor, by the process that shapes links; None if the kernel does.
        links_wait_pct: of the interval, in which it was ready and had no processor.
        busiest_switch: the site whose switch daemon used most.
        busiest_switch_cpu_pct: of one processor.
        switches_cpu_pct: of one processor, by all switch daemons together.
        releases: frames that links let go; None where the back-end cannot know.
        late_releases: those that were more than `late_us` late.
        lateness_p50_us: upper edge of the bucket that holds the median.
        lateness_p99_us: the same of the 99th percentile.
        unasked_drops: frames dropped that neither loss nor queue bound asked for, by direction.
    """

    time: float
    interval_s: float
    cpu_busy_pct: float
    steal_pct: float
    runnable: int
    links_cpu_pct: float | None = None
    links_wait_pct: float | None = None
    busiest_switch: str | None = None
    busiest_switch_cpu_pct: float = 0.0
    switches_cpu_pct: float = 0.0
    releases: int | None = None
    late_releases: int = 0
    lateness_p50_us: float | None = None
    lateness_p99_us: float | None = None
    unasked_drops: Mapping[str, int] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return the sample as a line of `fidelity.jsonl`."""
        return asdict(self)


def sample_between(before: Reading, after: Reading, late_us: float) -> FidelitySample:
    """Return what happened between two readings of the same WAN.

    Args:
        before: the earlier reading.
        after: the later one.
        late_us: from when on a release counts as late; a power of two, as buckets have it.
    """
    interval_s = max(after.clock_s - before.clock_s, 1e-9)
    total = max(after.cpu.total - before.cpu.total, 1)
    switches = _switch_shares(before, after, interval_s)
    busiest = max(switches, key=lambda site: switches[site], default=None)
    late = released(before, after)
    return FidelitySample(
        time=after.time_s,
        interval_s=interval_s,
        cpu_busy_pct=100 * (after.cpu.busy - before.cpu.busy) / total,
        steal_pct=100 * (after.cpu.steal - before.cpu.steal) / total,
        runnable=after.runnable,
        links_cpu_pct=_run_pct(before.links, after.links, interval_s),
        links_wait_pct=_wait_pct(before.links, after.links, interval_s),
        busiest_switch=busiest,
        busiest_switch_cpu_pct=switches[busiest] if busiest else 0.0,
        switches_cpu_pct=sum(switches.values()),
        releases=late.total if late else None,
        late_releases=later_than(late, late_us) if late else 0,
        lateness_p50_us=late.quantile_us(0.5) if late else None,
        lateness_p99_us=late.quantile_us(0.99) if late else None,
        unasked_drops=_unasked_drops(before, after),
    )


def _switch_shares(before: Reading, after: Reading, interval_s: float) -> dict[str, float]:
    shares = {}
    for site, now in after.switches.items():
        share = _run_pct(before.switches.get(site), now, interval_s)
        if share is not None:
            shares[site] = share
    return shares


def _run_pct(
    before: ProcessTimes | None, after: ProcessTimes | None, interval_s: float
) -> float | None:
    if before is None or after is None:
        return None
    return 100 * (after.run_s - before.run_s) / interval_s


def _wait_pct(
    before: ProcessTimes | None, after: ProcessTimes | None, interval_s: float
) -> float | None:
    if before is None or after is None or before.wait_s is None or after.wait_s is None:
        return None
    return 100 * (after.wait_s - before.wait_s) / interval_s


def released(before: Reading, after: Reading) -> Lateness | None:
    """Return the lateness of all directions' releases between two readings; None if unknown."""
    parts = []
    for direction, now in after.counters.items():
        then = before.counters.get(direction)
        if now.lateness is not None and then is not None and then.lateness is not None:
            parts.append(now.lateness.minus(then.lateness))
    return pooled(parts)


def pooled(parts: Iterable[Lateness]) -> Lateness | None:
    """Return several histograms as one; None of none."""
    parts = list(parts)
    if not parts:
        return None
    columns = zip(*(part.bucket_counts for part in parts), strict=True)
    return Lateness(tuple(map(sum, columns)), max(part.max_us for part in parts))


def later_than(lateness: Lateness, edge_us: float) -> int:
    """Return how many releases lie in buckets that begin at `edge_us` or later."""
    return sum(
        count
        for exponent, count in enumerate(lateness.bucket_counts)
        if exponent > 0 and 2 ** (exponent - 1) >= edge_us
    )


def _unasked_drops(before: Reading, after: Reading) -> dict[str, int]:
    drops = {}
    for direction, now in after.counters.items():
        then = before.counters.get(direction, DirectionCounters())
        if count := now.unasked_drops - then.unasked_drops:
            drops[str(direction)] = count
    return drops
