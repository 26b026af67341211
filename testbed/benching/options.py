"""What to measure: sizes as nccl-tests names them, repetitions, and faults on the way. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from schedules.capabilities import COLLECTIVES
from topologies.errors import UserError

ELEMENT_BYTES = 4
MOST_SIZES = 40
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+)\s*([KMG]?B?)")


@dataclass(frozen=True)
class BenchOptions:
    """One benchmark of collectives.

    Attributes:
        collectives: kinds to measure, one after the other on the same network.
        sizes_bytes: message of each island, in this order.
        iterations: timed repetitions of each size.
        warm_up: repetitions before these.
        loss_pct: random loss added on every link direction and access port.
        duplicate_pct: random duplication added there.
    """

    collectives: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    iterations: int = 5
    warm_up: int = 1
    loss_pct: float = 0.0
    duplicate_pct: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "collectives", tuple(self.collectives))
        object.__setattr__(self, "sizes_bytes", tuple(self.sizes_bytes))


def parse_size(option: str, text: str) -> int:
    """Read bytes such as `4096`, `64K` (1024 each, as in nccl-tests) or `4MB` (1000 each).

    Raises:
        UserError: it is no size, or no multiple of four bytes.
    """
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None or found[2] == "B":
        raise UserError(f"{option}: {text!r} is no size; write 4096, 64K, 4M or 4MB")
    size = int(found[1]) * _UNITS[found[2]]
    if size <= 0 or size % ELEMENT_BYTES:
        raise UserError(f"{option}: {text} is no multiple of 4 bytes above zero")
    return size


def sizes(begin_bytes: int, end_bytes: int, factor: int) -> tuple[int, ...]:
    """Return the sizes from the first to the last, each `factor` times the one before.

    Raises:
        UserError: the range is empty or too long, or the factor does not grow.
    """
    if end_bytes < begin_bytes:
        raise UserError(f"-e: {end_bytes} bytes are less than -b, {begin_bytes} bytes")
    if factor < 2:
        raise UserError(f"-f: {factor} is below 2, so that sizes would never end")
    found = [begin_bytes]
    while found[-1] * factor <= end_bytes and len(found) <= MOST_SIZES:
        found.append(found[-1] * factor)
    return tuple(found)


def checked_collectives(names: Iterable[str]) -> tuple[str, ...]:
    """Return kinds of collectives, each once; raises `UserError` for one that is none."""
    kinds = tuple(dict.fromkeys(names))
    for kind in kinds:
        if kind not in COLLECTIVES:
            raise UserError(f"--collective: {kind!r} is none of {', '.join(COLLECTIVES)}")
    return kinds


def checked_percentage(option: str, value: float) -> float:
    """Return a percentage below 100; raises `UserError` for anything else."""
    if not 0 <= value < 100:
        raise UserError(f"{option}: {value:g} is not within 0 and 100")
    return value
