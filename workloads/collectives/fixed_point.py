"""Floating-point numbers as integers with one exponent a block, so that sums do not know order.

Floating-point addition rounds after each step, so its result depends on the order of the steps, and
a network sums in whatever order packets arrive. Integer addition is exact and therefore free of
order. So each member scales its numbers to integers by a power of two that all members share, the
integers are added, and the sum is scaled back: all members, all trees and all collectives arrive at
the same bits (the idea of SwitchML, Sapio et al., arXiv 1903.06701, section 3.7).

**The shared exponent.** A block is 256 numbers. Its *code* is the largest biased exponent in it,
as IEEE 754 stores it: code c of a `float32` block says that every |x| < 2^(c - 126). It is 0 for a
block of zeros only and 255 where a number is infinite or none. The code of a block in a sum is the
maximum of the members' codes, which is again free of order, and which a network can take.

**Overflow is impossible.** With N members and integers of B bits the magnitude has
p = floor(log2((2^(B-1) - 1) / N)) bits: a number becomes q = rint(x * 2^(p - e)), |x| < 2^e, so
that |q| <= 2^p and the sum of N of them is at most N * 2^p <= 2^(B-1) - 1. For nine members and 32
bits p is 27.

**The error.** Rounding to q changes a number by at most half a step, 2^(e - p - 1); the mean of N
changes by no more than the mean of the N changes, so by no more than half a step either. The one
division and the conversion to `float32` add half a unit in the last place of the result.

**Which exponent.** To ask for the maximum before sending would cost a round trip over the tree. So
members predict: the code of the same block in the last sum of that kind, plus one. The true maximum
comes back with the sum. The prediction fits if it is not below the maximum, and not more than 3
above it; where it does not fit, the block is summed again with the true one. So e exceeds the
block's true exponent t by at most 3: the error is at most 2^(t + 2 - p), which for nine members is
2^(t - 25). The largest number of the block is at least 2^(t - 1), so the error relative to it is at
most 2^-24: half a unit in the last place, what `float32` itself rounds by. A sum depends on
the numbers and on the sums before it, and on nothing else.

`float64` is summed in 64 bits (p = 59 for nine members). Its exponents have 11 bits and a code
has 8, so that a code stands for 9 exponents: e exceeds t by at most 8, and the error is at most
2^(t + 7 - p), which for nine members is 2^(t - 52).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ELEMENTS = 256
ZEROS = 0
NOT_FINITE = 255

Floats = npt.NDArray[Any]
Integers = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Format:
    """How one floating-point type becomes integers.

    Attributes:
        name: numpy's name of the floating-point type.
        integer: numpy's name of the integers that are summed.
        bits: numpy's name of the unsigned integer of the floats' size.
        mantissa_bits: bits of the float behind its exponent.
        bias: biased exponent minus the e of |x| < 2^e.
        exponents_per_code: how many exponents share a code.
        growth_codes: how much more than the last code is predicted.
        slack_codes: how much too large a predicted code may be.
    """

    name: str
    integer: str
    bits: str
    mantissa_bits: int
    bias: int
    exponents_per_code: int
    growth_codes: int
    slack_codes: int

    def magnitude_bits(self, members: int) -> int:
        """Return p: N integers of magnitude 2^p add up to less than the largest integer.

        Raises:
            ValueError: there is no member, or so many that the integers have no bits left.
        """
        largest = int(np.iinfo(self.integer).max)
        if not 1 <= members <= largest // 2**16:
            raise ValueError(f"{members} members: a sum in {self.integer} has 1 to {largest >> 16}")
        return (largest // members).bit_length() - 1

    def exponents(self, codes: Codes) -> npt.NDArray[np.int32]:
        """Return e for each code: every number of the block is less than 2^e."""
        biased = np.maximum(codes, 1).astype(np.int32) * self.exponents_per_code
        return biased - self.bias


FLOAT32 = Format("float32", "int32", "uint32", 23, 126, 1, 1, 3)
FLOAT32_WIDE = Format("float32", "int64", "uint32", 23, 126, 1, 1, 3)
FLOAT64 = Format("float64", "int64", "uint64", 52, 1022, 9, 0, 0)


def block_count(elements: int) -> int:
    """Return the number of blocks that some elements fill, the last one perhaps not wholly."""
    return -(-elements // BLOCK_ELEMENTS)


def block_codes(values: Floats, form: Format) -> Codes:
    """Return the code of each block of a vector.

    Args:
        values: one-dimensional, of the format's floating-point type.
        form: the format.

    Returns:
        One code a block, 255 for a block with a number that is not finite.
    """
    bits = values.view(form.bits)
    magnitudes = bits & np.array(np.iinfo(form.bits).max >> 1, dtype=form.bits)
    largest = _blockwise(magnitudes).max(axis=1, initial=0)
    biased = (largest >> form.mantissa_bits).astype(np.int64)
    codes = -(-biased // form.exponents_per_code)
    codes = np.where((largest > 0) & (codes == 0), 1, codes)  # numbers below the normal ones
    not_finite = biased == np.iinfo(form.bits).max >> (form.mantissa_bits + 1)
    return np.where(not_finite, NOT_FINITE, codes).astype(np.uint8)


def quantize(values: Floats, codes: Codes, members: int, form: Format) -> Integers:
    """Return the integers of a vector under the blocks' codes.

    A number too large for its block's code is cut to the largest magnitude, so that even a
    prediction that was wrong cannot overflow the sum.
    """
    bits = form.magnitude_bits(members)
    shifts = np.repeat(bits - form.exponents(codes), BLOCK_ELEMENTS)[: len(values)]
    scaled = np.rint(np.ldexp(values.astype(np.float64), shifts))
    return np.clip(scaled, -(2.0**bits), 2.0**bits).astype(form.integer)


def restore(sums: Integers, codes: Codes, members: int, form: Format, divisor: int = 1) -> Floats:
    """Return the floating-point numbers of some sums of integers, divided by `divisor`.

    A sum may be larger than the largest number, and is infinite then; a mean never is, but rounding
    up may make it so, and then it is the largest number.
    """
    bits = form.magnitude_bits(members)
    shifts = np.repeat(form.exponents(codes) - bits, BLOCK_ELEMENTS)[: len(sums)]
    with np.errstate(over="ignore"):
        numbers: Floats = np.ldexp(sums.astype(np.float64), shifts) / divisor
        if divisor == members:
            largest = float(np.finfo(form.name).max)
            numbers = np.clip(numbers, -largest, largest)
        return numbers.astype(form.name)


def fitting(predicted: Codes, needed: Codes, form: Format) -> npt.NDArray[np.bool_]:
    """Return for which blocks a predicted code serves as well as the needed one."""
    excess = predicted.astype(np.int16) - needed
    within: npt.NDArray[np.bool_] = (excess >= 0) & (excess <= form.slack_codes)
    within[needed == ZEROS] = True
    return within


def settled(predicted: Codes | None, needed: Codes, form: Format) -> Codes:
    """Return the codes under which blocks are summed in the end: the prediction where it fits."""
    if predicted is None:
        return needed
    return np.where(fitting(predicted, needed, form), predicted, needed)


def next_prediction(previous: Codes | None, needed: Codes, form: Format) -> Codes:
    """Return the codes to predict for the next vector, from those that the last one needed."""
    grown = np.minimum(needed.astype(np.int16) + form.growth_codes, NOT_FINITE - 1)
    unknown = np.zeros_like(needed) if previous is None else previous
    return np.where(needed == ZEROS, unknown, grown).astype(np.uint8)


def _blockwise(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a vector as rows of one block each; zeros fill the last one."""
    blocks = block_count(len(values))
    if len(values) != blocks * BLOCK_ELEMENTS:
        values = np.pad(values, (0, blocks * BLOCK_ELEMENTS - len(values)))
    return values.reshape(blocks, BLOCK_ELEMENTS)
