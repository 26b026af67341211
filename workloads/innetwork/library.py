"""The shared library of the endpoint, loaded once a process."""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_char_p, c_double, c_int, c_long, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from workloads.innetwork.build import ensure_built

SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "atoll_codes": (None, (c_void_p, c_long, c_void_p)),
    "atoll_quantize": (None, (c_void_p, c_long, c_void_p, c_int, c_void_p)),
    "atoll_accumulate": (None, (c_void_p, c_long, c_void_p, c_int, c_void_p)),
    "atoll_restore": (None, (c_void_p, c_long, c_void_p, c_int, c_double, c_double, c_void_p)),
    "atoll_member_new": (
        c_void_p,
        (c_uint64, c_uint64, c_uint32, c_uint32, c_uint32, c_uint32, c_double, c_uint32),
    ),
    "atoll_member_frames": (None, (c_void_p, c_uint32)),
    "atoll_member_place": (None, (c_void_p, c_uint32)),
    "atoll_member_uplink": (c_int, (c_void_p, c_uint32, c_uint32, c_uint32, c_uint32)),
    "atoll_member_stream": (c_int, (c_void_p, *(c_uint32,) * 6)),
    "atoll_member_join": (c_int, (c_void_p, c_uint32, c_uint32)),
    "atoll_member_start": (c_int, (c_void_p, c_uint32, c_uint32, c_char_p, c_uint32)),
    "atoll_member_begin": (c_int, (c_void_p, c_void_p, c_uint64, c_uint64, c_uint64)),
    "atoll_member_wait": (c_int, (c_void_p, c_uint32)),
    "atoll_member_abort": (None, (c_void_p,)),
    "atoll_member_sequence": (c_uint64, (c_void_p,)),
    "atoll_member_progress": (c_uint64, (c_void_p,)),
    "atoll_member_jump": (None, (c_void_p, c_uint64)),
    "atoll_member_counters": (c_int, (c_void_p, c_char_p, c_uint32)),
    "atoll_member_close": (None, (c_void_p,)),
}


_LOADING = threading.Lock()


def library() -> ctypes.CDLL:
    """Return the library; ctypes lets other threads run while one of its functions does.

    Raises:
        BuildError: it is not there and cannot be built.
    """
    with _LOADING:
        return _load()


@cache
def _load() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(ensure_built()))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
