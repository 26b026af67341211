"""The shared library of the endpoint, loaded once a process."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_double, c_int, c_long, c_void_p
from functools import cache

from workloads.innetwork.build import ensure_built

SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "atoll_codes": (None, (c_void_p, c_long, c_void_p)),
    "atoll_quantize": (None, (c_void_p, c_long, c_void_p, c_int, c_void_p)),
    "atoll_accumulate": (None, (c_void_p, c_long, c_void_p, c_int, c_void_p)),
    "atoll_restore": (
        None,
        (c_void_p, c_long, c_void_p, c_int, c_double, c_double, c_void_p),
    ),
    "atoll_member_open": (c_void_p, (c_char_p, c_char_p, c_int)),
    "atoll_member_begin": (c_int, (c_void_p, c_void_p, c_char_p, c_int)),
    "atoll_member_wait": (c_int, (c_void_p, c_int)),
    "atoll_member_counters": (c_int, (c_void_p, c_char_p, c_int)),
    "atoll_member_close": (None, (c_void_p,)),
}


@cache
def library() -> ctypes.CDLL:
    """Return the library; ctypes lets other threads run while one of its functions does.

    Raises:
        BuildError: it is not there and cannot be built.
    """
    loaded = ctypes.CDLL(str(ensure_built()))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
