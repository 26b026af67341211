from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.report.formats import (
    THIN_SPACE,
    UNKNOWN,
    digits,
    number,
    percent,
    rate,
    seconds,
    size,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, f"1{THIN_SPACE}230{THIN_SPACE}000"),
        (1234, f"1{THIN_SPACE}230"),
        (12.345, "12.3"),
        (0.012345, "0.0123"),
        (-4.2, "-4.20"),
        (1e-9, "1.00e-09"),
        (None, UNKNOWN),
        (math.nan, UNKNOWN),
        (math.inf, UNKNOWN),
        (True, UNKNOWN),
        ("7", UNKNOWN),
    ],
)
def test_three_digits_of_a_number(value: object, text: str) -> None:
    assert digits(value) == text


def test_more_digits_when_asked() -> None:
    assert digits(1.00034, 5) == "1.0003"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"),
        (0.0, "0 s"),
        (1.2345, "1.23 s"),
        (119.9, "120 s"),
        (125, "2 min 5 s"),
        (3601.6, "60 min 2 s"),
        (None, UNKNOWN),
    ],
)
def test_seconds_in_a_unit_that_fits(value: object, text: str) -> None:
    assert seconds(value).replace(THIN_SPACE, " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (3_243_520, "3.24 MB"), (2.5e9, "2.50 GB")],
)
def test_bytes_in_decimal_units(value: int, text: str) -> None:
    assert size(value).replace(THIN_SPACE, " ") == text


def test_rates_and_percentages() -> None:
    assert rate(10_000).replace(THIN_SPACE, " ") == "10.0 Gbit/s"
    assert rate(95.5).replace(THIN_SPACE, " ") == "95.5 Mbit/s"
    assert percent(4.24, signed=True).replace(THIN_SPACE, " ") == "+4.2 %"
    assert percent(-12.34, signed=True).replace(THIN_SPACE, " ") == "-12.3 %"


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=1e-4, max_value=1e9))
def test_what_is_written_is_the_number_to_three_digits(value: float) -> None:
    assert float(digits(value).replace(THIN_SPACE, "")) == pytest.approx(value, rel=0.005001)


@settings(max_examples=30, deadline=None)
@given(st.one_of(st.text(), st.none(), st.booleans(), st.lists(st.integers())))
def test_what_is_no_number_is_none(value: object) -> None:
    assert number(value) is None
