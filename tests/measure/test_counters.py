"""Interface counters as the kernel prints them, and the directions they belong to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.counters import (
    DirectionCounters,
    InterfaceCounters,
    WireEnds,
    direction_counters,
    parse_proc_net_dev,
    wire_ends,
)
from topologies.errors import RunError
from topologies.model import Direction

HEADER = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
"""  # noqa: E501
NYC_LON = Direction("NYC", "LON")


def test_columns_of_proc_net_dev_are_those_of_its_heading() -> None:
    text = HEADER + "  w0a: 101 2 3 4 5 6 7 8 901 12 13 14 15 16 17 18\n"
    assert parse_proc_net_dev(text) == {
        "w0a": InterfaceCounters(
            rx_bytes=101, rx_packets=2, rx_drops=4, tx_bytes=901, tx_packets=12, tx_drops=14
        )
    }


def test_a_number_may_stand_right_behind_the_colon() -> None:
    text = HEADER + "w10b:18446744073709551615 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    assert parse_proc_net_dev(text)["w10b"].rx_bytes == 2**64 - 1


def test_a_line_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line of /proc/net/dev"):
        parse_proc_net_dev(HEADER + "w0a: 1 2 3\n")


_COUNTERS = st.lists(st.integers(0, 2**63), min_size=16, max_size=16)


@given(st.dictionaries(st.from_regex(r"w[0-9]{1,4}[ab]", fullmatch=True), _COUNTERS, max_size=5))
def test_every_interface_is_read_with_its_own_numbers(rows: dict[str, list[int]]) -> None:
    lines = (f"{name:>6}: " + " ".join(map(str, row)) + "\n" for name, row in rows.items())
    assert parse_proc_net_dev(HEADER + "".join(lines)) == {
        name: InterfaceCounters(row[0], row[1], row[3], row[8], row[9], row[11])
        for name, row in rows.items()
    }


def test_a_direction_enters_where_its_node_is_and_leaves_at_the_other_end() -> None:
    assert wire_ends({3: NYC_LON}) == {
        NYC_LON: WireEnds(entry="w3a", exit="w3b"),
        NYC_LON.reverse: WireEnds(entry="w3b", exit="w3a"),
    }


def test_what_comes_in_at_one_end_goes_out_at_the_other() -> None:
    interfaces = {
        "w0a": InterfaceCounters(1000, 10, 1, 600, 6, 2),
        "w0b": InterfaceCounters(700, 7, 4, 900, 9, 8),
    }
    counters = direction_counters(interfaces, wire_ends({0: NYC_LON}))
    assert counters[NYC_LON] == DirectionCounters(1000, 10, 900, 9, drops=1 + 8)
    assert counters[NYC_LON.reverse] == DirectionCounters(700, 7, 600, 6, drops=4 + 2)


def test_a_wire_end_that_is_gone_is_named() -> None:
    interfaces = {"w0a": InterfaceCounters(0, 0, 0, 0, 0, 0)}
    with pytest.raises(RunError, match="wire ends are gone: w0b"):
        direction_counters(interfaces, wire_ends({0: NYC_LON}))
