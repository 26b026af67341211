"""Forecasts by hand: windows that double, packets counted, gloo's round trips; and what holds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.capabilities import COLLECTIVES, RING, Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.plan import PlannedRound
from schedules.problem import Problem
from schedules.ring import best_ring_order
from testbed.emulation.settings import TcpSettings
from testbed.experiment.rounds import best_round, ring_of
from testbed.measure.forecast import (
    Flow,
    exchange_clique,
    exchange_pace_mbps,
    flow_s,
    forecast,
    packet_payload_bytes,
    packet_wire_bytes,
    ring_cliques,
    sending_s,
    tcp_wire_bytes,
    tree_clique,
    widest_window_segments,
)
from topologies.files import load
from topologies.model import Access, DirectionSpec, Link, Site, Topology
from topologies.routing import Routes, least_delay_routes

ALL = Capabilities.parse("multicast+aggregation")
FRAME_BITS = 8000.0
# A frame a millisecond, round trip 40 ms: 40 frames under way fill the way.
FLOW = Flow(pace_bps=8e6, delay_s=0.02, round_trip_s=0.04, rise_s=0.001, frame_bits=FRAME_BITS)


def line(*delays_ms: float, rate_mbps: float = 10.0) -> Routes:
    """Sites A, B, C, ... in a row, with these one-way delays between them."""
    codes = [chr(ord("A") + i) for i in range(len(delays_ms) + 1)]
    specs = [DirectionSpec(rate_mbps, delay_ms) for delay_ms in delays_ms]
    links = [Link(a, b, s, s) for a, b, s in zip(codes, codes[1:], specs, strict=False)]
    sites = tuple(Site(code, code, 0, 0) for code in codes)
    access = {code: Access(rate_mbps) for code in codes}
    return least_delay_routes(Topology("line", sites, tuple(links), access, "hand", "none"))


def everyone(routes: Routes, kind: str, message_bytes: float) -> PlannedRound:
    """One clique of all islands."""
    network, limits = Network.of(routes.topology), Constraints()
    problem = Problem(network, ALL, "mean", kind, message_bytes, limits, True)
    if kind == RING:
        return ring_of(problem, best_ring_order(routes.topology))
    return best_round(problem, [routes.topology.codes], kind)


# --- a flow -------------------------------------------------------------------------------------


def test_a_window_of_ten_doubles_each_round_trip_until_it_fills_the_way() -> None:
    # 10 and 20 frames and a wait each, then 40 fill the way: 70 frames are left, a ms each.
    found, window = sending_s(FLOW, 100 * FRAME_BITS, 10 * FRAME_BITS, inf)
    assert found == pytest.approx(2 * 0.04 + 0.070)
    assert window == 40 * FRAME_BITS


def test_what_fits_in_the_windows_so_far_waits_for_no_more() -> None:
    # 10 frames, a wait, and 15 of the 20 that may go.
    found, window = sending_s(FLOW, 25 * FRAME_BITS, 10 * FRAME_BITS, inf)
    assert found == pytest.approx(0.04 + 0.015)
    assert window == 20 * FRAME_BITS


def test_a_window_that_may_not_grow_waits_every_round_trip() -> None:
    # Five windows of 20 frames: four waits and the last one's 20 ms.
    found, _ = sending_s(FLOW, 100 * FRAME_BITS, 20 * FRAME_BITS, 20 * FRAME_BITS)
    assert found == pytest.approx(4 * 0.04 + 0.020)


def test_windows_that_are_kept_over_a_pause_let_later_rounds_run_at_the_pace() -> None:
    kept = TcpSettings(slow_start_after_idle=False)
    assert list(flow_s(FLOW, 100 * FRAME_BITS, kept)) == pytest.approx([0.150 + 0.02, 0.100 + 0.02])


def test_windows_that_fall_back_cost_every_round_the_same() -> None:
    first_s, later_s = flow_s(FLOW, 100 * FRAME_BITS, TcpSettings(slow_start_after_idle=True))
    assert first_s == later_s == pytest.approx(0.170)


def test_short_messages_open_the_window_over_several_rounds() -> None:
    # 40 frames: 10 and 20 and 10 at first, which leaves a window of 40: then all at once.
    found = flow_s(FLOW, 40 * FRAME_BITS, TcpSettings())
    assert list(found) == pytest.approx([0.110, 0.060])


@pytest.mark.parametrize(("rise_ms", "expected"), [(5.0, inf), (5.1, 36.0)])
def test_long_frames_end_slow_start_where_they_look_like_a_queue(
    rise_ms: float, expected: float
) -> None:
    # An eighth of 40 ms; 10 frames become 20, and 16 more are acknowledged before it ends.
    flow = Flow(8e6, 0.02, 0.040 + rise_ms / 1e3, rise_ms / 1e3, FRAME_BITS)
    assert widest_window_segments(flow, 10) == expected


def test_a_stream_has_a_header_for_every_segment() -> None:
    # 8948 bytes fit; 14 + 20 + 20 + 12 in front of each of three.
    assert tcp_wire_bytes(2 * 8948 + 1, 9000) == 2 * 8948 + 1 + 3 * 66


# --- exchange -----------------------------------------------------------------------------------


def test_two_islands_exchange_at_the_pace_and_whole_packets_cross_three_links() -> None:
    routes = line(5.0)
    message = 10 * 8948 - 64  # with the frame's head ten full segments
    found = exchange_clique(("A", "B"), routes, message, 9.7, TcpSettings())
    frame_ms = 8 * 9014 / 1e4
    expected_ms = 10 * 8 * 9014 / 9.7e3 + 5.0 + 2 * frame_ms
    assert found.predicted_s == found.first_s == pytest.approx(expected_ms / 1e3)


def test_flows_share_the_busiest_direction() -> None:
    # Four islands in a row: two on each side, so that four messages cross the middle each way.
    routes = line(1.0, 1.0, 1.0)
    assert exchange_pace_mbps(everyone(routes, "exchange", 1e6), routes.topology) == pytest.approx(
        0.97 * 10.0 / 4
    )


# --- ring ---------------------------------------------------------------------------------------


def test_each_of_a_rings_steps_costs_a_round_trip() -> None:
    # A message of no size to speak of: three islands, 10 ms from each to the next, 2(N-1) = 4
    # steps; gloo asks for each and is sent it.
    way = DirectionSpec(10_000.0, 10.0)
    sites = tuple(Site(code, code, 0, 0) for code in "ABC")
    links = tuple(Link(a, b, way, way) for a, b in ("AB", "BC", "AC"))
    access = {code: Access(10_000.0) for code in "ABC"}
    routes = least_delay_routes(Topology("triangle", sites, links, access, "hand", "none"))
    (found,) = ring_cliques([("A", "B", "C")], routes, 1200, TcpSettings())
    assert found.predicted_s == pytest.approx(4 * 0.020, rel=0.002)


def test_the_longest_hop_sets_the_pace_of_a_ring() -> None:
    # A-B-C in a row: C sends back to A over both links, 30 ms, and each of four steps waits for
    # two such delays, where the bound would go around: 4/3 of 60 ms.
    routes = line(10.0, 20.0, rate_mbps=10_000.0)
    (found,) = ring_cliques([("A", "B", "C")], routes, 1200, TcpSettings())
    assert 0.120 < found.predicted_s <= 4 * 0.060 * 1.01


def test_rings_at_the_same_time_on_the_same_link_slow_each_other_down() -> None:
    routes = line(1.0, 1.0, 1.0)
    alone = ring_cliques([("A", "C")], routes, 400_000, TcpSettings())
    both = ring_cliques([("A", "C"), ("B", "D")], routes, 400_000, TcpSettings())
    assert both[0].predicted_s > 1.3 * alone[0].predicted_s


def test_a_ring_of_a_large_message_takes_its_transfer() -> None:
    routes = line(1.0, rate_mbps=100.0)
    (found,) = ring_cliques([("A", "B")], routes, 40_000_000, TcpSettings())
    transfer_s = 8 * 40_000_000 * 9014 / 8948 / 100e6  # 2(N-1)/N = 1 message
    assert transfer_s < found.predicted_s < 1.03 * transfer_s


# --- kinds that work with the network -----------------------------------------------------------


def test_packets_carry_whole_words_or_whole_blocks() -> None:
    # 9000 - 92 = 8908 bytes behind the headers: 1113 words of 8, or 8 blocks and their exponents.
    assert packet_payload_bytes("multicast", 9000) == 8904
    assert packet_payload_bytes("innetwork", 9000) == 8 * 1024
    assert packet_wire_bytes("multicast", 9000) == 14 + 92 + 8904
    assert packet_wire_bytes("innetwork", 9000) == 14 + 92 + 8 + 8192


def test_multicast_of_ten_packets_and_a_guard() -> None:
    routes = line(5.0)
    found = tree_clique(everyone(routes, "multicast", 89_040), 0, routes.topology, 89_040)
    packets_ms = (10 * 9010 + 170) * 8 / 9.7e3
    two_more_links_ms = 2 * 9010 * 8 / 1e4
    assert found.predicted_s == pytest.approx((packets_ms + 5.0 + two_more_links_ms) / 1e3)
    assert found.first_s == found.predicted_s


def test_a_first_sum_asks_for_exponents_before_it_sends() -> None:
    routes = line(5.0)
    planned = everyone(routes, "innetwork", 81_920)
    found = tree_clique(planned, 0, routes.topology, 81_920)
    # One root: a packet goes up the link, the sum comes back and down an access port.
    way_ms = 2 * 5.0 + 3 * 8306 * 8 / 1e4
    asking_ms = 80 * 8 / 9.7e3 + way_ms
    assert found.first_s - found.predicted_s == pytest.approx(asking_ms / 1e3)


# --- any round ----------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(COLLECTIVES),
    message_bytes=st.integers(1, 500_000).map(lambda quarter: 4 * quarter),
    rate_mbps=st.sampled_from([5.0, 20.0, 100.0]),
    delays_ms=st.lists(st.floats(0.1, 80.0), min_size=2, max_size=3),
)
def test_no_round_is_predicted_below_its_cost_and_more_bytes_take_longer(
    kind: str, message_bytes: int, rate_mbps: float, delays_ms: list[float]
) -> None:
    routes = line(*delays_ms, rate_mbps=rate_mbps)
    planned = everyone(routes, kind, message_bytes)
    found = forecast(planned, routes, message_bytes)
    cost_s = message_bytes * 8 * planned.predicted.transfer_units / (rate_mbps * 1e6)
    assert found.predicted_s >= cost_s + planned.predicted.latency_s - 1e-9
    assert found.first_s >= found.predicted_s - 1e-9
    assert forecast(planned, routes, 2 * message_bytes).predicted_s > found.predicted_s


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_forecast_says_what_it_counts_and_its_parts_add_up(kind: str) -> None:
    routes = least_delay_routes(load("nine_city").scaled(0.005))
    found = forecast(everyone(routes, kind, 2e6), routes, 2_000_000)
    assert found.predicted_s == pytest.approx(found.transfer_s + found.latency_s + found.ramp_s)
    assert 0 < found.processing_s < found.ramp_s
    assert found.statement


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_an_island_that_is_alone_in_its_clique_takes_no_time(kind: str) -> None:
    routes = line(1.0, 1.0)
    network, limits = Network.of(routes.topology), Constraints()
    problem = Problem(network, ALL, "mean", kind, 1e6, limits, True)
    planned = best_round(problem, [("A", "B"), ("C",)], kind)
    times = {one.sites: one.predicted_s for one in forecast(planned, routes, 1_000_000).cliques}
    assert times.pop(("C",), 0.0) == 0.0
    assert [len(sites) for sites, seconds in times.items() if seconds > 0.5] == [2]
