"""The table of a benchmark, made from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from testbed.record.tables import megabytes, number

COLUMNS = (
    "MB", "count", "avg s", "p50 s", "p99 s", "algbw\nMbit/s", "busbw\nMbit/s",
    "WAN MB", "predicted", "traver-\nsals", "pre-\ndicted", "bound s", "ratio", "#wrong",
)  # fmt: skip


def bench_table(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Return the table of all rows, collective by collective."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("collective", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row), style="red" if row["wrong"] else None)
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        row["collective"],
        megabytes(row["size_bytes"]),
        str(row["count"]),
        number(row["time_avg_s"], 3),
        number(row["time_p50_s"], 3),
        number(row["time_p99_s"], 3),
        number(row["algbw_mbps"], 1),
        number(row["busbw_mbps"], 1),
        megabytes(row["wan_bytes"], 2),
        megabytes(row["wan_bytes_expected"], 2),
        number(row["traversals"], 2),
        number(row["traversals_expected"], 2),
        number(row["bound_s"], 3),
        number(row["ratio"], 3),
        str(row["wrong"]),
    ]
