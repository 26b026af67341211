"""Tells, before a run, what a machine has and lacks, what each part is for and how to get it.

Emulators commonly find out in the middle: `tc` prints that it knows no netem, and the run goes on
with links that delay nothing. The doctor tries every part beforehand, chooses the datapath and the
link back-end that work, and says why an emulation cannot run where it cannot.
"""

from testbed.doctor.capacity import Capacity, carrying_capacity
from testbed.doctor.checks import Finding
from testbed.doctor.facts import Facts
from testbed.doctor.render import print_report, verdict
from testbed.doctor.report import Report, diagnose, examine

__all__ = [
    "Capacity",
    "Facts",
    "Finding",
    "Report",
    "carrying_capacity",
    "diagnose",
    "examine",
    "print_report",
    "verdict",
]
