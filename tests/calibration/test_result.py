"""Figures from arrivals and verdicts from figures, by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from testbed.calibration import (
    QUICK_TOLERANCE,
    Calibration,
    CalibrationError,
    DirectionResult,
    Tolerance,
)
from testbed.calibration.figures import (
    Measured,
    arrival_rate_mbps,
    offered_rate_mbps,
    one_way_ms,
    quantile,
)
from testbed.calibration.loss import allowed_losses, losses_in_bursts
from testbed.calibration.measure import genuine
from testbed.calibration.probe import Arrival, Sent
from testbed.calibration.render import calibration_table, verdict
from testbed.calibration.result import judge
from topologies.model import Direction, DirectionSpec

ASKED = DirectionSpec(100.0, 10.0)
GOOD = Measured((10.1,) * 100, probes=100, lost=0, rate_mbps=100.5, offered_mbps=120.0)
LIMITS = Tolerance(rate_pct=1.0, median_delay_ms=0.5, p99_delay_ms=3.0, loss_doubt=0.001)


def faults(measured: Measured = GOOD, asked: DirectionSpec = ASKED, drops: int = 0) -> str:
    return "; ".join(judge(asked, measured, drops, LIMITS, 10))


def test_delay_is_arrival_minus_sending_without_the_wire_time() -> None:
    arrivals = [Arrival(0, 0, sent_ns=1_000_000, received_ns=11_000_000)]
    (delay_ms,) = one_way_ms(arrivals, 1250, 10.0)
    assert delay_ms == pytest.approx(9.0)  # 10 ms, 1 of them on the wire


def test_the_rate_is_bytes_over_the_time_between_arrivals() -> None:
    times_ns = [place * 100_000 for place in range(50)]  # 1250 bytes each 0.1 ms
    assert arrival_rate_mbps(times_ns, 1250) == pytest.approx(100.0)


def test_a_bucket_s_first_rush_does_not_count() -> None:
    times_ns = [0] * 5 + [place * 100_000 for place in range(45)]
    assert arrival_rate_mbps(times_ns, 1250) == pytest.approx(100.0)


def test_one_late_frame_hardly_moves_the_rate() -> None:
    times_ns = [place * 100_000 for place in range(200)]
    times_ns[120] += 2_000_000
    assert arrival_rate_mbps(times_ns, 1250) == pytest.approx(100.0, rel=0.002)


def test_too_few_frames_have_no_rate() -> None:
    assert arrival_rate_mbps([], 1250) is None
    assert arrival_rate_mbps([0, 1], 1250) is None
    assert arrival_rate_mbps([5] * 9, 1250) is None


@given(st.floats(0.064, 10_000.0), st.integers(60, 9014), st.integers(10, 300))
def test_any_even_train_has_its_own_rate(rate_mbps: float, size: int, count: int) -> None:
    times_ns = [round(place * size * 8000 / rate_mbps) for place in range(count)]
    assert arrival_rate_mbps(times_ns, size) == pytest.approx(rate_mbps, rel=0.01)


def test_the_offered_rate_is_what_was_really_sent() -> None:
    sent = [Sent(0, place, place * 100_000) for place in range(11)]
    assert offered_rate_mbps(sent, 1250) == pytest.approx(100.0)
    assert offered_rate_mbps(sent[:1], 1250) == 0.0


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert quantile(range(1, 101), 0.99) == 99
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([], 0.5) is None


def test_a_good_link_has_no_faults() -> None:
    assert faults() == ""


def test_a_wrong_rate_is_told_with_both_figures() -> None:
    assert faults(replace(GOOD, rate_mbps=90.0)) == "rate asked 100 Mbit/s, achieved 90"
    assert faults(replace(GOOD, rate_mbps=101.5)) == "rate asked 100 Mbit/s, achieved 101.5"
    assert faults(replace(GOOD, rate_mbps=None)) == "rate asked 100 Mbit/s, nothing came"


def test_a_machine_that_could_not_fill_the_link_is_told_apart() -> None:
    told = faults(replace(GOOD, rate_mbps=90.0, offered_mbps=91.0))
    assert told == (
        "rate asked 100 Mbit/s, achieved 90 "
        "(this machine could offer no more than 91: lower the rate scale)"
    )


def test_a_wrong_delay_is_told_either_way() -> None:
    late = "one-way delay asked 10 ms, median 10.600"
    assert faults(replace(GOOD, one_way_ms=(10.6,) * 100)) == late
    assert "median 9.400" in faults(replace(GOOD, one_way_ms=(9.4,) * 100))


def test_a_late_hundredth_is_told() -> None:
    delays = (10.0,) * 98 + (13.5,) * 2
    assert faults(replace(GOOD, one_way_ms=delays)) == (
        "one-way delay asked 10 ms, 99th percentile 13.500"
    )


def test_jitter_that_is_asked_for_is_no_fault() -> None:
    delays = tuple(8.0 + 4.0 * place / 99 for place in range(100))
    assert faults(replace(GOOD, one_way_ms=delays), replace(ASKED, jitter_ms=2.0)) == ""


def test_a_single_lost_frame_is_a_fault_where_no_loss_is_asked_for() -> None:
    assert faults(replace(GOOD, lost=1)) == "loss asked 0 %, 1 of 100 frames were lost"


def test_a_link_that_carries_nothing_says_so() -> None:
    dead = Measured((), probes=100, lost=100, rate_mbps=None, offered_mbps=120.0)
    assert faults(dead) == (
        "rate asked 100 Mbit/s, nothing came; loss asked 0 %, 100 of 100 frames were lost"
    )


def test_drops_that_nobody_asked_for_are_told() -> None:
    assert faults(drops=4) == "4 frames dropped that nobody asked to drop"


def losing(loss_pct: float, **more: float) -> DirectionSpec:
    return DirectionSpec(100.0, 10.0, loss_pct=loss_pct, **more)


def test_loss_that_is_asked_for_may_vary_as_chance_does() -> None:
    # 1 % of 20,000: mean 200, standard deviation 14.07; 99 % lies within 2.576 of them
    least, most = allowed_losses(20_000, losing(1.0), 0.01)
    assert least == pytest.approx(200 - 2.576 * 14.07, abs=1.5)
    assert most == pytest.approx(200 + 2.576 * 14.07, abs=1.5)
    assert allowed_losses(100, losing(0.0), 0.01) == (0, 0)
    assert allowed_losses(100, losing(100.0), 0.01) == (100, 100)


@given(st.integers(100, 5000), st.floats(0.5, 50.0), st.data())
def test_losses_that_are_allowed_are_those_of_the_binomial_test(
    frames: int, loss_pct: float, data: st.DataObject
) -> None:
    lost = data.draw(st.integers(0, frames))
    least, most = allowed_losses(frames, losing(loss_pct), 0.01)
    tail = min(
        binomtest(lost, frames, loss_pct / 100, "less").pvalue,
        binomtest(lost, frames, loss_pct / 100, "greater").pvalue,
    )
    if tail > 0.0051:
        assert least <= lost <= most
    if tail < 0.0049:
        assert not least < lost < most


def test_losses_in_bursts_of_two_frames_are_those_of_every_possible_outcome() -> None:
    # Of two frames with loss L and chance r to leave: both lost L (1 - r), one lost 2 L r.
    loss, leave = 0.2, 0.25
    none, one, both = losses_in_bursts(2, 20.0, 4.0)
    assert both == pytest.approx(loss * (1 - leave))
    assert one == pytest.approx(2 * loss * leave)
    assert none == pytest.approx(1 - both - one)


def test_losses_in_bursts_of_their_own_length_vary_as_the_binomial_does() -> None:
    # A chain that forgets each frame: leaving and entering add up to 1, bursts of 1 / (1 - loss).
    chances = losses_in_bursts(50, 20.0, 1.25)
    expected = [binom.pmf(lost, 50, 0.2) for lost in range(51)]
    assert chances == pytest.approx(expected, abs=1e-12)


def test_longer_bursts_keep_the_mean_and_widen_what_is_allowed() -> None:
    chances = losses_in_bursts(2000, 1.0, 10.0)
    assert chances @ range(2001) == pytest.approx(20.0)
    least, most = allowed_losses(2000, losing(1.0), 0.001)
    in_bursts = allowed_losses(2000, losing(1.0, loss_burst_packets=10.0), 0.001)
    assert in_bursts[0] < least < most < in_bursts[1]


def test_corruption_may_lose_frames_and_need_not() -> None:
    assert allowed_losses(100, losing(0.0, corrupt_pct=100.0), 0.01) == (0, 100)


def test_a_frame_that_came_twice_or_with_forged_marks_counts_once_or_not() -> None:
    sent = [Sent(0, 1, ns=10), Sent(0, 2, ns=20)]
    first, again = Arrival(0, 1, 10, 100), Arrival(0, 1, 10, 105)
    forged = Arrival(0, 2, 20 + 2**40, 110)
    assert genuine(sent, [first, again, forged]) == [first]


def calibration(*results: DirectionResult) -> Calibration:
    return Calibration(results, LIMITS, 1.5, thorough=False)


def result(source: str, measured: Measured = GOOD) -> DirectionResult:
    found = judge(ASKED, measured, 0, LIMITS, 2)
    return DirectionResult(Direction(source, "Z"), ASKED, measured, 0, found)


def test_the_worst_error_is_the_largest_with_its_sign() -> None:
    slow = replace(GOOD, rate_mbps=99.2, one_way_ms=(9.7,) * 100)
    one = calibration(result("A"), result("B", slow))
    assert one.worst_rate_error_pct == pytest.approx(-0.8)
    assert one.worst_delay_error_ms == pytest.approx(-0.3)


def test_an_error_names_exactly_the_links_that_are_off() -> None:
    one = calibration(result("A"), result("B", replace(GOOD, rate_mbps=50.0)))
    with pytest.raises(CalibrationError) as raised:
        one.require_all()
    assert str(raised.value) == (
        "1 of 2 link directions are not what the topology asks for: "
        "B>Z: rate asked 100 Mbit/s, achieved 50"
    )


def test_links_that_are_right_are_returned() -> None:
    one = calibration(result("A"))
    assert one.require_all() is one


def test_the_file_holds_what_the_run_record_promises() -> None:
    dead = Measured((), probes=100, lost=100, rate_mbps=None, offered_mbps=120.0)
    written = json.loads(json.dumps(calibration(result("A"), result("B", dead)).to_json()))
    assert written["worst_rate_error_pct"] == pytest.approx(0.5)
    assert written["worst_delay_error_ms"] == pytest.approx(0.1)
    row, dead_row = written["directions"]
    assert (row["direction"], row["asked_rate_mbps"], row["achieved_rate_mbps"]) == (
        "A>Z", 100.0, 100.5,
    )  # fmt: skip
    assert (row["asked_delay_ms"], row["achieved_delay_ms"]) == (10.0, 10.1)
    assert row["within_tolerance"] and not dead_row["within_tolerance"]
    assert dead_row["achieved_loss_pct"] == 100.0


def test_people_see_a_row_for_each_direction_even_of_dead_links() -> None:
    dead = Measured((), probes=100, lost=100, rate_mbps=None, offered_mbps=120.0)
    assert calibration_table(calibration(result("A"), result("B", dead))).row_count == 2
    assert verdict(calibration(result("B", dead))) == "links carry nothing"
    assert verdict(calibration(result("A"))) == (
        "worst rate error +0.50 %, worst delay error +0.100 ms"
    )


def test_links_that_release_by_the_millisecond_may_be_late_by_half_of_it() -> None:
    tolerated = QUICK_TOLERANCE.with_grain(1000)
    assert (tolerated.median_delay_ms, tolerated.p99_delay_ms) == (1.0, 5.5)
    assert QUICK_TOLERANCE.with_grain(0) == QUICK_TOLERANCE
