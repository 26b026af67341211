"""Tables for people, made from a summary, so that they show what is in the files and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from topologies.model import Direction

if TYPE_CHECKING:  # a table is made from plain data: whoever shows one need not load what measures
    from testbed.measure.capture import FlowTotal
    from testbed.measure.reach import Reachability
    from testbed.record.reader import RunEntry

MISSING = "-"
Json = Mapping[str, Any]


def number(value: float | None, digits: int) -> str:
    """Return a number with so many digits after the point, or a dash for what is none."""
    return f"{value:,.{digits}f}" if isinstance(value, (int, float)) else MISSING


def megabytes(value: float | None, digits: int = 3) -> str:
    """Return bytes as MB of 10^6, or a dash for none."""
    return MISSING if value is None else number(value / 1e6, digits)


def _table(title: str, first: str, others: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def round_table(summary: Json) -> Table:
    """Return a row for each round: its seconds, losses and bytes on the WAN."""
    table = _table(
        "Rounds",
        "round",
        (
            "local s", "sync s", "predicted s", "bound s", "ratio",
            "train loss", "held-out", "consensus", "WAN MB",
        ),
    )  # fmt: skip
    for row in summary["rounds"]:
        table.add_row(
            str(row["round"]),
            number(row["local_s"], 2),
            number(row["sync_s"], 2),
            number(row["predicted_s"], 2),
            number(row["bound_s"], 2),
            number(row["ratio"], 2),
            number(row["train_loss"], 3),
            number(row["held_out_loss"], 3),
            _small(row["consensus_distance"]),
            megabytes(wan_bytes(row["link_bytes"]), 1),
        )
    return table


def prediction_table(summary: Json) -> Table:
    """Return a row for each of the schedule's rounds: what it was to take and what it took."""
    table = _table("Schedule", "round", ("kind", "predicted s", "median s", "error %"))
    for row in summary["prediction"]["rows"]:
        table.add_row(
            str(row["plan_round"]),
            row["kind"],
            number(row["predicted_s"], 2),
            number(row["median_s"], 2),
            MISSING if row["error_pct"] is None else f"{row['error_pct']:+.1f}",
        )
    return table


def background_table(summary: Json) -> Table:
    """Return a row for each flow beside the training: offered and carried, and what was lost."""
    table = _table(
        "Background traffic", "flow", ("protocol", "offered Mbit/s", "carried", "MB", "lost %")
    )
    for row in summary["background"]:
        table.add_row(
            row["flow"],
            row["protocol"],
            number(row["offered_mbps"], 2),
            number(row["rate_mbps"], 2),
            megabytes(row["received_bytes"], 2),
            number(row["lost_pct"], 2),
        )
    return table


def _small(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def wan_bytes(link_bytes: Mapping[str, int]) -> int:
    """Return the bytes of a round on WAN links, each counted at every link it crosses."""
    return sum(n for name, n in link_bytes.items() if not Direction.parse(name).is_access)


def link_table(summary: Json) -> Table:
    """Return a row for each direction: payload and overhead of a round against the expected."""
    rounds = len(summary["rounds"]) or 1
    table = _table(
        f"Link directions, MB a round (mean of {len(summary['rounds'])})",
        "direction",
        ("payload", "expected", "ratio", "headers, ACKs", "frames", "drops"),
    )
    for name, row in sorted(summary["link_bytes"].items(), key=_wan_first):
        overhead = row["measured_bytes"] - row["measured_payload_bytes"]
        table.add_row(
            name,
            megabytes(row["measured_payload_bytes"] / rounds),
            megabytes(row["predicted_payload_bytes"] / rounds),
            number(row["ratio"], 4),
            megabytes(overhead / rounds),
            number(row["measured_packets"] / rounds, 0),
            number(row["drops"], 0),
        )
    return table


def _wan_first(item: tuple[str, Any]) -> tuple[bool, str]:
    return Direction.parse(item[0]).is_access, item[0]


def reach_table(reach: Reachability) -> Table:
    """Return a row for each pair of islands, as `round_trip_table` does."""
    from testbed.record.summary import round_trips

    return round_trip_table(round_trips(reach))


def round_trip_table(round_trips: Json) -> Table:
    """Return a row for each pair of islands: asked and measured round trips, both ways.

    Args:
        round_trips: as in a summary; see `summary.round_trips`.
    """
    rows = {(row["source"], row["target"]): row for row in round_trips["rows"]}
    table = _table(
        f"Round trips of {len(rows)} ordered pairs, ms",
        "pair",
        ("asked", "there: median", "min", "back: median", "min", "worst error", "%", "lost"),
    )
    for a, b in sorted({(min(pair), max(pair)) for pair in rows}):
        both = [rows[pair] for pair in ((a, b), (b, a)) if pair in rows]
        there, back = rows.get((a, b), {}), rows.get((b, a), {})
        table.add_row(
            f"{a}-{b}",
            number(both[0]["asked_ms"], 2),
            number(there.get("median_ms"), 2),
            number(there.get("measured_min_ms"), 2),
            number(back.get("median_ms"), 2),
            number(back.get("measured_min_ms"), 2),
            number(_worst(both, "error_ms"), 2),
            number(_worst(both, "error_pct"), 1),
            str(sum(row["lost"] for row in both)),
        )
    return table


def _worst(rows: Iterable[Json], name: str) -> float | None:
    return max((row[name] for row in rows if row[name] is not None), key=abs, default=None)


def cross_check_table(summary: Json) -> Table:
    """Return a row for each end of each direction: the same bytes as three witnesses saw them."""
    table = _table(
        "Counters compared, bytes",
        "direction",
        ("end", "interface", "switch port", "link back-end", "difference", "explained", "agree"),
    )
    for row in summary["cross_check"]:
        table.add_row(
            row["direction"],
            row["end"],
            number(row["interface_bytes"], 0),
            number(row["controller_bytes"], 0),
            number(row["backend_bytes"], 0),
            number(row["difference_bytes"], 0),
            number(row["allowed_bytes"], 0),
            "yes" if row["agree"] else "[red]NO[/red]",
        )
    return table


def run_table(runs: Sequence[RunEntry]) -> Table:
    """Return a row for each run of a list."""
    table = _table("Runs", "run", ("topology", "started", "state", "valid"))
    words = {True: "yes", False: "[red]no[/red]", None: MISSING}
    for run in runs:
        table.add_row(run.run_id, run.topology, run.started, run.state, words[run.valid])
    return table


def traffic_table(matrix: Mapping[tuple[str, str], FlowTotal]) -> Table:
    """Return captured traffic as a square: MB sent from each island (row) to each (column)."""
    codes = sorted({code for pair in matrix for code in pair})
    table = _table("Traffic from (row) to (column), MB", "", codes)
    for source in codes:
        flows = [matrix.get((source, target)) for target in codes]
        table.add_row(source, *(megabytes(flow.bytes) if flow else MISSING for flow in flows))
    return table
