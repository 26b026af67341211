"""Counters made into rates: how full each direction was in each stretch of time.

Between two samples counts grow linearly (see testbed.measure.series), so the bytes of a stretch are
the difference of the interpolated counter at its ends, and no stretch loses or invents any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.measure.series import Series
from testbed.report.rounds import Round
from topologies.model import Direction

Floats = NDArray[np.float64]

BITS_PER_BYTE = 8
BITS_PER_MEGABIT = 1e6


def extent_s(links: Mapping[Direction, Series], rounds: Sequence[Round]) -> tuple[float, float]:
    """Return the UNIX seconds to show: of the rounds, else of the counters, else nothing."""
    if rounds:
        return rounds[0].start, rounds[-1].end
    times = [time for series in links.values() if series.times for time in series.times]
    return (min(times), max(times)) if times else (0.0, 0.0)


def edges_s(start_s: float, end_s: float, most: int, shortest_s: float = 0.2) -> Floats:
    """Return the edges of even stretches: at most `most`, none shorter than samples are apart."""
    stretches = max(1, min(most, int((end_s - start_s) / shortest_s)))
    return np.linspace(start_s, end_s, stretches + 1)


def rates_mbps(series: Series, edges: Floats) -> Floats:
    """Return the mean rate of a direction between each two edges."""
    if not series.times:
        return np.zeros(len(edges) - 1)
    counted = np.interp(edges, np.asarray(series.times), np.asarray(series.bytes, dtype=float))
    spans = np.maximum(np.diff(edges), 1e-9)
    return np.asarray(np.diff(counted) * BITS_PER_BYTE / BITS_PER_MEGABIT / spans)


def wan_rates_mbps(links: Mapping[Direction, Series], edges: Floats) -> Floats:
    """Return the rate of all links between cities together, each link counted."""
    total = np.zeros(len(edges) - 1)
    for direction, series in links.items():
        if not direction.is_access:
            total += rates_mbps(series, edges)
    return total


def utilization_pct(byte_count: float, span_s: float, rate_mbps: float) -> float:
    """Return which percentage of a rate so many bytes in so many seconds are, 100 at most.

    Ends of stretches fall between two samples, so a full link may seem to be slightly fuller.
    """
    if span_s <= 0 or rate_mbps <= 0:
        return 0.0
    return min(100.0, 100 * byte_count * BITS_PER_BYTE / (rate_mbps * BITS_PER_MEGABIT * span_s))
