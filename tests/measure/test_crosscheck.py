"""Three witnesses of the same bytes."""

from __future__ import annotations

from testbed.links.backend import DirectionCounters as BackendCounters
from testbed.measure.counters import DirectionCounters
from testbed.measure.crosscheck import (
    Count,
    End,
    allowances,
    counts_at_ends,
    counts_of_backend,
    counts_of_ports,
    cross_check,
    disagreements,
)
from topologies.model import Direction, DirectionSpec

NYC_LON, UP = Direction.parse("NYC>LON"), Direction.parse("NYC.island>NYC")
IN, OUT = End(NYC_LON, entry=True), End(NYC_LON, entry=False)


def _counters(bytes_in: int, bytes_out: int) -> DirectionCounters:
    return DirectionCounters(bytes_in, bytes_in // 100, bytes_out, bytes_out // 100, 0)


def test_both_ends_of_a_direction_are_counted() -> None:
    counts = counts_at_ends({NYC_LON: _counters(1000, 700)})
    assert counts == {IN: Count(1000, 10), OUT: Count(700, 7)}


def test_what_a_port_receives_has_left_the_opposite_direction() -> None:
    ports = {
        "NYC>LON": {"tx_bytes": 900, "tx_packets": 9, "rx_bytes": 50, "rx_packets": 1},
        "LON>NYC": {"tx_bytes": 60, "tx_packets": 2, "rx_bytes": 800, "rx_packets": 8},
    }
    counts = counts_of_ports(ports)
    assert counts[IN] == Count(900, 9)
    assert counts[OUT] == Count(800, 8)
    assert counts[End(NYC_LON.reverse, entry=True)] == Count(60, 2)
    assert counts[End(NYC_LON.reverse, entry=False)] == Count(50, 1)


def test_a_port_to_an_island_tells_what_the_island_sent() -> None:
    ports = {"NYC>NYC.island": {"tx_bytes": 1, "tx_packets": 1, "rx_bytes": 7, "rx_packets": 2}}
    assert counts_of_ports(ports)[End(UP, entry=False)] == Count(7, 2)


def test_the_back_end_counts_both_ends() -> None:
    counts = counts_of_backend({NYC_LON: BackendCounters(10, 1000, 7, 700)})
    assert counts == {IN: Count(1000, 10), OUT: Count(700, 7)}


def test_equal_witnesses_agree() -> None:
    counts = counts_at_ends({NYC_LON: _counters(1000, 700)})
    rows = cross_check(counts, counts, counts, {IN: 0, OUT: 0})
    assert [(row.end, row.difference_bytes, row.agree) for row in rows] == [
        ("in", 0, True),
        ("out", 0, True),
    ]
    assert disagreements(rows) == []


def test_the_witness_furthest_off_decides_and_is_named_by_its_end() -> None:
    reference = {IN: Count(1000, 10), OUT: Count(700, 7)}
    controller = {IN: Count(1005, 10), OUT: Count(690, 7)}
    backend = {IN: Count(1000, 10), OUT: Count(704, 7)}
    rows = cross_check(reference, controller, backend, {IN: 6, OUT: 6})
    assert [(row.difference_bytes, row.agree) for row in rows] == [(5, True), (-10, False)]
    assert disagreements(rows) == [
        "NYC>LON out: counters differ by -10 bytes, 6 are explained",
    ]


def test_a_witness_that_does_not_count_an_end_is_left_out() -> None:
    rows = cross_check({IN: Count(5, 1)}, {}, {}, {IN: 0})
    assert (rows[0].controller_bytes, rows[0].backend_bytes, rows[0].agree) == (None, None, True)


def test_the_rate_bounds_what_passes_between_two_readings() -> None:
    # 100 Mbit/s for 10 ms is 125,000 bytes; 4096 bytes may be stray.
    allowed = allowances({IN: Count(9, 1)}, {NYC_LON: DirectionSpec(100, 1)}, skew_s=0.01)
    assert allowed == {IN: 4096 + 125_000}


def test_a_segment_that_becomes_seven_frames_has_six_more_headers() -> None:
    whole, apart = Count(62_702, 1), Count(62_702 + 6 * 66, 7)
    (row,) = cross_check({IN: whole}, {IN: whole}, {IN: apart}, {IN: 0})
    assert (row.difference_bytes, row.agree) == (0, True)


def test_a_frame_that_a_witness_missed_is_a_difference_of_all_its_bytes() -> None:
    (row,) = cross_check({IN: Count(18_028, 2)}, {IN: Count(9_014, 1)}, {}, {IN: 4096})
    assert (row.difference_bytes, row.agree) == (-9_014, False)
