"""The arithmetic of `fixed_point` at the speed of the memory, where the shared library is there.

The library has `float32` in 32 bits; the other formats, and a machine without a compiler, take the
definition itself. Both give the same bits.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from workloads.collectives import fixed_point
from workloads.collectives.fixed_point import FLOAT32, Codes, Floats, Format, Integers
from workloads.innetwork.build import BuildError
from workloads.innetwork.library import library


@cache
def _native() -> ctypes.CDLL | None:
    try:
        return library()
    except BuildError:
        return None


def _for(form: Format) -> ctypes.CDLL | None:
    return _native() if form is FLOAT32 else None


def block_codes(values: Floats, form: Format) -> Codes:
    """Return the code of each block of a contiguous vector; see `fixed_point.block_codes`."""
    native = _for(form)
    if native is None:
        return fixed_point.block_codes(values, form)
    codes = np.empty(fixed_point.block_count(len(values)), dtype=np.uint8)
    native.atoll_codes(values.ctypes.data, len(values), codes.ctypes.data)
    return codes


def quantize(values: Floats, codes: Codes, members: int, form: Format) -> Integers:
    """Return the integers of a contiguous vector; see `fixed_point.quantize`."""
    native = _for(form)
    if native is None:
        return fixed_point.quantize(values, codes, members, form)
    out = np.empty(len(values), dtype=np.int32)
    bits = form.magnitude_bits(members)
    native.atoll_quantize(values.ctypes.data, len(values), codes.ctypes.data, bits, out.ctypes.data)
    return out


def accumulate(sums: Integers, values: Floats, codes: Codes, members: int, form: Format) -> None:
    """Add the integers of a contiguous vector to `sums`, in place."""
    native = _for(form)
    if native is None:
        sums += fixed_point.quantize(values, codes, members, form)
        return
    bits = form.magnitude_bits(members)
    native.atoll_accumulate(
        values.ctypes.data, len(values), codes.ctypes.data, bits, sums.ctypes.data
    )


def restore(sums: Integers, codes: Codes, members: int, form: Format, divisor: int = 1) -> Floats:
    """Return the numbers of some contiguous sums; see `fixed_point.restore`."""
    native = _for(form)
    if native is None:
        return fixed_point.restore(sums, codes, members, form, divisor)
    out = np.empty(len(sums), dtype=np.float32)
    bits = form.magnitude_bits(members)
    limit = float(np.finfo(np.float32).max) if divisor == members else np.inf
    native.atoll_restore(
        sums.ctypes.data, len(sums), codes.ctypes.data, bits, divisor, limit, out.ctypes.data
    )
    return out
