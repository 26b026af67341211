"""A model as a table of layers: how long each computes and how many numbers it has to exchange.

A CSV file with the columns `layer`, `numel`, `forward_ms` and `backward_ms`, one layer a row in the
order of the forward pass. Lines that begin with # are comments.

Layers are put together in the order of the backward pass, last layer first, into buckets of about
25 MB, as `DistributedDataParallel` does it (Li et al., "PyTorch Distributed", VLDB 2020): a message
for each layer would pay a latency for each. Sizes are scaled after layers were put into buckets, so
that a scaled replay sends as many messages as the real model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import UsageError
from workloads.table import read_table

COLUMNS = ("layer", "numel", "forward_ms", "backward_ms")
BUCKET_BYTES = 25 * 1024 * 1024
ELEMENT_BYTES = 4
MOST_NUMEL = 10**12
MOST_MS = 1e9
SHOWN = 30


@dataclass(frozen=True)
class Layer:
    """A layer: `numel` parameters, and the milliseconds of one step's passes through it."""

    name: str
    numel: int
    forward_ms: float
    backward_ms: float


def load_layers(path: Path) -> tuple[Layer, ...]:
    """Read a table of layers.

    Raises:
        UsageError: there is no such file, or a column or a value is wrong; the text names the file,
            the line and the column.
    """
    return tuple(_layer(where, cells) for where, cells in read_table(path, COLUMNS))


def step_s(layers: Sequence[Layer]) -> float:
    """Return the seconds of one step: forward and backward through all layers."""
    return sum(layer.forward_ms + layer.backward_ms for layer in layers) / 1e3


def bucket_sizes(layers: Sequence[Layer], message_scale: float) -> list[int]:
    """Return how many numbers each message has, in the order in which they are sent.

    A bucket is full once the next layer would not fit; a layer of its own size may exceed it.
    """
    buckets: list[int] = []
    room = 0
    for layer in reversed(layers):
        size = layer.numel * ELEMENT_BYTES
        if not buckets or size > room:
            buckets.append(0)
            room = BUCKET_BYTES
        buckets[-1] += layer.numel
        room -= size
    return [max(1, round(numel * message_scale)) for numel in buckets]


def regrouped(sizes: Sequence[int], fragments: int) -> list[int]:
    """Return the sizes of `fragments` messages made of buckets in a row; of 0, the buckets' own.

    Raises:
        UsageError: there are fewer buckets than that.
    """
    if not fragments:
        return list(sizes)
    if fragments > len(sizes):
        raise UsageError(
            f"--overlap-fragments {fragments}: the layers make {len(sizes)} messages; give at most "
            "as many"
        )
    bounds = [len(sizes) * number // fragments for number in range(fragments + 1)]
    return [sum(sizes[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _layer(where: str, cells: Mapping[str, str]) -> Layer:
    return Layer(
        name=cells["layer"],
        numel=_numel(where, cells["numel"]),
        forward_ms=_milliseconds(where, "forward_ms", cells["forward_ms"]),
        backward_ms=_milliseconds(where, "backward_ms", cells["backward_ms"]),
    )


def _numel(where: str, text: str) -> int:
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_NUMEL))
    if not is_whole or not 1 <= int(text) <= MOST_NUMEL:
        shown = text if len(text) < SHOWN else text[:SHOWN] + "..."
        raise UsageError(f"{where}: numel {shown!r}; give a whole number from 1 to {MOST_NUMEL}")
    return int(text)


def _milliseconds(where: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_MS:
        shown = text[:SHOWN]
        raise UsageError(f"{where}: {column} {shown!r}; give milliseconds from 0 to {MOST_MS:.0f}")
    return value
