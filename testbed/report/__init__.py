"""Reports: from the files of a run to one page that one wants to show, and to other programs.

See docs/reports.md.
"""

from testbed.report.writing import write_report

__all__ = ["write_report"]
