"""From what workers noted to the rows of a benchmark: one for each collective and size. Pure.

A repetition lasts from the moment its *last* worker began until its last worker ended: before the
one no method can finish, after the other nothing is left to do. Repetitions follow one another
without a pause, so these spans add up to the whole. The clocks are one, since all islands share a
kernel.

`algbw` is the message over the mean time, `busbw` what nccl-tests makes of it, 2(N-1)/N times as
much: the rate each hop of a ring has to carry. It says nothing about multicast or sums in the
network, where it is left out; bytes on WAN links are printed instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from schedules.capabilities import EXCHANGE, RING
from schedules.ring import ring_share
from testbed.benching.cliques import Planned
from testbed.measure.series import Series, bytes_between
from topologies.model import Direction

P2P_KINDS = (RING, EXCHANGE)
WorkerRows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Measured:
    """One collective's part of a benchmark.

    Attributes:
        kind: of collective.
        planned: its plan.
        workers: the events of each site's worker.
        links: counters of every direction over time.
        pause_s: silence that workers kept around the timed repetitions of a size.
    """

    kind: str
    planned: Planned
    workers: WorkerRows
    links: Mapping[Direction, Series]
    pause_s: float


def durations_s(sites: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return how long each repetition lasted, from its last beginning to its last end.

    Args:
        sites: the event `size` of every worker, for the same size.
    """
    began = zip(*(row["began"] for row in sites), strict=True)
    ended = zip(*(row["ended"] for row in sites), strict=True)
    return [max(ends) - max(begins) for begins, ends in zip(began, ended, strict=True)]


def rows_of(measured: Measured) -> list[dict[str, Any]]:
    """Return a row for every size that all workers finished."""
    by_worker = [
        [row for row in rows if row["event"] == "size"] for rows in measured.workers.values()
    ]
    return [_row(measured, sites) for sites in zip(*by_worker, strict=False)]


def _row(measured: Measured, sites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    size_bytes, members = int(sites[0]["size_bytes"]), len(sites)
    seconds = durations_s(sites)
    typical_s = median(seconds)
    bound_s = measured.planned.bound_s(size_bytes)
    algbw_mbps = 8 * size_bytes / mean(seconds) / 1e6
    bus = algbw_mbps * ring_share(members) if measured.kind in P2P_KINDS else None
    return {
        "collective": measured.kind,
        "size_bytes": size_bytes,
        "count": size_bytes // 4,
        "iterations": len(seconds),
        "time_avg_s": mean(seconds),
        "time_p50_s": typical_s,
        "time_p99_s": percentile(seconds, 99),
        "algbw_mbps": algbw_mbps,
        "busbw_mbps": bus,
        **_traffic(measured, sites, size_bytes, len(seconds)),
        "bound_s": bound_s,
        "bound_transfer_s": measured.planned.transfer_s(size_bytes),
        "bound_latency_s": measured.planned.round.predicted.latency_s,
        "ratio": typical_s / bound_s,
        "wrong": sum(int(row["wrong"]) for row in sites),
        "worker_cpu_s": max(float(row["cpu_s"]) for row in sites) / len(seconds),
    }


def _traffic(
    measured: Measured, sites: Sequence[Mapping[str, Any]], size_bytes: int, iterations: int
) -> dict[str, Any]:
    start_s = min(row["began"][0] for row in sites) - measured.pause_s / 2
    end_s = max(row["ended"][-1] for row in sites) + measured.pause_s / 2
    carried = bytes_between(measured.links, start_s, end_s)
    expected = measured.planned.load_bytes(size_bytes)
    wan = sum(amount for way, amount in carried.items() if not way.is_access) / iterations
    wan_expected = sum(amount for way, amount in expected.items() if not way.is_access)
    per_message = size_bytes * (1 + measured.planned.header_share)
    return {
        "wan_bytes": wan,
        "wan_bytes_expected": wan_expected,
        "traversals": wan / per_message,
        "traversals_expected": measured.planned.traversals,
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least so many percent of all are no larger than."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
