"""`--capture`: every direction's packets into the record, and held against the counters.

A capture that lost packets, or that shows other bytes than the interfaces counted meanwhile, is no
evidence; the run then says so and is invalid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from testbed.measure.capture import (
    Capture,
    CaptureStatistics,
    FlowTotal,
    capture_differences,
    matrix_rows,
    read_matrices,
    sent_matrix,
)
from testbed.measure.counters import DirectionCounters, WireEnds, read_counters
from testbed.measure.series import Counts
from testbed.record.writer import RunRecord
from topologies.model import Direction

MATRIX_NAME = "matrix.json"


@dataclass
class Captured:
    """What a capture showed; empty until it is over, or when none was asked for.

    Attributes:
        sent: what islands sent one another.
        reasons: why the capture is no evidence, one line each.
    """

    sent: dict[tuple[str, str], FlowTotal] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


@contextmanager
def capturing(
    ends: Mapping[Direction, WireEnds], record: RunRecord, site_of_ip: Callable[[str], str | None]
) -> Iterator[Captured]:
    """Capture every direction while the body runs; the result is filled in afterwards."""
    captured = Captured()
    capture = Capture(ends, record.capture_directory)
    before = read_counters(ends)
    try:
        yield captured
    finally:
        statistics = capture.stop()
    counted = counted_since(before, read_counters(ends))
    matrices = read_matrices(capture.files, site_of_ip)
    captured.sent = sent_matrix(matrices)
    captured.reasons = [*incomplete(statistics), *capture_differences(matrices, counted)]
    rows = json.dumps(matrix_rows(matrices), indent=1)
    (record.capture_directory / MATRIX_NAME).write_text(rows)


def counted_since(
    before: Mapping[Direction, DirectionCounters], after: Mapping[Direction, DirectionCounters]
) -> dict[Direction, Counts]:
    """Return what entered each direction between two readings of its counters."""
    return {
        way: Counts(
            now.bytes_in - before[way].bytes_in,
            now.packets_in - before[way].packets_in,
            now.drops - before[way].drops,
        )
        for way, now in after.items()
    }


def incomplete(statistics: Mapping[Direction, CaptureStatistics]) -> list[str]:
    """Return one line for each direction whose capture is not whole."""
    return [
        f"capture of {way} is not whole: {one.captured} frames kept, "
        + ("its size limit was reached" if one.full else f"{one.dropped} dropped")
        for way, one in sorted(statistics.items())
        if not one.complete
    ]
