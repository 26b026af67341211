"""Rounds in time: which stretch of the clock each round's bytes belong to.

Workers say when they computed and when they synchronized. A round of local steps is quiet on the
network, so the border between two rounds is put in the middle of the quiet phase between them:
after the last worker ended one synchronization, before the first began the next. Where cliques
rotate, or transfers overlap with computing, there may be no such phase; borders then divide bytes
between neighbouring rounds only roughly, while the sum over all rounds stays exact.

    worker 1  [ local ][ sync ]  [ local ][ sync ]
    worker 2  [ local ] [ sync ][ local ]  [ sync ]
    window    |<---- round 0 --->|<--- round 1 -->|

All times are UNIX seconds; every island runs on the same clock, which an emulation has for free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

WorkerRow = Mapping[str, Any]
WorkerRows = Mapping[str, Sequence[WorkerRow]]

# Acknowledgements still cross the network after the last worker has its result: half the longest
# round trip on Earth's surface, and the 40 ms for which a receiver may put them off.
TAIL_S = 0.5
# Workers are silent before they begin, long enough for a sample of the counters to fall between.
HEAD_S = 0.25


@dataclass(frozen=True)
class RoundTimes:
    """One round that every island finished, in UNIX seconds.

    Attributes:
        number: the round's number as the workers count.
        local_start: when the first island began its local steps.
        first_sync_start: when the first island was ready to synchronize.
        last_sync_start: when the last was: no earlier can anyone have finished.
        sync_end: when the last island had the result.
        longest_local_s: the slowest island's local steps.
    """

    number: int
    local_start: float
    first_sync_start: float
    last_sync_start: float
    sync_end: float
    longest_local_s: float

    @property
    def sync_s(self) -> float:
        """Seconds of the collective itself, from the last island ready to the last one done."""
        return self.sync_end - self.last_sync_start

    @property
    def wait_s(self) -> float:
        """Seconds the first island waited for the last to be ready."""
        return self.last_sync_start - self.first_sync_start

    @property
    def round_s(self) -> float:
        """Seconds of the whole round, local steps included."""
        return self.sync_end - self.local_start


@dataclass(frozen=True)
class CliqueTimes:
    """One clique's exchange in one round.

    Attributes:
        sites: its members.
        wait_s: from the first member ready to the last.
        sync_s: from the last member ready until the last has the result.
    """

    sites: tuple[str, ...]
    wait_s: float
    sync_s: float


@dataclass(frozen=True)
class RoundWindow:
    """The stretch of time, in UNIX seconds, to which a round's bytes are counted."""

    number: int
    start_s: float
    end_s: float


def round_rows(rows: Sequence[WorkerRow]) -> dict[int, WorkerRow]:
    """Return one worker's rows of rounds, by round number."""
    return {int(row["round"]): row for row in rows if row.get("event") == "round"}


def complete_rounds(workers: WorkerRows) -> list[int]:
    """Return the rounds that every island finished, in order."""
    numbers = [set(round_rows(rows)) for rows in workers.values()]
    return sorted(set.intersection(*numbers)) if numbers else []


def round_times(workers: WorkerRows) -> list[RoundTimes]:
    """Return the times of every round that all islands finished, in order.

    Args:
        workers: for each site the rows of its `worker.jsonl`.
    """
    by_site = [round_rows(rows) for rows in workers.values()]
    return [
        _times(number, [rows[number] for rows in by_site]) for number in complete_rounds(workers)
    ]


def _times(number: int, rows: Sequence[WorkerRow]) -> RoundTimes:
    return RoundTimes(
        number=number,
        local_start=min(row["local_start"] for row in rows),
        first_sync_start=min(row["sync_start"] for row in rows),
        last_sync_start=max(row["sync_start"] for row in rows),
        sync_end=max(row["sync_end"] for row in rows),
        longest_local_s=max(row["local_end"] - row["local_start"] for row in rows),
    )


def clique_times(
    cliques: Sequence[Sequence[str]], rows: Mapping[str, WorkerRow]
) -> list[CliqueTimes]:
    """Return how long each clique of a round took.

    Args:
        cliques: site codes.
        rows: each site's row of that round.
    """
    return [_clique_times(clique, [rows[site] for site in clique]) for clique in cliques]


def _clique_times(clique: Sequence[str], rows: Sequence[WorkerRow]) -> CliqueTimes:
    first, last = (bound(row["sync_start"] for row in rows) for bound in (min, max))
    ended = max(row["sync_end"] for row in rows)
    return CliqueTimes(tuple(clique), last - first, max(0.0, ended - last))


def round_windows(workers: WorkerRows, tail_s: float = TAIL_S) -> list[RoundWindow]:
    """Return the window of every round that all islands finished, one following on the other.

    The first begins in the silence before the first local step, so that traffic of setting up
    belongs to no round; the last ends `tail_s` after the last result, or when the first island
    begins the mean that closes a training, which belongs to no round either.
    """
    times = round_times(workers)
    if not times:
        return []
    inner = [(a.sync_end + b.first_sync_start) / 2 for a, b in pairwise(times)]
    end = min([times[-1].sync_end + tail_s, *_final_starts(workers)])
    borders = list(accumulate([times[0].local_start - HEAD_S, *inner, end], max))
    return [RoundWindow(x.number, borders[i], borders[i + 1]) for i, x in enumerate(times)]


def _final_starts(workers: WorkerRows) -> list[float]:
    return [
        float(row["start"])
        for rows in workers.values()
        for row in rows
        if row.get("event") == "final" and row.get("start") is not None
    ]
