"""A model as a table of layers: how long each computes and how many numbers it has to exchange.

A CSV file with the columns `layer`, `numel`, `forward_ms` and `backward_ms`, one layer a row in the
order of the forward pass. Lines that begin with # are comments.

Layers are put together in the order of the backward pass, last layer first, into buckets of about
25 MB, as `DistributedDataParallel` does it (Li et al., "PyTorch Distributed", VLDB 2020): a message
for each layer would pay a latency for each. Sizes are scaled after layers were put into buckets, so
that a scaled replay sends as many messages as the real model.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import UsageError

COLUMNS = ("layer", "numel", "forward_ms", "backward_ms")
BUCKET_BYTES = 25 * 1024 * 1024
ELEMENT_BYTES = 4


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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    rows = list(_rows(text))
    if not rows:
        raise UsageError(f"{path}:1: no column {COLUMNS[0]}; the columns are {', '.join(COLUMNS)}")
    (first, header), layers = rows[0], rows[1:]
    _require_columns(f"{path}:{first}", header)
    if not layers:
        raise UsageError(f"{path}:{first}: no layer below the columns; give one a line")
    return tuple(_layer(f"{path}:{line}", row, header) for line, row in layers)


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


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are no comments, with the numbers of their lines."""
    reader = csv.reader(text.splitlines())
    for row in reader:
        if row and not row[0].lstrip().startswith("#"):
            yield reader.line_num, [cell.strip() for cell in row]


def _require_columns(where: str, header: list[str]) -> None:
    right = ", ".join(COLUMNS)
    for name in header:
        if name not in COLUMNS:
            raise UsageError(f"{where}: unknown column {name!r}; the columns are {right}")
    for name in COLUMNS:
        if header.count(name) != 1:
            count = "no" if name not in header else "more than one"
            raise UsageError(f"{where}: {count} column {name}; the columns are {right}")


def _layer(where: str, row: list[str], header: list[str]) -> Layer:
    if len(row) != len(header):
        raise UsageError(f"{where}: {len(row)} values for {len(header)} columns")
    cells = dict(zip(header, row, strict=True))
    return Layer(
        name=cells["layer"],
        numel=_numel(where, cells["numel"]),
        forward_ms=_milliseconds(where, "forward_ms", cells["forward_ms"]),
        backward_ms=_milliseconds(where, "backward_ms", cells["backward_ms"]),
    )


def _numel(where: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{where}: numel {text!r}; give a whole number from 1")
    return int(text)


def _milliseconds(where: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"{where}: {column} {text!r}; give milliseconds from 0")
    return value
