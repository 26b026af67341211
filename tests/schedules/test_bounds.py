"""Bounds by hand, and cuts against every set of vertices there is."""

from __future__ import annotations

from itertools import chain, combinations

import networkx as nx
import pytest
from hypothesis import given, settings

from schedules.bounds import Bound, all_bounds
from schedules.cuts import FlowGraph, narrowest_cut, tightest_cut
from schedules.network import Network
from tests.schedules import oracles
from tests.schedules.small_networks import network, networks, problem, solved
from topologies.errors import UserError
from topologies.files import load
from topologies.model import DirectionSpec, Link, Topology

MESSAGE_BYTES = 125e6  # 1000 Mbit: 0.1 s at 10 Gbit/s


def bounds(topology: Topology, message_bytes: float = MESSAGE_BYTES) -> dict[str, Bound]:
    return {bound.name: bound for bound in all_bounds(topology, message_bytes)}


def line(rates_mbps: tuple[float, float], access_mbps: float = 1000.0) -> Topology:
    """A-B-C; the first link is as slow as told in each direction, the second never in the way."""
    slow = (DirectionSpec(rate, 1.0) for rate in rates_mbps)
    links = [Link("A", "B", *slow), Link("B", "C", *[DirectionSpec(10_000, 2.0)] * 2)]
    return network(("A", "B", "C"), links, {c: DirectionSpec(access_mbps, 0.0) for c in "ABC"})


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("unicast all-reduce, access ports", 16 / 9),
        ("unicast exchange, access ports", 8),
        ("multicast, access ports", 8),
        ("aggregation, access ports", 8),
        ("multicast and aggregation, access ports", 1),
        ("unicast all-gather, cuts", 8),
        ("all-reduce by any means, cuts", 1),
    ],
)
def test_nine_cities_at_one_rate(name: str, units: float) -> None:
    bound = bounds(load("nine_city"))[name]
    assert bound.units == pytest.approx(units)
    assert bound.seconds == pytest.approx(units * 0.1)


def test_the_longest_path_of_the_nine_cities_is_from_buenos_aires_to_singapore() -> None:
    # BAR-NYC 55.32, NYC-LON 45.60, LON-AMS 1.45, AMS-FRA 2.11, FRA-SIN 53.02 ms
    bound = bounds(load("nine_city"))["longest one-way path"]
    assert bound.seconds == pytest.approx(0.1575)
    assert set(bound.limited_by.split(">")) == {"BAR", "SIN"}


def test_a_tree_rooted_in_new_york_is_shallowest() -> None:
    # to SIN: NYC-LON 45.60, LON-AMS 1.45, AMS-FRA 2.11, FRA-SIN 53.02 ms
    bound = bounds(load("nine_city"))["shared tree, radius"]
    assert bound.seconds == pytest.approx(0.10218)
    assert bound.limited_by == "NYC"


def test_a_narrow_link_out_of_one_island_limits_what_others_hear_of_it() -> None:
    # 1000 Mbit over 40 Mbit/s; the other way two messages take 20 s over 100 Mbit/s.
    bound = bounds(line((40.0, 100.0)))["unicast all-gather, cuts"]
    assert bound.seconds == pytest.approx(25.0)
    assert bound.limited_by == "out of {A}"


def test_a_narrow_link_into_one_island_limits_what_it_hears_of_all_others() -> None:
    bound = bounds(line((60.0, 100.0)))["unicast all-gather, cuts"]
    assert bound.seconds == pytest.approx(20.0)  # two messages over 100 Mbit/s
    assert bound.limited_by == "into {A}"


def test_one_sum_each_way_crosses_the_narrowest_link() -> None:
    bound = bounds(line((60.0, 100.0)))["all-reduce by any means, cuts"]
    assert bound.seconds == pytest.approx(1000 / 60)


def test_a_slow_access_port_has_its_own_bound() -> None:
    topology = line((10_000.0, 10_000.0), access_mbps=500.0)
    found = bounds(topology)
    assert found["multicast and aggregation, access ports"].seconds == pytest.approx(2.0)
    assert found["unicast all-reduce, access ports"].seconds == pytest.approx(2 * 2 / 3 * 2.0)
    assert found["unicast all-gather, cuts"].seconds == pytest.approx(4.0)


def test_no_message_has_no_bounds() -> None:
    with pytest.raises(UserError, match="message_bytes"):
        all_bounds(load("nine_city"), 0)


def test_every_bound_names_its_source() -> None:
    assert all(bound.source and bound.limited_by for bound in all_bounds(load("b4"), 1e6))


# --- against every set ----------------------------------------------------------------------------


def every_cut(topology: Topology) -> list[tuple[int, float]]:
    """Return islands inside and rate out of every set of switches and islands but trivial ones."""
    known = oracles.rates(topology)
    vertices = [*topology.codes, *map(oracles.island, topology.codes)]
    found = []
    for inside in map(set, chain(*(combinations(vertices, n) for n in range(1, len(vertices))))):
        islands = sum(oracles.island(code) in inside for code in topology.codes)
        rate = sum(r for (a, b), r in known.items() if a in inside and b not in inside)
        if 0 < islands < len(topology.codes):
            found.append((islands, rate))
    return found


@settings(max_examples=30, deadline=None, derandomize=True)
@given(networks(3, 5))
def test_cuts_are_the_tightest_of_all_sets(topology: Topology) -> None:
    graph = FlowGraph.of(Network.of(topology))
    cuts = every_cut(topology)
    tightest, narrowest = tightest_cut(graph), narrowest_cut(graph)
    assert len(tightest.islands) / tightest.rate_mbps == pytest.approx(max(n / r for n, r in cuts))
    assert narrowest.rate_mbps == pytest.approx(min(rate for _, rate in cuts))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(networks(4, 6))
def test_the_narrowest_cut_is_that_of_networkx_flows(topology: Topology) -> None:
    graph = nx.DiGraph()
    for (a, b), rate in oracles.rates(topology).items():
        graph.add_edge(a, b, capacity=rate)
    ends = [oracles.island(code) for code in topology.codes]
    flows = [nx.maximum_flow_value(graph, a, b) for a in ends for b in ends if a != b]
    assert narrowest_cut(FlowGraph.of(Network.of(topology))).rate_mbps == pytest.approx(min(flows))


# --- no plan beats them ---------------------------------------------------------------------------


@settings(max_examples=10, deadline=None, derandomize=True)
@given(networks(4, 6))
def test_no_cycle_to_the_mean_is_shorter_than_cuts_and_the_longest_path_allow(
    topology: Topology,
) -> None:
    for latency in (False, True):
        wanted = problem(topology, "multicast+aggregation", "mean", latency=latency)
        found = bounds(topology, wanted.message_bytes)
        least = max(
            found["all-reduce by any means, cuts"].seconds,
            found["multicast and aggregation, access ports"].seconds,
        )
        value = solved(wanted).value
        assert value >= least * (1 - 1e-9)
        if latency:
            assert value >= least + found["longest one-way path"].seconds - 1e-9


@settings(max_examples=10, deadline=None, derandomize=True)
@given(networks(4, 6))
def test_no_rotation_of_copies_is_fairer_than_an_all_gather_at_the_cut_bound(
    topology: Topology,
) -> None:
    for capability, collective in (("unicast", "exchange"), ("multicast", "multicast")):
        wanted = problem(topology, capability, "fair", collective)
        least = bounds(topology, wanted.message_bytes)["unicast all-gather, cuts"].seconds
        assert solved(wanted).value <= (1 + 1e-9) / least


@settings(max_examples=10, deadline=None, derandomize=True)
@given(networks(4, 6))
def test_no_ring_of_everyone_beats_the_access_ports(topology: Topology) -> None:
    wanted = problem(topology, "unicast", "mean", "ring")
    found = bounds(topology, wanted.message_bytes)
    value = solved(wanted).value
    assert value >= found["all-reduce by any means, cuts"].seconds * (1 - 1e-9)
    whole = [one for one in solved(wanted).rounds if len(one.works) == 1]
    for one in whole:
        if len(one.works[0].members) == len(topology.codes):
            assert one.seconds >= found["unicast all-reduce, access ports"].seconds * (1 - 1e-9)
