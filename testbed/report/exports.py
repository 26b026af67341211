"""What a report leaves for other programs: tables, a trace, events for TensorBoard."""

from __future__ import annotations

from pathlib import Path

from testbed.report.view import RunView


def write_exports(view: RunView, folder: Path) -> None:
    """Write every export."""
