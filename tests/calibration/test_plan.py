"""Which frames go when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.calibration.plan import (
    OVERLOAD,
    QUICK,
    THOROUGH,
    Effort,
    burst_groups,
    burst_train,
    delay_trains,
    longest_way_s,
    offered_mbps,
    wire_time_s,
)
from topologies.model import DirectionSpec

EFFORT = Effort(
    probes=100,
    loss_probes=1000,
    probes_per_s=1000.0,
    longest_probing_s=5.0,
    burst_s=0.1,
    together_mbps=300.0,
)
rates = st.floats(0.064, 10_000.0)
specs = st.builds(DirectionSpec, rates, st.floats(0.0, 200.0))


def test_wire_time_is_bits_over_rate() -> None:
    assert wire_time_s(1250, 100.0) == pytest.approx(0.0001)  # 10,000 bits at 100 Mbit/s


def test_probes_of_directions_go_in_turn() -> None:
    first, second = delay_trains({4: DirectionSpec(100, 1), 7: DirectionSpec(100, 1)}, EFFORT)
    assert (first.direction, first.start_s, first.interval_s) == (4, 0.0, 0.002)
    assert (second.direction, second.start_s, second.interval_s) == (7, 0.001, 0.002)
    assert (first.count, first.frame_bytes) == (100, 60)


def test_probes_leave_a_slow_transmitter_idle_half_of_the_time() -> None:
    (train,) = delay_trains({0: DirectionSpec(0.064, 1)}, EFFORT)
    assert train.interval_s == pytest.approx(2 * 60 * 8 / 64_000)  # 7.5 ms of wire each


def test_more_probes_where_loss_is_asked_for() -> None:
    trains = delay_trains({0: DirectionSpec(100, 1, loss_pct=1.0)}, EFFORT)
    assert trains[0].count == 1000


def test_probing_has_an_end_on_large_networks() -> None:
    trains = delay_trains({n: DirectionSpec(100, 1) for n in range(400)}, EFFORT)
    assert trains[0].count == 20  # 12 in 5 s at 0.4 s, but never fewer than 20


def test_a_burst_offers_a_fifth_more_than_the_rate_in_full_frames() -> None:
    train = burst_train(0, DirectionSpec(100, 1), 9000, EFFORT)
    assert train.frame_bytes == 9014
    assert train.count == 167  # 1.5 MB
    assert offered_mbps(train) == pytest.approx(120.0)


def test_a_slow_burst_is_of_small_frames_and_takes_longer() -> None:
    train = burst_train(0, DirectionSpec(0.064, 1), 9000, EFFORT)
    assert (train.frame_bytes, train.count) == (60, 100)
    assert train.end_s == pytest.approx(99 * 60 * 8 / 76_800)


def test_a_fast_burst_is_short() -> None:
    train = burst_train(0, DirectionSpec(10_000, 1), 9000, THOROUGH)
    assert train.count * train.frame_bytes == pytest.approx(32 * 2**20, rel=0.001)


def test_lost_frames_are_offered_on_top() -> None:
    train = burst_train(0, DirectionSpec(100, 1, loss_pct=50), 9000, EFFORT)
    assert offered_mbps(train) == pytest.approx(240.0)


def test_bursts_go_together_as_far_as_there_is_room() -> None:
    trains = [burst_train(n, DirectionSpec(rate, 1), 9000, EFFORT) for n, rate in
              enumerate([100, 100, 100, 1000, 10])]  # fmt: skip
    groups = burst_groups(trains, 300.0)
    assert [[train.direction for train in group] for group in groups] == [[0, 1], [2], [3], [4]]


def test_trains_of_a_group_begin_one_after_another() -> None:
    trains = [burst_train(n, DirectionSpec(100, 1), 9000, EFFORT) for n in range(2)]
    ((first, second),) = burst_groups(trains, 300.0)
    assert first.start_s == 0.0
    assert second.start_s == pytest.approx(first.interval_s / 2)


@given(st.lists(rates, max_size=30))
def test_every_burst_goes_once_and_only_one_that_is_too_fast_exceeds_the_room(
    rates_mbps: list[float],
) -> None:
    trains = [burst_train(n, DirectionSpec(r, 1), 9000, QUICK) for n, r in enumerate(rates_mbps)]
    groups = burst_groups(trains, QUICK.together_mbps)
    assert [train.direction for group in groups for train in group] == [*range(len(trains))]
    for group in groups:
        assert len(group) == 1 or sum(map(offered_mbps, group)) <= QUICK.together_mbps * 1.0001


@given(specs, st.sampled_from([1500, 9000]))
def test_a_burst_always_overloads_with_frames_that_fit(spec: DirectionSpec, mtu: int) -> None:
    train = burst_train(0, spec, mtu, QUICK)
    assert offered_mbps(train) == pytest.approx(OVERLOAD * spec.rate_mbps)
    assert 60 <= train.frame_bytes <= mtu + 14
    assert train.count >= 100


def test_patience_covers_delay_jitter_and_queue() -> None:
    assert longest_way_s([DirectionSpec(100, 100, jitter_ms=5)], 9000) == pytest.approx(0.305)
    assert longest_way_s([DirectionSpec(100, 10, queue_ms=20)], 9000) == pytest.approx(0.030)
    assert longest_way_s([DirectionSpec(100, 0)], 9000) == pytest.approx(0.050)
    assert longest_way_s([], 9000) == 0.0
