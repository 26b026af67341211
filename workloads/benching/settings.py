"""What a benchmark of a collective is asked to do, and how its options are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from workloads.collectives.names import ALL_KINDS
from workloads.errors import UsageError

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Settings:
    """One benchmark.

    Attributes:
        kind: of collective.
        sizes_bytes: messages to measure, in this order.
        iterations: timed repetitions of each.
        warm_up: repetitions before these.
        pause_s: silence around each size's timed repetitions, so that its bytes can be told apart.
        job: the file that tells of the network's groups.
        seed: of the data.
        pace_mbps: of each connection of `exchange`; None for as TCP will.
    """

    kind: str
    sizes_bytes: tuple[int, ...]
    iterations: int
    warm_up: int
    pause_s: float
    job: Path | None
    seed: int
    rendezvous_s: float
    collective_s: float
    pace_mbps: float | None = None

    def fingerprint(self) -> str:
        """Return what all workers must have in common."""
        sizes = ",".join(map(str, self.sizes_bytes))
        return (
            f"bench {self.kind} sizes={sizes} iterations={self.iterations} "
            f"warm_up={self.warm_up} seed={self.seed}"
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(arguments: Sequence[str]) -> Settings:
    """Read the options of a worker; raises UsageError for a wrong one."""
    parser = _Parser(prog="python -m workloads.benching.collective", allow_abbrev=False)
    parser.add_argument("--kind", choices=ALL_KINDS, required=True)
    parser.add_argument("--sizes-bytes", type=_sizes, required=True)
    parser.add_argument("--iterations", type=_at_least(1), default=5)
    parser.add_argument("--warm-up", type=_at_least(0), default=1)
    parser.add_argument("--pause-s", type=float, default=1.0)
    parser.add_argument("--job", type=Path)
    parser.add_argument("--seed", type=_at_least(0), default=1)
    parser.add_argument("--pace-mbps", type=float)
    parser.add_argument("--rendezvous-timeout-s", type=float, default=60.0, dest="rendezvous_s")
    parser.add_argument("--collective-timeout-s", type=float, default=120.0, dest="collective_s")
    return Settings(**vars(parser.parse_args(arguments)))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give bytes such as 4096,65536") from None
    for size in sizes:
        if size <= 0 or size % FLOAT32_BYTES:
            raise argparse.ArgumentTypeError(f"{size}: give a multiple of 4 bytes above zero")
    return sizes


def _at_least(least: int) -> type[int]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value}: at least {least}")
        return value

    return read  # type: ignore[return-value]
