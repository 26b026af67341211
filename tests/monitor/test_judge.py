"""When a run is invalid, and what its reasons say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.monitor import DEFAULT_THRESHOLDS, FidelitySample, judge
from testbed.monitor.judge import during, stretches, worst_stretch

LIMITS = DEFAULT_THRESHOLDS


def second(place: int = 0, **figures: Any) -> FidelitySample:
    """A second in which all is well and processors are busy, save for what is named."""
    well = FidelitySample(
        time=1001.0 + place,
        interval_s=1.0,
        cpu_busy_pct=100.0,
        steal_pct=0.0,
        runnable=12,
        releases=1000,
    )
    return replace(well, **figures)


def seconds(count: int, **figures: Any) -> list[FidelitySample]:
    return [second(place, **figures) for place in range(count)]


def test_busy_processors_alone_do_not_invalidate() -> None:
    assert judge(seconds(60), LIMITS) == []


def test_nothing_watched_is_nothing_found() -> None:
    assert judge([], LIMITS) == []


def test_late_releases_of_more_than_the_share_invalidate_and_say_when() -> None:
    samples = seconds(100)
    samples[40] = second(40, releases=2000, late_releases=1100)  # 1100 of 101000: 1.09 %
    (reason,) = [x for x in judge(samples, LIMITS) if "of 101000" in x]
    assert "1.1 % of 101000 frames more than 4.1 ms late" in reason
    assert "between 40 s and 41 s (UNIX time 1040): 1100 of 2000" in reason


def test_late_releases_at_the_share_are_tolerated() -> None:
    assert judge(seconds(10, late_releases=10), LIMITS) == []  # 1 %


def test_one_bad_second_among_many_is_tolerated() -> None:
    samples = seconds(100)
    samples[40] = second(40, late_releases=200)  # 0.2 % of all, 4 % of the worst five seconds
    assert judge(samples, LIMITS) == []


def test_a_bad_stretch_invalidates_even_in_a_long_run() -> None:
    samples = seconds(1000)
    for place in range(500, 505):
        samples[place] = second(place, late_releases=60)
    assert judge(samples, LIMITS) == [
        "links let go 6 % of frames more than 4.1 ms late between 500 s and 505 s "
        "(UNIX time 1500), at most 5 % are tolerated"
    ]


def test_a_few_late_frames_on_an_idle_network_are_tolerated() -> None:
    assert judge(seconds(60, releases=10, late_releases=5), LIMITS) == []


def test_a_single_frame_that_vanishes_invalidates() -> None:
    samples = seconds(10)
    samples[3] = second(3, unasked_drops={"A>B": 1})
    samples[5] = second(5, unasked_drops={"A>B": 2, "B>A": 4})
    assert judge(samples, LIMITS) == [
        "links dropped 7 frames that neither loss nor queue asked for (A>B 3, B>A 4), the first "
        "between 3 s and 4 s (UNIX time 1003)"
    ]


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"steal_pct": 6.0}, "hypervisor took 6 %"),
        ({"links_cpu_pct": 97.0}, "shapes links had no time left: 97 %"),
        (
            {"busiest_switch": "NYC", "busiest_switch_cpu_pct": 99.0},
            "switch daemon of NYC had no time left: 99 %",
        ),
    ],
)
def test_what_lasts_invalidates_and_what_passes_does_not(
    figures: dict[str, Any], words: str
) -> None:
    passing, lasting = seconds(60), seconds(60)
    passing[9] = second(9, **figures)
    lasting[20:26] = [second(place, **figures) for place in range(20, 26)]
    assert judge(passing, LIMITS) == []
    (reason,) = judge(lasting, LIMITS)
    assert words in reason and "between 20 s and 25 s" in reason


def test_what_the_machine_did_before_anything_was_measured_is_no_reason() -> None:
    samples = seconds(60)  # samples end at 1001, 1002, ... 1060
    samples[4:10] = [second(place, steal_pct=30.0) for place in range(4, 10)]
    assert judge(samples, LIMITS, measured=(1010.0, 1050.0)) == []
    (reason,) = judge(samples, LIMITS, measured=(1008.5, 1050.0))
    assert "hypervisor took 12 %" in reason and "(UNIX time 1008)" in reason  # 2 x 30 of 5


def test_a_measurement_shorter_than_a_stretch_is_judged_with_the_seconds_before_it() -> None:
    samples = seconds(60)
    kept = during(samples, 1050.2, 1051.5, least_s=5.0)
    assert [sample.time for sample in kept] == [1048.0, 1049.0, 1050.0, 1051.0, 1052.0]
    assert during(samples, 2000.0, 2001.0) == []
    assert during([], 1.0, 2.0, least_s=5.0) == []


def test_a_stretch_is_weighed_by_time() -> None:
    samples = [second(0, interval_s=1.0, steal_pct=10.0), second(1, interval_s=3.0, steal_pct=2.0)]
    worst = worst_stretch(samples, 4.0, lambda sample: sample.steal_pct)
    assert worst is not None and worst.mean == pytest.approx((10 + 6) / 4)


@given(st.lists(st.floats(0.1, 3.0), max_size=30), st.floats(0.5, 8.0))
def test_each_stretch_is_the_shortest_from_its_first_sample(
    lengths: list[float], wanted_s: float
) -> None:
    found = dict(stretches([second(interval_s=length) for length in lengths], wanted_s))
    for first in range(len(lengths)):
        if sum(lengths[first:]) < wanted_s - 1e-3:
            assert first not in found
        elif first in found:
            assert sum(lengths[first : found[first] + 1]) >= wanted_s - 1e-3
            assert sum(lengths[first : found[first]]) < wanted_s + 1e-3
