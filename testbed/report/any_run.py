"""The report of a recorded run, whichever kind it is of."""

from __future__ import annotations

from pathlib import Path

from testbed.report.comparison import write_comparison_report
from testbed.report.variants import COMPARISON, REPORT
from testbed.report.writing import write_report


def write_any_report(run: Path) -> Path:
    """Write the report of a comparison or of a run; returns its page.

    Of a comparison's runs those are written that have none yet, since there may be many.
    """
    if not (run / COMPARISON).is_file():
        return write_report(run)
    for manifest in sorted(run.glob("variants/*/*/manifest.json")):
        if not manifest.with_name(REPORT).is_file():
            write_report(manifest.parent)
    return write_comparison_report(run)
