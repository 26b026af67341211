from __future__ import annotations

from dataclasses import replace
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topologies.strategies import topologies, whole_delays
from topologies.files import load
from topologies.model import Access, Direction, DirectionSpec, Link, Site, Topology
from topologies.routing import NoRouteError, least_delay_routes, nanoseconds


def network(*links: tuple[str, str, float]) -> Topology:
    codes = sorted({code for a, b, _ in links for code in (a, b)})
    return Topology(
        "test",
        tuple(Site(code, code, 0, 0) for code in codes),
        tuple(Link(a, b, DirectionSpec(100, d), DirectionSpec(100, d)) for a, b, d in links),
        {code: Access(1000) for code in codes},
        "a test",
        "CC0-1.0",
    )


def test_nine_city_paths_follow_least_delay() -> None:
    routes = least_delay_routes(load("nine_city"))
    assert routes.path("SEO", "BAR") == ("SEO", "TYO", "LAX", "NYC", "BAR")
    # LON-AMS-FRA takes 1.45 + 2.11 = 3.56 ms, the direct link 4.96 ms.
    assert routes.path("LON", "FRA") == ("LON", "AMS", "FRA")
    # By Tokyo, 44.95 + 57.62 = 102.57 ms, against 121.56 ms over the direct link.
    assert routes.path("SIN", "LAX") == ("SIN", "TYO", "LAX")


@pytest.mark.parametrize(
    ("a", "b", "delay_ms"),
    [
        ("SEO", "BAR", 143.46),  # 4.50 + 57.62 + 26.02 + 55.32
        ("SIN", "NYC", 102.18),  # 53.02 + 2.11 + 1.45 + 45.60
        ("SIN", "BAR", 157.50),  # 102.18 + 55.32
        ("SEO", "TYO", 4.50),
    ],
)
def test_nine_city_delays_are_the_sums_of_the_links(a: str, b: str, delay_ms: float) -> None:
    assert least_delay_routes(load("nine_city")).one_way_delay_ms(a, b) == delay_ms


def test_new_york_is_the_middle_of_nine_city() -> None:
    """The published arithmetic: the best root is NYC, its radius 102.18 ms."""
    nine = load("nine_city")
    routes = least_delay_routes(nine)
    radius = {a: max(routes.one_way_delay_ms(a, b) for b in nine.codes) for a in nine.codes}
    assert min(radius, key=lambda code: (radius[code], code)) == "NYC"
    assert radius["NYC"] == 102.18


def test_full_exchange_loads_the_busiest_nine_city_direction_13_times() -> None:
    """The published arithmetic: unicast exchange loads one direction 13 M and crosses 178 links."""
    nine = load("nine_city")
    routes = least_delay_routes(nine)
    load_of: dict[Direction, int] = {}
    for a in nine.codes:
        for b in nine.codes:
            for way in routes.directions(a, b):
                load_of[way] = load_of.get(way, 0) + 1
    assert max(load_of.values()) == 13
    assert sum(count for way, count in load_of.items() if not way.is_access) == 178


def test_decimal_delays_that_tie_are_a_tie() -> None:
    """As floats 0.1 + 0.2 is more than 0.3, and the way over A would lose to the direct one."""
    routes = least_delay_routes(network(("S", "A", 0.1), ("A", "T", 0.2), ("S", "T", 0.3)))
    assert routes.path("S", "T") == ("S", "A", "T")


def test_a_tie_goes_to_the_smaller_codes_not_to_fewer_hops() -> None:
    links = (("S", "Z", 2.0), ("Z", "T", 2.0), ("S", "B", 1.0), ("B", "C", 1.0), ("C", "T", 2.0))
    assert least_delay_routes(network(*links)).path("S", "T") == ("S", "B", "C", "T")


def test_links_without_delay_do_not_loop() -> None:
    links = (("A", "B", 0.0), ("B", "C", 0.0), ("A", "C", 0.0), ("C", "D", 0.0))
    routes = least_delay_routes(network(*links))
    assert routes.path("B", "D") == ("B", "C", "D")
    assert routes.path("A", "D") == ("A", "C", "D")


def test_access_delays_count_once_at_each_end() -> None:
    two = network(("A", "B", 5.0))
    slow = replace(two, access={"A": Access(1000, 0.25), "B": Access(1000, 1.0)})
    assert least_delay_routes(slow).one_way_delay_ms("A", "B") == 6.25


def test_an_island_reaches_itself_without_the_network() -> None:
    routes = least_delay_routes(network(("A", "B", 5.0)))
    assert routes.path("A", "A") == ("A",)
    assert routes.directions("A", "A") == ()
    assert routes.one_way_delay_ms("A", "A") == 0.0


def test_directions_of_a_route_start_and_end_at_islands() -> None:
    ways = least_delay_routes(load("nine_city")).directions("LON", "FRA")
    assert [str(way) for way in ways] == [
        "LON.island>LON",
        "LON>AMS",
        "AMS>FRA",
        "FRA>FRA.island",
    ]


def test_a_route_goes_round_a_direction_that_is_out() -> None:
    routes = least_delay_routes(load("nine_city"), without=[Direction("LON", "AMS")])
    assert routes.path("LON", "AMS") == ("LON", "FRA", "AMS")
    assert routes.path("AMS", "LON") == ("AMS", "LON")


def test_no_route_is_an_error_that_names_both_sites() -> None:
    routes = least_delay_routes(load("nine_city"), without=[Direction("TYO", "SEO")])
    with pytest.raises(NoRouteError, match="no route from LON to SEO"):
        routes.path("LON", "SEO")


def test_an_unknown_site_has_no_route() -> None:
    with pytest.raises(NoRouteError, match="no route from LON to XXX"):
        least_delay_routes(load("nine_city")).path("LON", "XXX")


def reference_path(topology: Topology, a: str, b: str) -> list[str]:
    """The least (delay, codes) of all shortest paths, listed by networkx."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for way, spec in topology.wan_directions().items():
        graph.add_edge(way.source, way.target, ns=max(1, nanoseconds(spec.one_way_delay_ms)))
    return min(nx.all_shortest_paths(graph, a, b, weight="ns"))


@settings(max_examples=60, deadline=None)
@given(topologies(whole_delays(3)))
def test_every_path_is_the_least_of_all_shortest_paths(topology: Topology) -> None:
    routes = least_delay_routes(topology)
    for a in topology.codes:
        for b in topology.codes:
            if a != b:
                assert list(routes.path(a, b)) == reference_path(topology, a, b)


@settings(max_examples=60, deadline=None)
@given(topologies(whole_delays(3)))
def test_hop_by_hop_forwarding_follows_the_whole_path(topology: Topology) -> None:
    routes = least_delay_routes(topology)
    for a in topology.codes:
        for b in topology.codes:
            path = routes.path(a, b)
            assert all(routes.path(at, b) == path[i:] for i, at in enumerate(path))


@settings(max_examples=60, deadline=None)
@given(topologies(whole_delays(3)), st.randoms(use_true_random=False))
def test_the_order_of_a_file_changes_no_route(topology: Topology, random: Random) -> None:
    sites, links = list(topology.sites), list(topology.links)
    random.shuffle(sites)
    random.shuffle(links)
    turned = [Link(x.b, x.a, x.backward, x.forward) for x in links]
    shuffled = replace(topology, sites=tuple(sites), links=tuple(turned))
    assert least_delay_routes(shuffled).next_hops == least_delay_routes(topology).next_hops


@settings(max_examples=60, deadline=None)
@given(topologies(whole_delays(3)))
def test_relabelling_in_the_same_order_relabels_the_routes(topology: Topology) -> None:
    new = {code: f"N{index:03}" for index, code in enumerate(topology.codes)}
    relabelled = replace(
        topology,
        sites=tuple(replace(site, code=new[site.code]) for site in topology.sites),
        links=tuple(replace(link, a=new[link.a], b=new[link.b]) for link in topology.links),
        access={new[code]: spec for code, spec in topology.access.items()},
    )
    old_hops = least_delay_routes(topology).next_hops
    assert least_delay_routes(relabelled).next_hops == {
        (new[at], new[to]): new[hop] for (at, to), hop in old_hops.items()
    }
