"""The table of a benchmark, made from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from testbed.record.tables import megabytes, number

COLUMNS = (
    "MB", "count", "seconds\navg/p50/p99", "Mbit/s\nalgbw/busbw", "WAN MB\nof predicted",
    "traversals\nof predicted", "bound\ns", "ratio", "#wrong",
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
        f"{row['size_bytes'] / 1e6:,.6g}",
        str(row["count"]),
        _pair(row, 2, "time_avg_s", "time_p50_s", "time_p99_s"),
        _pair(row, 1, "algbw_mbps", "busbw_mbps"),
        f"{megabytes(row['wan_bytes'], 1)}/{megabytes(row['wan_bytes_expected'], 1)}",
        _pair(row, 2, "traversals", "traversals_expected"),
        number(row["bound_s"], 2),
        number(row["ratio"], 2),
        str(row["wrong"]),
    ]


def _pair(row: Mapping[str, Any], digits: int, *names: str) -> str:
    return "/".join(number(row[name], digits) for name in names)
