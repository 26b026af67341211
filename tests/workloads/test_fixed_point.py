"""The fixed-point arithmetic against exact rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.collectives import codec
from workloads.collectives.fixed_point import (
    FLOAT32,
    FLOAT32_WIDE,
    FLOAT64,
    Format,
    block_codes,
    fitting,
    next_prediction,
    quantize,
    restore,
    settled,
)

FORMATS = [FLOAT32, FLOAT32_WIDE, FLOAT64]
SCALES = [0.0, 1e-45, 1e-40, 1e-20, 1e-3, 1.0, 1e9, 3.4e38]
SEEDS = st.integers(0, 2**32 - 1)


def members_numbers(form: Format, members: int, seed: int) -> npt.NDArray:
    """Return a row of numbers for each member, of sizes that differ much, some the largest."""
    random = np.random.default_rng(seed)
    rows = random.uniform(-1, 1, (members, 7)) * random.choice(SCALES, (members, 1))
    if random.random() < 0.2:
        rows[:, 0] = np.finfo(form.name).max
    return rows.astype(form.name)


def mean_by_integers(rows: npt.NDArray, codes: npt.NDArray[np.uint8], form: Format) -> npt.NDArray:
    members = len(rows)
    total = sum(quantize(row, codes, members, form).astype(object) for row in rows)
    assert max(abs(int(x)) for x in total) <= np.iinfo(form.integer).max
    return restore(np.array(total.tolist(), dtype=form.integer), codes, members, form, members)


@pytest.mark.parametrize(
    ("members", "bits"), [(1, 30), (2, 29), (3, 29), (8, 27), (9, 27), (32, 25)]
)
def test_magnitudes_leave_room_for_the_sum_of_all_members(members: int, bits: int) -> None:
    assert FLOAT32.magnitude_bits(members) == bits
    assert members * 2**bits <= 2**31 - 1 < members * 2 ** (bits + 1)


def test_a_code_is_the_largest_exponent_as_ieee_754_stores_it() -> None:
    values = np.zeros(4 * 256, dtype=np.float32)
    values[3], values[4] = 1.0, -1.99  # biased exponent 127
    values[256] = 1e-45  # below the normal numbers
    values[512] = np.nan
    assert block_codes(values, FLOAT32).tolist() == [127, 1, 255, 0]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("form", FORMATS)
def test_a_number_that_is_not_finite_marks_its_block(form: Format, bad: float) -> None:
    values = np.ones(300, dtype=form.name)
    values[299] = bad
    codes = block_codes(values, form).tolist()
    assert codes[1] == 255
    assert codes[0] != 255


@pytest.mark.parametrize("form", FORMATS)
@given(seed=SEEDS, members=st.integers(1, 9), late=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_the_mean_is_within_the_stated_bound(
    form: Format, seed: int, members: int, late: int
) -> None:
    rows = members_numbers(form, members, seed)
    needed = np.max([block_codes(row, form) for row in rows], axis=0)
    too_large = min(late, form.slack_codes) if needed[0] else 0
    codes = np.minimum(needed.astype(int) + too_large, 254).astype(np.uint8)
    mean = mean_by_integers(rows, codes, form)
    largest = max(abs(Fraction(float(x))) for x in rows.ravel())
    loss = {"float32": 2, "float64": 7}[form.name]
    # the largest number is at least 2^(t - 1), or t is the smallest exponent there is
    least_power = Fraction(2) ** (form.exponents_per_code - form.bias)
    bound = max(2 * largest, least_power) * Fraction(2) ** (loss - form.magnitude_bits(members))
    for column, value in enumerate(mean):
        exact = sum(Fraction(float(row[column])) for row in rows) / members
        rounding = Fraction(2) ** -form.mantissa_bits * abs(Fraction(float(value)))
        denormal = Fraction(2) ** (1 - form.bias - form.mantissa_bits)
        assert abs(Fraction(float(value)) - exact) <= bound + max(rounding, denormal)


@given(seed=SEEDS, order=st.permutations(range(5)))
@settings(max_examples=25, deadline=None)
def test_sums_do_not_depend_on_the_order_of_members(seed: int, order: list[int]) -> None:
    rows = members_numbers(FLOAT32, 5, seed)
    codes = np.max([block_codes(row, FLOAT32) for row in rows], axis=0)
    parts = [quantize(row, codes, 5, FLOAT32) for row in rows]
    there, back = np.zeros(7, np.int32), np.zeros(7, np.int32)
    for i in range(5):
        there, back = there + parts[i], back + parts[order[i]]
    assert (there == back).all()


@given(seed=SEEDS, code=st.integers(0, 254))
@settings(max_examples=60, deadline=None)
def test_no_prediction_however_wrong_makes_integers_too_large(seed: int, code: int) -> None:
    vector = members_numbers(FLOAT32, 1, seed)[0]
    codes = np.full(1, code, np.uint8)
    assert np.abs(quantize(vector, codes, 9, FLOAT32)).max() <= 2**27


@pytest.mark.parametrize(
    ("predicted", "needed", "fits"),
    [(120, 120, True), (123, 120, True), (124, 120, False), (119, 120, False), (200, 0, True)],
)
def test_a_prediction_fits_up_to_three_above_the_need(
    predicted: int, needed: int, fits: bool
) -> None:
    pair = [np.array([code], dtype=np.uint8) for code in (predicted, needed)]
    assert fitting(*pair, FLOAT32).tolist() == [fits]
    assert settled(*pair, FLOAT32).tolist() == [predicted if fits else needed]


def test_the_next_prediction_is_one_more_and_zeros_change_none() -> None:
    first = next_prediction(None, np.array([120, 0, 254], np.uint8), FLOAT32)
    assert first.tolist() == [121, 0, 254]
    assert next_prediction(first, np.array([0, 7, 100], np.uint8), FLOAT32).tolist() == [
        121,
        8,
        101,
    ]


@given(seed=SEEDS, late=st.integers(0, 3), elements=st.sampled_from([0, 1, 255, 256, 257, 1000]))
@settings(max_examples=40, deadline=None)
def test_the_library_gives_the_bits_of_the_definition(seed: int, late: int, elements: int) -> None:
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.uniform(-45, 38, elements)
    values = (random.uniform(-1, 1, elements) * sizes).astype(np.float32)
    needed = block_codes(values, FLOAT32)
    assert (codec.block_codes(values, FLOAT32) == needed).all()
    codes = np.minimum(needed.astype(int) + late, 254).astype(np.uint8)
    integers = quantize(values, codes, 9, FLOAT32)
    assert (codec.quantize(values, codes, 9, FLOAT32) == integers).all()
    twice = integers.copy()
    codec.accumulate(twice, values, codes, 9, FLOAT32)
    assert (twice == 2 * integers).all()
    for divisor in (1, 9):
        here = codec.restore(integers, codes, 9, FLOAT32, divisor).view(np.uint32)
        assert (here == restore(integers, codes, 9, FLOAT32, divisor).view(np.uint32)).all()
