import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel

from testbed.comparing.intervals import coverage, median_interval, statement
from testbed.comparing.order import inversions
from testbed.comparing.pairs import paired_ratio

times = st.floats(0.01, 1000)


@pytest.mark.parametrize(
    ("count", "confidence"), [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375), (6, 0.96875)]
)
def test_smallest_and_largest_hold_the_median_as_often_as_coins_say(
    count: int, confidence: float
) -> None:
    # All values lie on one side of the true median with probability 2 x (1/2)^n.
    assert coverage(count, 1) == pytest.approx(confidence)
    found = median_interval([float(n) for n in range(count)])
    assert (found.low, found.high) == (0, count - 1)
    assert found.confidence == pytest.approx(confidence)


def test_nine_values_leave_out_one_at_each_end() -> None:
    # The textbook table for 95 %: n = 9 takes the 2nd and the 8th value, at 0.961.
    found = median_interval([9.0, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (found.median, found.low, found.high) == (5, 2, 8)
    assert found.confidence == pytest.approx(0.9609375)


@given(st.lists(times, min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_an_interval_contains_its_median_and_keeps_its_values(values: list[float]) -> None:
    found = median_interval(values)
    assert found.low <= found.median <= found.high
    assert found.median == np.median(values)
    assert found.values == tuple(values)


def test_a_coin_test_agrees_on_where_95_percent_are_reached() -> None:
    for count in range(6, 25):
        found = median_interval([float(n) for n in range(count)])
        rank = int(found.low) + 1
        assert binomtest(rank - 1, count).pvalue == pytest.approx(1 - found.confidence)
        assert found.confidence >= 0.95
        assert coverage(count, rank + 1) < 0.95


def test_a_target_that_was_missed_counts_as_later_than_any() -> None:
    assert median_interval([5.0, math.inf, 7.0]).median == 7
    assert median_interval([math.inf, math.inf, 7.0]).median == math.inf


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_there_is_no_median_of_nothing(values: list[float]) -> None:
    with pytest.raises(ValueError, match="no median"):
        median_interval(values)


def test_what_few_repetitions_are_worth_is_said() -> None:
    assert statement(1).startswith("One run of each variant")
    assert "75 of 100" in statement(3)
    assert "6 repetitions would reach 95" in statement(5)
    assert "97 of 100" in statement(6)
    assert "values in between" in statement(9)


@given(st.lists(st.tuples(times, times), min_size=2, max_size=8))
@settings(max_examples=40, deadline=None)
def test_ratios_are_judged_as_students_paired_test_judges_logarithms(
    pairs: list[tuple[float, float]],
) -> None:
    a, b = ([x for x, _ in pairs], [y for _, y in pairs])
    logs = np.log(a) - np.log(b)
    found = paired_ratio(a, b)
    assert found.ratio == pytest.approx(np.exp(logs.mean()))
    if logs.std() > 1e-9:
        low, high = ttest_rel(np.log(a), np.log(b)).confidence_interval(0.95)
        assert found.low == pytest.approx(math.exp(low), rel=1e-6)
        assert found.high == pytest.approx(math.exp(high), rel=1e-6)
        assert found.within_noise is bool(low <= 0 <= high)


def test_three_repetitions_that_agree_closely_are_beyond_the_noise() -> None:
    found = paired_ratio([2.0, 2.02, 1.98], [1.0, 1.0, 1.0])
    assert found.within_noise is False
    assert found.agree == found.pairs == 3


def test_three_repetitions_that_agree_on_the_side_alone_are_not() -> None:
    found = paired_ratio([1.01, 1.5, 1.02], [1.0, 1.0, 1.0])
    assert found.agree == 3
    assert found.within_noise is True


def test_one_pair_has_a_ratio_and_no_interval() -> None:
    found = paired_ratio([3.0], [2.0])
    assert found.ratio == pytest.approx(1.5)
    assert (found.low, found.high, found.within_noise) == (None, None, None)


def test_a_pair_without_a_number_has_no_ratio() -> None:
    assert paired_ratio([math.inf, 1.0], [1.0, 1.0]).ratio is None
    assert paired_ratio([], []).ratio is None


def test_what_is_always_the_same_is_no_noise() -> None:
    assert paired_ratio([2.0, 4.0], [2.0, 4.0]).within_noise is True
    assert paired_ratio([2.0, 2.0], [1.0, 1.0]).within_noise is False


def test_an_inversion_is_what_was_predicted_faster_and_measured_slower() -> None:
    found = inversions(
        {"a": 1.0, "b": 2.0, "c": 2.01}, {"a": 3.0, "b": 2.0, "c": 1.9}, lambda a, b: b == "c"
    )
    # b and c are predicted within one percent of each other: no order between them.
    assert [(x.faster, x.slower, x.within_noise) for x in found] == [
        ("a", "b", False),
        ("a", "c", True),
    ]
    assert found[0].predicted_ratio == pytest.approx(2.0)
    assert found[0].measured_ratio == pytest.approx(2 / 3)
