import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.links.spec import GilbertElliott, LinkSpec
from topologies.errors import UserError
from topologies.model import DirectionSpec


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"rate_mbps": 0.063}, "rate_mbps 0.063 is out of range: 0.064 to 10000"),
        ({"rate_mbps": 10_001}, "rate_mbps 10001 is out of range: 0.064 to 10000"),
        ({"rate_mbps": math.nan}, "rate_mbps nan is out of range: 0.064 to 10000"),
        ({"rate_mbps": "10Mbps"}, "rate_mbps '10Mbps' is not a number: "),
        ({"rate_mbps": True}, "rate_mbps True is not a number: "),
        ({"one_way_delay_ms": -1}, "one_way_delay_ms -1 is out of range: 0 to 10000"),
        ({"one_way_delay_ms": math.inf}, "one_way_delay_ms inf is out of range: 0 to 10000"),
        (
            {"one_way_delay_ms": 5, "jitter_ms": 6},
            "jitter_ms 6 is larger than one_way_delay_ms: at most 5",
        ),
        ({"loss_pct": 101}, "loss_pct 101 is out of range: 0 to 100"),
        ({"duplicate_pct": -0.1}, "duplicate_pct -0.1 is out of range: 0 to 100"),
        ({"corrupt_pct": "1%"}, "corrupt_pct '1%' is not a number: 0 to 100, without a unit"),
        ({"reorder": 1}, "reorder 1 is neither true nor false"),
        ({"burst_loss": 3}, "burst_loss 3 is no Gilbert-Elliott model"),
        (
            {"loss_pct": 1, "burst_loss": GilbertElliott(1, 50)},
            "loss_pct and burst_loss exclude each other: set loss_pct to 0",
        ),
        ({"mtu_bytes": 67}, "mtu_bytes 67 is out of range: 68 to 65535"),
        ({"mtu_bytes": 1500.0}, "mtu_bytes 1500.0 is not a whole number: 68 to 65535"),
        ({"seed": -1}, "seed -1 is out of range: 0 to 18446744073709551615"),
        ({"queue_ms": math.nan}, "queue_ms nan is out of range: 0 to 60000"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(
    fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError) as refused:
        LinkSpec(**fields)
    assert str(refused.value).startswith(complaint)
    assert "\n" not in str(refused.value)


def test_a_queue_shorter_than_one_frame_is_refused_with_the_least() -> None:
    # 1,500 + 14 bytes at 1 Mbit/s take 12.112 ms.
    with pytest.raises(UserError, match=r"queue_ms 12 is shorter .* at least 12\.112"):
        LinkSpec(rate_mbps=1, mtu_bytes=1500, queue_ms=12)
    assert LinkSpec(rate_mbps=1, mtu_bytes=1500, queue_ms=12.112).queue_ms == 12.112


@pytest.mark.parametrize("field", ["p_enter_pct", "p_leave_pct", "loss_in_bad_pct"])
def test_a_chance_of_burst_loss_out_of_range_is_refused(field: str) -> None:
    values = {"p_enter_pct": 1.0, "p_leave_pct": 50.0, field: 100.5}
    with pytest.raises(UserError, match=rf"burst_loss\.{field} 100\.5 is out of range: 0 to 100"):
        GilbertElliott(**values)


@pytest.mark.parametrize("rate_mbps", [0.064, 10_000, None])
def test_the_ends_of_the_range_are_inside(rate_mbps: float | None) -> None:
    assert LinkSpec(rate_mbps=rate_mbps).rate_mbps == rate_mbps


@pytest.mark.parametrize(
    ("spec", "queue_ms"),
    [
        (LinkSpec(rate_mbps=100, one_way_delay_ms=100), 200.0),  # twice the delay
        (LinkSpec(rate_mbps=100, one_way_delay_ms=1.45), 50.0),  # the floor
        (LinkSpec(rate_mbps=1, one_way_delay_ms=1), 721.12),  # ten frames of 9,014 bytes
        (LinkSpec(rate_mbps=100, one_way_delay_ms=100, queue_ms=7), 7),
    ],
)
def test_the_default_queue_is_the_largest_of_three(spec: LinkSpec, queue_ms: float) -> None:
    assert spec.effective_queue_ms == pytest.approx(queue_ms)


def test_a_direction_of_a_topology_is_taken_over() -> None:
    direction = DirectionSpec(100.0, 45.6, jitter_ms=1.0, loss_pct=0.1, queue_ms=30.0)
    assert LinkSpec.from_direction(direction, mtu_bytes=1500, seed=7) == LinkSpec(
        rate_mbps=100.0,
        one_way_delay_ms=45.6,
        jitter_ms=1.0,
        loss_pct=0.1,
        queue_ms=30.0,
        mtu_bytes=1500,
        seed=7,
    )


def test_loss_in_bursts_becomes_gilberts_chain() -> None:
    # Bursts of 4 packets are left with 25 %; 20 % lost is 1 lost to 4: 25 % / 4 enter one.
    direction = DirectionSpec(100.0, 5.0, loss_pct=20.0, loss_burst_packets=4.0)
    spec = LinkSpec.from_direction(direction)
    assert spec.loss_pct == 0
    assert spec.burst_loss == GilbertElliott(p_enter_pct=6.25, p_leave_pct=25.0)
    assert spec.burst_loss.mean_loss_pct == 20.0


@pytest.mark.parametrize(("loss_pct", "burst_frames"), [(50, 1), (90, 9), (99.9, 999)])
def test_bursts_may_follow_with_one_frame_between(loss_pct: float, burst_frames: float) -> None:
    assert GilbertElliott.of_means(loss_pct, burst_frames).p_enter_pct == pytest.approx(100)


@pytest.mark.parametrize(
    ("loss_pct", "burst_frames", "says"),
    [(100, 5, "loss of 100 % comes in no bursts"), (90, 8, "p_enter_pct 112.5 is out of range")],
)
def test_means_that_no_chain_has_are_refused(
    loss_pct: float, burst_frames: float, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        GilbertElliott.of_means(loss_pct, burst_frames)


def test_bursts_of_no_loss_are_no_loss() -> None:
    spec = LinkSpec.from_direction(DirectionSpec(100.0, 5.0, loss_burst_packets=4.0))
    assert (spec.loss_pct, spec.burst_loss) == (0.0, None)


def test_duplication_and_corruption_of_a_topology_are_taken_over() -> None:
    direction = DirectionSpec(100.0, 5.0, duplicate_pct=1.5, corrupt_pct=0.5)
    spec = LinkSpec.from_direction(direction)
    assert (spec.duplicate_pct, spec.corrupt_pct) == (1.5, 0.5)


def test_a_change_keeps_what_it_does_not_name() -> None:
    spec = LinkSpec(rate_mbps=100, one_way_delay_ms=20, loss_pct=1)
    assert spec.changed(one_way_delay_ms=0) == LinkSpec(rate_mbps=100, loss_pct=1)


def test_a_change_of_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="delay_ms is no field of a link: one of burst_loss, "):
        LinkSpec().changed(delay_ms=5)


def test_burst_loss_knows_its_means() -> None:
    # Stationary share of the bad state p/(p+r) = 1/26; bursts of 1/r = 4 frames.
    model = GilbertElliott(p_enter_pct=1, p_leave_pct=25)
    assert model.mean_loss_pct == pytest.approx(100 / 26)
    assert model.mean_burst_frames == 4.0


@given(
    rate_mbps=st.none() | st.floats(0.064, 10_000),
    one_way_delay_ms=st.floats(0, 10_000),
    mtu_bytes=st.integers(68, 65_535),
)
def test_the_default_queue_always_holds_a_frame(
    rate_mbps: float | None, one_way_delay_ms: float, mtu_bytes: int
) -> None:
    spec = LinkSpec(rate_mbps, one_way_delay_ms, mtu_bytes=mtu_bytes)
    assert spec.effective_queue_ms >= 10 * spec.frame_ms
    assert spec.effective_queue_ms >= 2 * one_way_delay_ms
