"""What every kind of work on islands needs: deployment, reports, counters, and a living WAN."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import workloads
from testbed.deploy.fleet import Fleet
from testbed.emulation.emulation import Emulation
from testbed.measure.counters import WireEnds, read_counters
from testbed.measure.sampler import Sampler
from testbed.progress import Stages
from testbed.record.writer import RunRecord
from topologies.errors import RunError
from topologies.model import Direction

WORK_DIRECTORY = "/tmp/job"
Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Reports:
    """What workers have reported so far, line by line, from the threads that read them.

    Attributes:
        failure: why rows could not be written down, such as a full disk.
    """

    record: RunRecord
    rows: Rows = field(default_factory=dict)
    failure: RunError | None = None
    _news: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, site: str, line: str) -> None:
        """Keep one line of a worker's standard output; anything but an event is passed over."""
        row = _event(line)
        if row is None:
            return
        with self._lock:
            self.rows.setdefault(site, []).append(row)
            self._news = True
        try:
            self.record.worker_rows(site, [row])
        except RunError as error:  # told by `check`: a thread's exception reaches nobody
            self.failure = error

    def check(self) -> None:
        """Raise RunError if a row could not be written down."""
        if self.failure is not None:
            raise self.failure

    def has_news(self) -> bool:
        """Return whether anything came since this was asked last."""
        with self._lock:
            news, self._news = self._news, False
            return news

    def snapshot(self) -> Rows:
        """Return a copy of all rows."""
        with self._lock:
            return {site: list(rows) for site, rows in self.rows.items()}


def _event(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "event" in row else None


def island_progress(stages: Stages) -> Callable[[str, str, int, int], None]:
    """Return what shows how many islands a step of a fleet has done."""

    def show(action: str, site: str, done: int, total: int) -> None:
        if action != "watch":
            stages.advance(done, f"{done} of {total} islands")

    return show


def deploy(fleet: Fleet, stages: Stages) -> None:
    """Push the workload, its data included, to every island at once."""
    stages.announce("Deploying workers over SSH", total=len(fleet.sites))
    fleet.connect()
    fleet.push([Path(workloads.__file__).parent], WORK_DIRECTORY)


@contextmanager
def sampling(
    wan: Emulation, ends: Mapping[Direction, WireEnds], record: RunRecord
) -> Iterator[Sampler]:
    """Sample every link direction's counters into the record while the body runs."""

    def drops() -> dict[Direction, int]:
        counters = wan.links.counters()
        return {way: sum(one.dropped.values()) for way, one in counters.items()}

    with Sampler(partial(read_counters, ends), record.links_csv, link_drops=drops) as sampler:
        yield sampler


def alive(
    wan: Emulation, sampler: Sampler, record: RunRecord, then: Callable[[], None]
) -> Callable[[], None]:
    """Return a check for the poll of a fleet: the WAN lives, its links are counted, then `then`."""

    def check() -> None:
        for mishap in wan.accelerators.revive():
            record.event("accelerator_revived", reason=mishap)
        if (reason := wan.failure()) is not None:
            record.event("failure", reason=reason)
            raise RunError(reason)
        try:
            sampler.raise_failure()
            then()
        except RunError:
            # A sampler notices first that links are gone; what ended them says more.
            if (reason := wan.failure()) is None:
                raise
            raise RunError(reason) from None

    return check
