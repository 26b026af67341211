"""The best ring: exact values by hand, a plain enumeration as oracle, and the user's mistakes."""

from __future__ import annotations

from itertools import pairwise, permutations

import networkx as nx
import pytest

from schedules.network import Network
from schedules.ring import best_ring_order, ring_cost, ring_share
from topologies.errors import UserError
from topologies.files import load
from topologies.model import Topology


@pytest.fixture(scope="module")
def nine_city() -> Topology:
    return load("nine_city")


def crossings_by_plain_walk(topology: Topology, order: tuple[str, ...]) -> dict[tuple, int]:
    """Count the crossings of every WAN direction with networkx alone."""
    graph = nx.DiGraph()
    for way, spec in topology.wan_directions().items():
        graph.add_edge(way.source, way.target, weight=spec.one_way_delay_ms)
    counts: dict[tuple, int] = {}
    for a, b in zip(order, [*order[1:], order[0]], strict=True):
        path = nx.dijkstra_path(graph, a, b)
        for hop in pairwise(path):
            counts[hop] = counts.get(hop, 0) + 1
    return counts


def test_nine_city_ring_crosses_no_direction_twice(nine_city: Topology) -> None:
    counts = crossings_by_plain_walk(nine_city, best_ring_order(nine_city))
    assert max(counts.values()) == 1


def test_nine_city_ring_sends_sixteen_ninths_of_a_message_over_each_hop() -> None:
    assert ring_share(9) == pytest.approx(16 / 9)


def test_nine_city_ring_crosses_eleven_links(nine_city: Topology) -> None:
    # Nine hops, and one link more for each of the leaves SEO and BAR: whoever sends to a leaf and
    # whoever receives from it are different members, and only one of them can be its neighbour.
    counts = crossings_by_plain_walk(nine_city, best_ring_order(nine_city))
    assert sum(counts.values()) == 11


def test_no_order_of_six_cities_beats_the_chosen_one(nine_city: Topology) -> None:
    network = Network.of(nine_city)
    members = ("AMS", "BAR", "LON", "SEO", "SIN", "TYO")
    numbers = [network.codes.index(code) for code in members]
    every = (ring_cost(network, (numbers[0], *rest)) for rest in permutations(numbers[1:]))
    chosen = [network.codes.index(code) for code in best_ring_order(nine_city, members)]
    assert ring_cost(network, chosen) == min(every)


def test_two_members_make_the_only_ring(nine_city: Topology) -> None:
    assert best_ring_order(nine_city, ("SEO", "BAR")) == ("BAR", "SEO")


def test_latency_of_three_in_a_row_is_four_steps(nine_city: Topology) -> None:
    # AMS-FRA 2.11, FRA-LON 2.11 + 1.45 by way of AMS, LON-AMS 1.45 ms: 4 of 6 hops in a row are
    # twice around (14.24) without the cheapest two in a row (1.45 + 2.11).
    network = Network.of(nine_city)
    order = [network.codes.index(code) for code in ("AMS", "FRA", "LON")]
    assert ring_cost(network, order).latency_ns == 10_680_000


def test_an_unknown_member_is_named(nine_city: Topology) -> None:
    with pytest.raises(UserError, match="PAR"):
        best_ring_order(nine_city, ("AMS", "PAR"))


def test_one_member_is_no_ring(nine_city: Topology) -> None:
    with pytest.raises(UserError, match="two members"):
        best_ring_order(nine_city, ("AMS",))
