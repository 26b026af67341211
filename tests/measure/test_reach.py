"""Round trips: what is printed, what a topology asks for, and real probes between namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.measure.reach import (
    Probing,
    Reachability,
    UnreachableError,
    asked_round_trips,
    compare,
    measure,
    parse_times,
)
from topologies.errors import MachineError, RunError
from topologies.files import load
from topologies.routing import least_delay_routes


def test_times_are_read_with_losses_in_their_place() -> None:
    text = '{"10.0.0.2": [91.7, null, 29], "10.0.0.3": [null]}\n'
    assert parse_times(text) == {"10.0.0.2": (91.7, None, 29), "10.0.0.3": (None,)}


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"10.0.0.2": ["fast"]}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_times(text)


def test_the_first_probe_does_not_count_and_the_median_does() -> None:
    reach = compare({("A", "B"): (250.0, 12.0, None, 11.0, 19.0)}, {("A", "B"): 10.0})
    (row,) = reach.round_trips
    assert (row.measured_min_ms, row.median_ms, row.lost) == (11.0, 12.0, 1)
    assert row.error_ms == pytest.approx(2.0)
    assert row.error_pct == pytest.approx(20.0)


def test_worst_errors_keep_their_sign_and_may_belong_to_different_pairs() -> None:
    times = {("A", "B"): (0.0, 97.0), ("B", "A"): (0.0, 3.0)}
    reach = compare(times, {("A", "B"): 100.0, ("B", "A"): 2.0})
    assert reach.worst_error_ms == pytest.approx(-3.0)
    assert reach.worst_error_pct == pytest.approx(50.0)


def test_pairs_without_answers_are_named() -> None:
    asked = {("A", "B"): 1.0, ("B", "A"): 1.0, ("A", "C"): 1.0}
    reach = compare({("A", "B"): (1.0, 1.1), ("B", "A"): (0.9, None)}, asked)
    assert reach.unreachable == (("A", "C"), ("B", "A"))
    with pytest.raises(UnreachableError, match=r"2 of 3 ordered pairs .*: A>C, B>A"):
        reach.require_all()


def test_reaching_everything_raises_nothing() -> None:
    reach = compare({("A", "B"): (0.3, 0.2)}, {("A", "B"): 0.0})
    assert reach.require_all() is reach
    assert reach.worst_error_ms == pytest.approx(0.2)
    assert reach.worst_error_pct is None


def test_nothing_asked_is_nothing_wrong() -> None:
    assert Reachability(()).require_all().worst_error_ms is None


def test_nine_cities_ask_for_72_round_trips_of_twice_the_path_delay() -> None:
    topology = load("nine_city")
    asked = asked_round_trips(least_delay_routes(topology))
    assert len(asked) == 72
    access = (
        2 * topology.access["NYC"].one_way_delay_ms + 2 * topology.access["LON"].one_way_delay_ms
    )
    assert asked["NYC", "LON"] == pytest.approx(2 * 45.60 + access)
    # BAR-NYC-LON-AMS-FRA-SIN, the longest of the network.
    longest = 2 * (55.32 + 45.60 + 1.45 + 2.11 + 53.02)
    assert asked["BAR", "SIN"] == pytest.approx(longest + access)
    assert max(asked.values()) == asked["BAR", "SIN"] == asked["SIN", "BAR"]


def test_probes_of_all_islands_stay_under_a_thousand_a_second() -> None:
    assert Probing.paced(9).interval_ms == 10.0  # 900 a second
    assert Probing.paced(200).interval_ms == 200.0


def test_the_time_limit_of_a_probe_exceeds_the_longest_round_trip() -> None:
    assert Probing.paced(9, longest_round_trip_ms=315).timeout_ms == 1500.0
    assert Probing.paced(9, longest_round_trip_ms=2000).timeout_ms == 4000.0


def test_a_missing_command_prefix_is_named() -> None:
    with pytest.raises(MachineError, match="/nonexistent/mnexec is missing"):
        measure({"A": ["/nonexistent/mnexec"]}, {"B": "127.0.0.1"}, {("A", "B"): 0.0})


def test_a_prefix_that_enters_nothing_is_not_taken_for_silence_of_the_network() -> None:
    prefix = ["sh", "-c", "echo no such process >&2; exit 1"]
    with pytest.raises(RunError, match="probing failed with 1: no such process"):
        measure({"A": prefix}, {"B": "127.0.0.1"}, {("A", "B"): 0.0})


@pytest.mark.root
def test_an_address_without_a_route_is_unreached(make_namespace: Callable[[], Any]) -> None:
    quick = Probing(1, 1, 10, 100)
    reach = measure({"A": make_namespace().prefix}, {"B": "10.9.9.9"}, {("A", "B"): 0.0}, quick)
    assert reach.unreachable == (("A", "B"),)


@pytest.mark.root
def test_real_namespaces_reach_one_another_and_the_missing_one_is_named(
    make_namespace: Callable[[], Any],
) -> None:
    a, b = make_namespace(), make_namespace()
    a.run(f"ip link add x type veth peer name x netns {b.pid}")
    for namespace, address in ((a, "10.9.0.1/24"), (b, "10.9.0.2/24")):
        namespace.run(f"ip addr add {address} dev x")
        namespace.run("ip link set x up")
    addresses = {"A": "10.9.0.1", "B": "10.9.0.2", "C": "10.9.0.3"}
    asked = {("A", "B"): 0.0, ("B", "A"): 0.0, ("A", "C"): 0.0}
    probing = Probing(probes=3, interval_ms=10, timeout_ms=400)
    reach = measure({"A": a.prefix, "B": b.prefix}, addresses, asked, probing)
    assert reach.unreachable == (("A", "C"),)
    reached = [row for row in reach.round_trips if row.reached]
    assert all(row.lost == 0 and 0 < (row.measured_min_ms or 0) < 100 for row in reached)
    assert [row.lost for row in reach.round_trips if not row.reached] == [3]
