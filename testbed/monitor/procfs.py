"""What the kernel tells of processors and processes, read from the text of its files (proc(5))."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class CpuTimes:
    """Time of all processors together since boot, in clock ticks.

    Attributes:
        busy: doing anything, stolen time left out.
        steal: when the hypervisor ran somebody else while there was work here.
        total: all of it, idle included.
    """

    busy: int
    steal: int
    total: int


@dataclass(frozen=True)
class ProcessTimes:
    """What a process's main thread has had since it began, in seconds.

    Attributes:
        run_s: on a processor.
        wait_s: ready to run without getting one; None where the kernel does not count it.
    """

    run_s: float
    wait_s: float | None


def parse_cpu(stat: str) -> CpuTimes:
    """Read the first line of `/proc/stat`; raises ValueError for something else."""
    name, *fields = stat.splitlines()[0].split() if stat else [""]
    if name != "cpu" or len(fields) < 8:
        raise ValueError("not /proc/stat")
    # guest time, fields 9 and 10, is in user and nice already
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, fields[:8])
    busy = user + nice + system + irq + softirq
    return CpuTimes(busy, steal, busy + idle + iowait + steal)


def parse_runnable(loadavg: str) -> int:
    """Read from `/proc/loadavg` how many threads run or could; ValueError for something else."""
    fields = loadavg.split()
    if len(fields) < 4:
        raise ValueError("not /proc/loadavg")
    return int(fields[3].partition("/")[0])


def parse_schedstat(text: str) -> ProcessTimes:
    """Read `/proc/PID/schedstat`; raises ValueError for something else."""
    fields = text.split()
    if len(fields) != 3:
        raise ValueError("not /proc/PID/schedstat")
    return ProcessTimes(int(fields[0]) / NS_PER_S, int(fields[1]) / NS_PER_S)


def parse_process_stat(text: str, ticks_per_s: int) -> ProcessTimes:
    """Read user and system time from `/proc/PID/stat`; raises ValueError for something else."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 13:
        raise ValueError("not /proc/PID/stat")
    return ProcessTimes((int(fields[11]) + int(fields[12])) / ticks_per_s, None)


def read_cpu(proc: Path = Path("/proc")) -> CpuTimes:
    """Return the machine's processor times; inside a run they are still the whole machine's."""
    return parse_cpu((proc / "stat").read_text())


def read_runnable(proc: Path = Path("/proc")) -> int:
    """Return how many threads of the whole machine run or could."""
    return parse_runnable((proc / "loadavg").read_text())


def read_process(pid: int, proc: Path = Path("/proc")) -> ProcessTimes | None:
    """Return what a process has had; None when there is none of that id."""
    folder = proc / str(pid)
    try:
        return parse_schedstat((folder / "schedstat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        pass  # gone, or a kernel without these statistics
    try:
        stat = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return parse_process_stat(stat, os.sysconf("SC_CLK_TCK"))
