"""Reports: from the files of a run to one page that one wants to show, and to other programs.

See docs/reports.md.
"""
