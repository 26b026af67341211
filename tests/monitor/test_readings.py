"""What happened between two readings, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.links.backend import DirectionCounters, Lateness
from testbed.monitor.procfs import CpuTimes, ProcessTimes
from testbed.monitor.readings import Reading, later_than, pooled, sample_between
from topologies.model import Direction

THERE, BACK = Direction("A", "B"), Direction("B", "A")

BEFORE = Reading(
    time_s=1000.0,
    clock_s=50.0,
    cpu=CpuTimes(busy=100, steal=10, total=1000),
    runnable=1,
    links=ProcessTimes(5.0, 1.0),
    switches={"A": ProcessTimes(1.0, 0.0), "B": ProcessTimes(2.0, 0.0)},
    counters={
        THERE: DirectionCounters(lateness=Lateness((1, 1, 1, 1), 9.0)),
        BACK: DirectionCounters(dropped={"socket": 3}, lateness=Lateness((0, 0, 0, 0), 0.0)),
    },
)
AFTER = Reading(
    time_s=1002.0,
    clock_s=52.0,
    cpu=CpuTimes(busy=250, steal=14, total=1200),
    runnable=4,
    links=ProcessTimes(5.5, 1.25),
    switches={"A": ProcessTimes(1.2, 0.0), "B": ProcessTimes(3.0, 0.0)},
    counters={
        THERE: DirectionCounters(dropped={"queue": 9}, lateness=Lateness((11, 1, 1, 3), 12.0)),
        BACK: DirectionCounters(dropped={"socket": 8}, lateness=Lateness((0, 3, 0, 5), 10.0)),
    },
)


def test_shares_are_of_the_time_between_the_readings() -> None:
    sample = sample_between(BEFORE, AFTER, late_us=4.0)
    assert (sample.time, sample.interval_s, sample.runnable) == (1002.0, 2.0, 4)
    assert (sample.cpu_busy_pct, sample.steal_pct) == (75.0, 2.0)  # 150 and 4 of 200 ticks
    assert (sample.links_cpu_pct, sample.links_wait_pct) == (25.0, 12.5)  # 0.5 and 0.25 of 2 s


def test_the_busiest_switch_is_named() -> None:
    sample = sample_between(BEFORE, AFTER, late_us=4.0)
    assert (sample.busiest_switch, sample.busiest_switch_cpu_pct) == ("B", 50.0)
    assert sample.switches_cpu_pct == pytest.approx(60.0)


def test_releases_of_all_directions_are_pooled() -> None:
    sample = sample_between(BEFORE, AFTER, late_us=4.0)
    assert sample.releases == 10 + 2 + 3 + 5
    assert sample.late_releases == 2 + 5  # in [4, 8) us
    assert sample.lateness_p50_us == 1.0  # half of 20 lie in [0, 1)
    assert sample.lateness_p99_us == 8.0


def test_only_drops_nobody_asked_for_are_told() -> None:
    assert sample_between(BEFORE, AFTER, late_us=4.0).unasked_drops == {"B>A": 5}


def test_a_back_end_in_the_kernel_leaves_out_what_it_cannot_know() -> None:
    plain = {THERE: DirectionCounters()}
    before = replace(BEFORE, links=None, counters=plain)
    sample = sample_between(before, replace(AFTER, links=None, counters=plain), late_us=4.0)
    assert sample.links_cpu_pct is sample.releases is sample.lateness_p99_us is None


def test_a_sample_is_a_row_with_its_fields() -> None:
    row = sample_between(BEFORE, AFTER, late_us=4.0).row()
    assert row["unasked_drops"] == {"B>A": 5}
    assert row["cpu_busy_pct"] == 75.0


histograms = st.tuples(*[st.integers(0, 1000)] * 5).map(lambda counts: Lateness(counts, 0.0))


@given(st.lists(histograms, min_size=1, max_size=5), st.sampled_from([1.0, 2.0, 4.0, 8.0]))
def test_pooling_neither_loses_nor_moves_a_release(parts: list[Lateness], edge_us: float) -> None:
    together = pooled(parts)
    assert together is not None
    assert together.total == sum(part.total for part in parts)
    assert later_than(together, edge_us) == sum(later_than(part, edge_us) for part in parts)


def test_buckets_are_cut_at_their_edges() -> None:
    histogram = Lateness((1, 10, 100, 1000, 10000), 0.0)  # [0,1) [1,2) [2,4) [4,8) [8,
    assert later_than(histogram, 4.0) == 11000
    assert later_than(histogram, 8.0) == 10000
