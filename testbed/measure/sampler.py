"""A thread that reads all link counters several times a second and keeps what it reads.

It appends to `links.csv` and flushes each time, so a killed run keeps its series up to the last
fifth of a second. Reading costs one small file of the kernel; see `counters`.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType

from testbed.measure.counters import DirectionCounters
from testbed.measure.series import CSV_HEADER, Counts, Sample, Series, Thinner, csv_row
from topologies.errors import RunError
from topologies.model import Direction

CounterSource = Callable[[], Mapping[Direction, DirectionCounters]]
DropSource = Callable[[], Mapping[Direction, int]]


class Sampler:
    """Samples direction counters into a file and into memory until closed.

    Args:
        source: reads all counters, such as `functools.partial(read_counters, ends)`.
        path: the CSV file to append to; made with its header when new.
        interval_s: between two samples.
        link_drops: reads what the link back-end dropped on each direction, if it can tell; added
            to the interfaces' own drops.
    """

    def __init__(
        self,
        source: CounterSource,
        path: Path,
        interval_s: float = 0.2,
        link_drops: DropSource | None = None,
    ) -> None:
        self._source = source
        self._link_drops = link_drops
        self._interval_s = interval_s
        self._series: dict[Direction, Series] = {}
        self._thinner = Thinner()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._moment_s = 0.0
        self._file = path.open("a", newline="")
        self._csv = csv.writer(self._file, lineterminator="\n")
        if self._file.tell() == 0:
            self._csv.writerow(CSV_HEADER)
        self._thread = threading.Thread(target=self._run, name="link-counters", daemon=True)

    def start(self) -> Sampler:
        """Take a first sample in the caller's thread, whose errors it meets, then go on alone."""
        self.sample()
        self._thread.start()
        return self

    def sample(self) -> None:
        """Take one sample now, such as at the very end of a round."""
        with self._lock:
            before = time.time()
            counters = self._source()
            drops = self._link_drops() if self._link_drops else {}
            # Never back: the machine's clock may be set while a run is on.
            self._moment_s = max(self._moment_s, (before + time.time()) / 2)
            self._keep(self._thinner.offer(_samples(self._moment_s, counters, drops)))

    def _keep(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            one = self._series.setdefault(sample.direction, Series())
            one.append(sample.time_s, sample.counts)
            self._csv.writerow(csv_row(sample))
        self._file.flush()

    def series(self) -> dict[Direction, Series]:
        """Return a copy of all that was sampled so far, in the shape `bytes_between` reads.

        Raises:
            RunError: sampling has failed meanwhile.
        """
        self.raise_failure()
        with self._lock:
            return {
                direction: Series(x.times[:], x.bytes[:], x.packets[:], x.drops[:])
                for direction, x in self._series.items()
            }

    def close(self) -> None:
        """Take a last sample, end the thread and close the file; raises what sampling met."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self.raise_failure()
            self.sample()
            with self._lock:
                self._keep(self._thinner.rest())
        finally:
            self._file.close()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.sample()
            except Exception as error:  # kept for the owner: a thread's exception reaches nobody
                self._failure = error
                return

    def raise_failure(self) -> None:
        """Raise RunError if sampling has failed meanwhile."""
        if self._failure is not None:
            raise RunError(f"link counters stopped: {self._failure}") from self._failure

    def __enter__(self) -> Sampler:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _samples(
    moment_s: float, counters: Mapping[Direction, DirectionCounters], drops: Mapping[Direction, int]
) -> Iterable[Sample]:
    for direction, x in counters.items():
        counts = Counts(x.bytes_in, x.packets_in, x.drops + drops.get(direction, 0))
        yield Sample(moment_s, direction, counts)
