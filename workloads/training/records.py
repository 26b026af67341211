"""What a worker leaves behind: one JSON object a line, on disk as soon as it has happened.

The events are `start`, `round` (one a round), and `end` or `error`. Times come as seconds since
1970 (`time.time`), to be laid beside those of other workers and of link counters, and under
`monotonic` as seconds on the clock that no time server sets.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from workloads.errors import UsageError

WORKER_FILE = "worker.jsonl"


def write_line(stream: TextIO, text: str) -> None:
    """Write a line in one piece, so that workers who share a terminal do not mix theirs."""
    stream.write(text + "\n")
    stream.flush()


class WorkerRecord:
    """Appends events to `worker.jsonl` in a folder of the worker's own; to nothing if None.

    With `echo` the same lines go to standard output, for whoever follows the worker from afar.
    """

    def __init__(self, directory: Path | None, echo: bool = False) -> None:
        self._file = None if directory is None else _create(directory)
        self._echo = echo

    def append(self, event: str, **fields: Any) -> None:
        """Write an event as one line and flush it."""
        line = json.dumps({"event": event, **fields})
        if self._file is not None:
            write_line(self._file, line)
        if self._echo:
            write_line(sys.stdout, line)

    def __enter__(self) -> WorkerRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True)
class Moment:
    """One moment by both clocks, in seconds."""

    unix: float
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return the moment of the call."""
        return cls(time.time(), time.monotonic())


class Stopwatch:
    """The moments of a round by both clocks."""

    def __init__(self) -> None:
        self._moments: dict[str, Moment] = {}

    def mark(self, name: str) -> None:
        """Note that the moment called `name` is now."""
        self.put(name, Moment.now())

    def put(self, name: str, moment: Moment) -> None:
        """Note when the moment called `name` was."""
        self._moments[name] = moment

    def seconds(self, first: str, last: str) -> float:
        """Return the seconds between two moments."""
        return self._moments[last].monotonic - self._moments[first].monotonic

    def fields(self) -> dict[str, Any]:
        """Return the moments in seconds since 1970, and again under `monotonic`."""
        unix = {name: moment.unix for name, moment in self._moments.items()}
        return {**unix, "monotonic": {name: one.monotonic for name, one in self._moments.items()}}


@dataclass(frozen=True)
class RoundMeans:
    """One round over all workers: losses in the workload's unit, times in seconds since 1970.

    Losses are None where a workload has none, and the distance where not all workers told it.
    """

    round: int
    started: float
    sync_started: float
    ended: float
    train_loss: float | None
    held_out_loss: float | None
    consensus_distance: float | None


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a worker's file; a last line cut short by a kill is left out."""
    events: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            events.append(json.loads(line))
    return events


def mean_over_workers(workers: Sequence[Sequence[Mapping[str, Any]]]) -> list[RoundMeans]:
    """Return the rounds that every worker finished, each averaged over the workers.

    The held-out loss weighs each worker by the windows that it evaluated, so that it is the loss
    on the whole held-out set.

    Args:
        workers: the events of each worker, as `read_events` gives them.
    """
    rounds = [[event for event in events if event["event"] == "round"] for events in workers]
    return [_mean_of_round(rows) for rows in zip(*rounds, strict=False)]


def _mean_of_round(rows: Sequence[Mapping[str, Any]]) -> RoundMeans:
    windows = sum(row["held_out_windows"] for row in rows)
    held_out = sum(row["held_out_windows"] * (row["held_out_loss"] or 0.0) for row in rows)
    return RoundMeans(
        round=rows[0]["round"],
        started=min(row["local_start"] for row in rows),
        sync_started=max(row["sync_start"] for row in rows),
        ended=max(row["sync_end"] for row in rows),
        train_loss=_mean_if_all([row["train_loss"] for row in rows]),
        held_out_loss=held_out / windows if windows else None,
        consensus_distance=_mean_if_all([row["consensus_distance"] for row in rows]),
    )


def _mean_if_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _create(directory: Path) -> TextIO:
    """Open a new file for the record; one that is there belongs to another worker or run."""
    path = directory / WORKER_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return path.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(
            f"--out {directory}: {path} exists; give each worker of each run a folder of its "
            "own, for example --out 'results/{rank}'"
        ) from error
    except OSError as error:
        raise UsageError(f"--out {directory}: {error.strerror}") from error
