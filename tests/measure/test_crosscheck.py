"""Three witnesses of the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from testbed.links.backend import DirectionCounters as BackendCounters
from testbed.measure.counters import DirectionCounters
from testbed.measure.crosscheck import (
    Count,
    CrossCheckRow,
    End,
    counts_at_ends,
    counts_of_backend,
    counts_of_ports,
    cross_check,
    disagreements,
)
from topologies.model import Direction

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


def _one(before: Count, controller: Count, backend: Count, after: Count) -> CrossCheckRow:
    (row,) = cross_check({IN: before}, {IN: controller}, {IN: backend}, {IN: after})
    return row


def test_equal_witnesses_agree_at_both_ends() -> None:
    counts = counts_at_ends({NYC_LON: _counters(1000, 700)})
    rows = cross_check(counts, counts, counts, counts)
    assert [(row.end, row.difference_bytes, row.agree) for row in rows] == [
        ("in", 0, True),
        ("out", 0, True),
    ]
    assert disagreements(rows) == []


def test_a_witness_may_lie_anywhere_between_the_two_readings() -> None:
    row = _one(Count(100_000, 10), Count(100_000, 10), Count(190_140, 20), Count(190_140, 20))
    assert (row.moved_bytes, row.difference_bytes, row.agree) == (90_140, 0, True)


def test_a_witness_beyond_the_later_reading_is_off_by_what_lies_beyond() -> None:
    row = _one(Count(100_000, 10), Count(150_000, 10), Count(100_000, 10), Count(120_000, 10))
    assert (row.difference_bytes, row.agree) == (30_000, False)


def test_a_witness_that_missed_a_frame_is_off_by_all_its_bytes() -> None:
    row = _one(Count(18_028, 2), Count(9_014, 1), Count(18_028, 2), Count(18_028, 2))
    assert (row.difference_bytes, row.agree) == (-9_014, False)
    assert disagreements([row]) == [
        "NYC>LON in: counters differ by -9014 bytes, 4096 are explained"
    ]


def test_the_witness_furthest_off_decides() -> None:
    row = _one(Count(9_000, 9), Count(9_005, 9), Count(8_990, 9), Count(9_000, 9))
    assert row.difference_bytes == -10


def test_a_witness_that_does_not_count_an_end_is_left_out() -> None:
    rows = cross_check({IN: Count(5, 1)}, {}, {}, {IN: Count(5, 1)})
    assert (rows[0].controller_bytes, rows[0].backend_bytes, rows[0].agree) == (None, None, True)


def test_a_segment_that_becomes_seven_frames_has_six_more_headers() -> None:
    whole = Count(62_702, 1)
    row = _one(whole, whole, Count(62_702 + 6 * 66, 7), whole)
    assert (row.difference_bytes, row.agree) == (0, True)


_BYTES = st.integers(0, 10**12)


@given(_BYTES, _BYTES, _BYTES)
def test_only_what_lies_outside_the_two_readings_is_a_difference(a: int, b: int, c: int) -> None:
    before, after = sorted((a, b))
    row = _one(Count(before, 1), Count(c, 1), Count(before, 1), Count(after, 1))
    assert row.difference_bytes == (c - before if c < before else max(0, c - after))
