"""What flows put on directions, by hand; a ring's latency against one played step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.network import Network
from schedules.ring import ring_cost
from testbed.measure.predict import (
    ExpectedBytes,
    Hop,
    expected_bytes,
    payload_estimate,
    ring_hops,
    traversals,
)
from topologies.files import load
from topologies.model import Access, Direction, DirectionSpec, Link, Site, Topology
from topologies.routing import Routes, least_delay_routes

MTU = 9000


def _line(*delays_ms: float) -> Routes:
    """Sites A, B, C, ... in a row, with these one-way delays between them."""
    codes = [chr(ord("A") + i) for i in range(len(delays_ms) + 1)]
    specs = [DirectionSpec(100, delay_ms) for delay_ms in delays_ms]
    links = [Link(a, b, s, s) for a, b, s in zip(codes, codes[1:], specs, strict=False)]
    sites = tuple(Site(code, code, 0, 0) for code in codes)
    access = {code: Access(100) for code in codes}
    return least_delay_routes(Topology("line", sites, tuple(links), access, "hand", "none"))


def equal_parts(hops: tuple[Hop, ...], message_bytes: int) -> dict[Hop, float]:
    """A ring whose members all send 2(N-1)/N of the message."""
    return {hop: 2 * (len(hops) - 1) * message_bytes / len(hops) for hop in hops}


def _way(text: str) -> Direction:
    return Direction.parse(text)


def test_a_ring_closes() -> None:
    assert ring_hops(("A", "B", "C")) == (("A", "B"), ("B", "C"), ("C", "A"))
    assert ring_hops(("A", "B")) == (("A", "B"), ("B", "A"))
    assert ring_hops(("A",)) == ()


def test_hops_load_every_direction_of_their_way() -> None:
    # A>B and B>C are neighbours; C>A goes back through B.
    load_of = expected_bytes(equal_parts(ring_hops("ABC"), 9_000_000), _line(1, 1), MTU)
    payload = {str(way): x.payload for way, x in load_of.items()}
    assert set(payload.values()) == {12_000_000}
    assert set(payload) == {
        "A.island>A", "A>A.island", "B.island>B", "B>B.island", "C.island>C", "C>C.island",
        "A>B", "B>A", "B>C", "C>B",
    }  # fmt: skip


def test_headers_are_one_of_66_bytes_a_segment_and_every_second_is_acknowledged() -> None:
    # At MTU 9000 a segment holds 8948 bytes: 20,000 take three segments and two acknowledgements.
    load_of = expected_bytes({("A", "B"): 20_000}, _line(1), MTU)
    assert load_of[_way("A>B")] == ExpectedBytes(payload=20_000, headers=3 * 66)
    assert load_of[_way("B>A")] == ExpectedBytes(acknowledgements=2 * 66)
    assert load_of[_way("A>B")].on_wire == 20_198


def test_overhead_at_ethernet_mtu_is_that_of_1448_bytes_a_segment() -> None:
    load_of = expected_bytes({("A", "B"): 1_448_000}, _line(1), mtu_bytes=1500)
    assert load_of[_way("A.island>A")].headers == 1000 * 66


def test_directions_off_the_way_are_there_with_nothing() -> None:
    load_of = expected_bytes({("A", "B"): 1000}, _line(1, 1), MTU)
    assert load_of[_way("B>C")] == load_of[_way("C.island>C")] == ExpectedBytes()


def test_several_rounds_are_a_multiple() -> None:
    assert ExpectedBytes(10, 2, 1).times(3) == ExpectedBytes(30, 6, 3)


def test_the_ring_through_all_nine_cities_puts_two_messages_less_two_ninths_on_each_port() -> None:
    routes = least_delay_routes(load("nine_city"))
    order = ("AMS", "FRA", "SIN", "TYO", "SEO", "LAX", "BAR", "NYC", "LON")
    load_of = expected_bytes(equal_parts(ring_hops(order), 9_000_000), routes, MTU)
    ports = {load_of[way].payload for way in load_of if way.is_access}
    assert ports == {16_000_000}
    # WAN links crossed by the hops: 1+1+1+1+2 (SEO-TYO-LAX) +2 (LAX-NYC-BAR) +1+1+1 = 11.
    crossed = traversals({way: x.payload for way, x in load_of.items()}, 9_000_000)
    assert crossed == pytest.approx(11 * 16 / 9)


def test_access_ports_are_no_traversal() -> None:
    payload = {_way("A.island>A"): 5e6, _way("A>B"): 3e6, _way("B>A"): 1e6}
    assert traversals(payload, 2_000_000) == 2.0


def test_payload_is_what_headers_leave() -> None:
    assert payload_estimate(20_198, 3) == 20_000
    assert payload_estimate(66 * 5, 5) == 0  # acknowledgements alone
    assert payload_estimate(60, 1) == 0  # a frame shorter than TCP's headers


def _played_through_ms(delays_ms: list[float]) -> float:
    """Play a ring: in each of 2(N-1) steps everyone sends, and goes on when it has received."""
    ready = [0.0] * len(delays_ms)
    for _ in range(2 * (len(delays_ms) - 1)):
        ready = [max(ready[i], ready[i - 1] + delays_ms[i - 1]) for i in range(len(delays_ms))]
    return max(ready)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_a_rings_latency_is_that_of_one_played_through(between_ms: list[int]) -> None:
    routes = _line(*map(float, between_ms))
    network = Network.of(routes.topology)
    delays_ms = [routes.one_way_delay_ms(a, b) for a, b in ring_hops(routes.topology.codes)]
    latency_ns = ring_cost(network, range(network.size)).latency_ns
    assert latency_ns / 1e6 == pytest.approx(_played_through_ms(delays_ms))
