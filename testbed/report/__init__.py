"""Reports: from the files of a run to one page that one wants to show, and to other programs.

See docs/reports.md.
"""

from pathlib import Path

from testbed.report.comparison import write_comparison_report
from testbed.report.variants import COMPARISON, REPORT
from testbed.report.writing import write_report

__all__ = ["write_any_report", "write_comparison_report", "write_report"]


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
