"""Counters over time: what a direction carried between any two moments, and its file `links.csv`.

Counters are absolute and never fall, so a lost sample loses no bytes: it only makes the moment at
which they passed less certain. Counts between two samples are taken to grow linearly. A window
whose ends lie in quiet moments is therefore exact.

For the same reason a direction that stands still needs no samples: only the last sample before it
moves again is kept, so that the growth is not spread over the quiet time. Training is quiet most of
the time, and the file stays small.
"""

from __future__ import annotations

import csv
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from topologies.errors import RunError
from topologies.model import Direction

CSV_HEADER = ("time", "direction", "bytes", "packets", "drops")


class Counts(NamedTuple):
    """What entered one direction, and what was dropped on it."""

    bytes: int
    packets: int
    drops: int


class Sample(NamedTuple):
    """One direction's absolute counts at a UNIX time."""

    time_s: float
    direction: Direction
    counts: Counts


@dataclass
class Series:
    """One direction's samples in order of time; before the first and after the last it is still."""

    times: array[float] = field(default_factory=lambda: array("d"))
    bytes: array[int] = field(default_factory=lambda: array("q"))
    packets: array[int] = field(default_factory=lambda: array("q"))
    drops: array[int] = field(default_factory=lambda: array("q"))

    def append(self, time_s: float, counts: Counts) -> None:
        """Add a sample; raises ValueError when it is older than the last or counts fall."""
        if self.times and (time_s < self.times[-1] or counts.bytes < self.bytes[-1]):
            raise ValueError(f"sample at {time_s} goes back behind the one at {self.times[-1]}")
        self.times.append(time_s)
        self.bytes.append(counts.bytes)
        self.packets.append(counts.packets)
        self.drops.append(counts.drops)

    def between(self, start_s: float, end_s: float) -> Counts:
        """Return what was counted from one UNIX time to another, to the nearest unit."""
        columns = (self.bytes, self.packets, self.drops)
        return Counts(*(round(self._at(c, end_s) - self._at(c, start_s)) for c in columns))

    def step_at(self, time_s: float) -> tuple[float, int]:
        """Return the seconds and the bytes between the two readings around a UNIX time.

        What of these bytes passed before that time is not known. Zeros outside of all readings.
        """
        after = bisect_right(self.times, time_s)
        if not 0 < after < len(self.times):
            return 0.0, 0
        seconds = self.times[after] - self.times[after - 1]
        return seconds, self.bytes[after] - self.bytes[after - 1]

    def _at(self, column: Sequence[int], time_s: float) -> float:
        after = bisect_right(self.times, time_s)
        if after == 0:
            return float(column[0]) if column else 0.0
        if after == len(self.times):
            return float(column[-1])
        t0, t1 = self.times[after - 1], self.times[after]
        return column[after - 1] + (column[after] - column[after - 1]) * (time_s - t0) / (t1 - t0)


def traffic_between(
    series: Mapping[Direction, Series], start_s: float, end_s: float
) -> dict[Direction, Counts]:
    """Return what each direction carried from one UNIX time to another."""
    return {direction: one.between(start_s, end_s) for direction, one in series.items()}


def bytes_between(
    series: Mapping[Direction, Series], start_s: float, end_s: float
) -> dict[Direction, int]:
    """Return the bytes each direction carried from one UNIX time to another."""
    return {direction: one.between(start_s, end_s).bytes for direction, one in series.items()}


class Thinner:
    """Passes on the samples that a linear reading needs: both ends of every quiet stretch."""

    def __init__(self) -> None:
        self._kept: dict[Direction, Counts] = {}
        self._waiting: dict[Direction, Sample] = {}

    def offer(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return which samples to keep now, earlier ones that turned out to matter included."""
        return [kept for sample in samples for kept in self._offer(sample)]

    def _offer(self, sample: Sample) -> Iterable[Sample]:
        if self._kept.get(sample.direction) == sample.counts:
            self._waiting[sample.direction] = sample
            return
        waiting = self._waiting.pop(sample.direction, None)
        if waiting is not None:
            yield waiting
        self._kept[sample.direction] = sample.counts
        yield sample

    def rest(self) -> list[Sample]:
        """Return the newest sample of each direction that stands still, and forget it."""
        waiting = sorted(self._waiting.values())
        self._waiting.clear()
        return waiting


def csv_row(sample: Sample) -> tuple[str, str, int, int, int]:
    """Return a sample as a row of `links.csv`, its time to the microsecond."""
    return (f"{sample.time_s:.6f}", str(sample.direction), *sample.counts)


def parse_links_csv(text: str, name: str = "links.csv") -> dict[Direction, Series]:
    """Read `links.csv`; an unfinished last line, as a killed run leaves it, is passed over.

    Raises:
        RunError: another header or a bad row, with file and line.
    """
    finished = text[: text.rfind("\n") + 1]
    rows = csv.reader(finished.splitlines())
    if tuple(next(rows, CSV_HEADER)) != CSV_HEADER:
        raise RunError(f"{name}:1: the header is not {','.join(CSV_HEADER)}")
    series: dict[Direction, Series] = {}
    for number, row in enumerate(rows, start=2):
        try:
            sample = _parse_row(row)
            series.setdefault(sample.direction, Series()).append(sample.time_s, sample.counts)
        except ValueError as error:
            raise RunError(f"{name}:{number}: {error}") from None
    return series


def _parse_row(row: Sequence[str]) -> Sample:
    if len(row) != len(CSV_HEADER):
        raise ValueError(f"{len(row)} fields instead of {len(CSV_HEADER)}")
    counts = Counts(int(row[2]), int(row[3]), int(row[4]))
    return Sample(float(row[0]), Direction.parse(row[1]), counts)


def load_links_csv(path: Path) -> dict[Direction, Series]:
    """Read a run's `links.csv`; a run that has none yet gives no series."""
    return parse_links_csv(path.read_text(), str(path)) if path.is_file() else {}
