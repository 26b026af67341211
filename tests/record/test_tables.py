"""Tables show the figures of the summary, in the units they promise."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.table import Table

from testbed.measure.capture import FlowTotal
from testbed.measure.reach import compare
from testbed.record.reader import RunEntry
from testbed.record.tables import (
    cross_check_table,
    link_table,
    reach_table,
    round_table,
    run_table,
    traffic_table,
    wan_bytes,
)


def _lines(table: Table) -> list[list[str]]:
    """Return a table as words by line, its borders left out."""
    file = io.StringIO()
    Console(file=file, width=200).print(table)
    plain = file.getvalue().translate(str.maketrans("┃│", "  "))
    return [line.split() for line in plain.splitlines()]


ROUND: dict[str, Any] = {
    "round": 3, "local_s": 1.234, "sync_s": 2.0, "predicted_s": 1.6, "bound_s": 1.0, "ratio": 2.0,
    "train_loss": 3.2109,    "held_out_loss": None, "consensus_distance": 0.000123456,
    "link_bytes": {"NYC.island>NYC": 9_000_000, "NYC>LON": 1_500_000, "LON>NYC": 500_000},
}  # fmt: skip


def test_a_round_shows_wan_megabytes_and_a_dash_for_what_is_missing() -> None:
    lines = _lines(round_table({"rounds": [ROUND]}))
    expected = ["3", "1.23", "2.00", "1.60", "1.00", "2.00", "3.211", "-", "0.000123", "2.0"]
    assert expected in lines


def test_access_ports_are_not_counted_as_wan() -> None:
    assert wan_bytes(ROUND["link_bytes"]) == 2_000_000


def _link(payload: int, predicted: int) -> dict[str, Any]:
    return {
        "measured_bytes": payload + 66_000, "measured_packets": 1000, "drops": 4,
        "measured_payload_bytes": payload, "predicted_payload_bytes": predicted,
        "ratio": payload / predicted if predicted else None,
    }  # fmt: skip


def test_links_show_the_mean_of_a_round_with_wan_links_first() -> None:
    links = {"AMS.island>AMS": _link(0, 0), "NYC>LON": _link(4_040_000, 4_000_000)}
    lines = _lines(link_table({"rounds": [ROUND, ROUND], "link_bytes": links}))
    wan = ["NYC>LON", "2.020", "2.000", "1.0100", "0.033", "500", "4"]
    access = ["AMS.island>AMS", "0.000", "0.000", "-", "0.033", "500", "4"]
    assert lines.index(wan) < lines.index(access)


def test_a_pair_stands_in_one_line_with_both_ways() -> None:
    times = {("A", "B"): (9.0, 20.5, 20.7), ("B", "A"): (9.0, 21.0, None)}
    lines = _lines(reach_table(compare(times, {("A", "B"): 20.0, ("B", "A"): 20.0})))
    assert ["A-B", "20.00", "20.60", "20.50", "21.00", "21.00", "1.00", "5.0", "1"] in lines


def test_an_unreached_way_shows_dashes() -> None:
    lines = _lines(reach_table(compare({}, {("A", "B"): 20.0})))
    assert ["A-B", "20.00", "-", "-", "-", "-", "-", "-", "0"] in lines


def test_witnesses_that_disagree_are_marked() -> None:
    row = {
        "direction": "A>B", "end": "in", "interface_bytes": 10, "controller_bytes": 12,
        "backend_bytes": None, "difference_bytes": 2, "allowed_bytes": 1, "agree": False,
    }  # fmt: skip
    lines = _lines(cross_check_table({"cross_check": [row]}))
    assert ["A>B", "in", "10", "12", "-", "2", "1", "NO"] in lines


def test_runs_are_listed_with_their_state() -> None:
    runs = [RunEntry("r1", "killed", "nine_city", "2025-03-01", None)]
    assert ["r1", "nine_city", "2025-03-01", "killed", "-"] in _lines(run_table(runs))


def test_traffic_is_a_square_of_megabytes() -> None:
    lines = _lines(traffic_table({("A", "B"): FlowTotal(2_500_000, 9)}))
    assert ["A", "-", "2.500"] in lines
    assert ["B", "-", "-"] in lines
