"""What planned rounds put on directions and how long they cannot help taking, by hand."""

from __future__ import annotations

import pytest

from schedules.plan import PlannedRound
from testbed.experiment.model import Accelerators, PlanChoice, RoundChoice, Variant
from testbed.experiment.planning import schedule_of
from testbed.measure.forecast import header_share
from testbed.measure.planned import (
    exchange_payload,
    ring_payload,
    round_plan,
    total_expected,
)
from topologies.files import load
from topologies.model import Direction
from topologies.routing import least_delay_routes

THREE = load("three_city").scaled(0.01)
ROUTES = least_delay_routes(THREE)
MESSAGE_BYTES = 8_948_000  # a thousand full TCP segments at MTU 9000


def planned(kind: str, *cliques: tuple[str, ...]) -> PlannedRound:
    variant = Variant(
        capability="multicast+aggregation",
        collective=kind,  # type: ignore[arg-type]
        plan=PlanChoice(rounds=(RoundChoice(cliques),)),
    )
    return schedule_of(variant, Accelerators(), THREE, MESSAGE_BYTES).rounds[0]


def test_a_pair_exchanges_a_message_each_way_and_acknowledges_half_the_segments() -> None:
    plan = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES)
    for way in (Direction("AMS", "LON"), Direction("LON", "AMS"), Direction.up("AMS")):
        expected = plan.expected[way]
        assert expected.payload == MESSAGE_BYTES
        assert expected.headers == 1000 * 66
        assert expected.acknowledgements == 500 * 66
    assert plan.expected[Direction("AMS", "FRA")].on_wire == 0


def test_the_bound_counts_headers_and_delay() -> None:
    # 8.948 MB at 100 Mbit/s, 66 bytes of headers for each 8,948, and 1.45 ms to the other side.
    bound = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES).bound
    assert bound.transfer_s == pytest.approx(8.948e6 * 8 / 100e6 * (1 + 66 / 8948))
    assert bound.latency_s == pytest.approx(0.00145)


def test_a_sum_in_the_network_puts_one_message_on_every_access_port() -> None:
    clique = ("AMS", "FRA", "LON")
    plan = round_plan(planned("innetwork", clique), ROUTES, MESSAGE_BYTES)
    # Eight blocks of 1,024 bytes with an exponent each, behind 14 + 20 + 8 + 64 bytes of headers.
    share = (106 + 8) / 8192
    assert header_share("innetwork", 9000) == pytest.approx(share)
    for code in clique:
        for way in (Direction.up(code), Direction.down(code)):
            assert plan.expected[way].payload == MESSAGE_BYTES
            assert plan.expected[way].headers == pytest.approx(MESSAGE_BYTES * share)


def test_a_ring_of_some_carries_two_times_n_minus_one_messages() -> None:
    payload = ring_payload(("LON", "AMS", "FRA"), MESSAGE_BYTES)
    assert set(payload) == {("LON", "AMS"), ("AMS", "FRA"), ("FRA", "LON")}
    assert sum(payload.values()) == 2 * 2 * MESSAGE_BYTES


def test_an_exchange_is_every_ordered_pair() -> None:
    payload = exchange_payload(("A", "B", "C"), 10)
    assert len(payload) == 6
    assert set(payload.values()) == {10.0}


def test_rounds_add_up_as_often_as_they_ran() -> None:
    first = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES)
    second = round_plan(planned("exchange", ("AMS", "FRA")), ROUTES, MESSAGE_BYTES)
    total = total_expected([first, second], {0: 3, 1: 2})
    assert total[Direction("AMS", "LON")].payload == 3 * MESSAGE_BYTES
    assert total[Direction("AMS", "FRA")].payload == 2 * MESSAGE_BYTES
    assert total[Direction.up("AMS")].payload == 5 * MESSAGE_BYTES


def test_a_message_in_parts_takes_its_way_once_for_each() -> None:
    whole = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES)
    quarter = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES // 4)
    parts = round_plan(planned("exchange", ("AMS", "LON")), ROUTES, MESSAGE_BYTES, parts=4)
    assert parts.predicted_s == pytest.approx(4 * quarter.predicted_s)
    assert parts.predicted_s > whole.predicted_s
    assert parts.bound == whole.bound  # which no method can beat, however it cuts
    assert parts.expected == whole.expected
