"""The thread that takes a sample every second while a run is on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from testbed.monitor.judge import judge
from testbed.monitor.procfs import ProcessTimes, read_cpu, read_process, read_runnable
from testbed.monitor.readings import FidelitySample, Reading, sample_between
from testbed.monitor.thresholds import DEFAULT_THRESHOLDS, Thresholds
from testbed.record.files import json_line

if TYPE_CHECKING:  # building a network takes a second to load, and reading its figures needs none
    from testbed.emulation.emulation import Emulation

FILE_NAME = "fidelity.jsonl"
INTERVAL_S = 1.0
SWITCH_DAEMON = 1  # of a switch's two daemons; the other is its database


class FidelityMonitor:
    """Appends a line a second to a file and judges them; use it in a `with` statement.

    Args:
        wan: what is watched.
        path: usually `fidelity.jsonl` in the run record.
        thresholds: what makes a run invalid.
        interval_s: between two samples.
    """

    def __init__(
        self,
        wan: Emulation,
        path: Path,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._wan = wan
        self._path = path
        self._thresholds = thresholds
        self._interval_s = interval_s
        self._samples: list[FidelitySample] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fidelity", daemon=True)
        self._before: Reading | None = None
        self._mishaps_before = len(wan.accelerators.mishaps)

    def samples(self) -> tuple[FidelitySample, ...]:
        """Return all samples so far."""
        with self._lock:
            return tuple(self._samples)

    def reasons(self, measured: tuple[float, float] | None = None) -> list[str]:
        """Return why the run is invalid so far, each with when and how much; empty if it is not.

        A monitor that could not look is a reason too: nothing is known of the run then.

        Args:
            measured: UNIX times between which figures were taken; all the time, if not given.
        """
        reasons = judge(self.samples(), self._thresholds, measured)
        reasons += self._wan.accelerators.mishaps[self._mishaps_before :]
        if self._failure is not None:
            reasons.append(f"fidelity was not watched to the end: {self._failure}")
        return reasons

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            if not self._sample():
                return

    def _sample(self) -> bool:
        try:
            after = read(self._wan)
            if self._before is not None:
                self._keep(sample_between(self._before, after, self._thresholds.late_us))
            self._before = after
        except Exception as error:  # becomes a reason: a thread's exception reaches nobody
            self._failure = error
        return self._failure is None

    def _keep(self, sample: FidelitySample) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            self._samples.append(sample)
            file.write(json_line(sample.row()))

    def __enter__(self) -> FidelityMonitor:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None and self._failure is None:
            self._sample()


def read(wan: Emulation) -> Reading:
    """Look at everything once; a few milliseconds for nine cities.

    Raises:
        RunError: the link back-end is gone.
    """
    return Reading(
        time_s=time.time(),
        clock_s=time.monotonic(),
        cpu=read_cpu(),
        runnable=read_runnable(),
        links=_links_process(wan),
        switches=_switch_processes(wan),
        counters=wan.links.counters(),
    )


def _links_process(wan: Emulation) -> ProcessTimes | None:
    pid = getattr(wan.links, "process_id", None)
    return None if pid is None else read_process(pid)


def _switch_processes(wan: Emulation) -> dict[str, ProcessTimes]:
    found = {}
    for switch in wan.network.switches():
        daemons = switch.daemons[SWITCH_DAEMON:]
        times = read_process(daemons[0].pid) if daemons else None
        if times is not None:
            found[switch.name] = times
    return found
