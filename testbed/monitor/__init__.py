"""Watches during a run whether the machine keeps up with what it emulates.

An emulation on a machine that is too slow does not fail; it gives other figures. This room reads
every second what shows that, keeps it in `fidelity.jsonl`, and says at the end whether the run may
be cited.
"""

from testbed.monitor.judge import judge
from testbed.monitor.readings import FidelitySample
from testbed.monitor.thresholds import DEFAULT_THRESHOLDS, Thresholds
from testbed.monitor.watch import FILE_NAME, FidelityMonitor

__all__ = [
    "DEFAULT_THRESHOLDS",
    "FILE_NAME",
    "FidelityMonitor",
    "FidelitySample",
    "Thresholds",
    "judge",
]
