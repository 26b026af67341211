"""The bundled networks against their sources."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from topologies.files import available, load
from topologies.formats import to_networkx
from topologies.geography import great_circle_km
from topologies.model import Direction, Topology

NINE_CITY_DELAYS_MS = {
    ("SEO", "TYO"): 4.50,
    ("TYO", "LAX"): 57.62,
    ("TYO", "SIN"): 44.95,
    ("SIN", "LAX"): 121.56,
    ("SIN", "FRA"): 53.02,
    ("LAX", "NYC"): 26.02,
    ("NYC", "BAR"): 55.32,
    ("NYC", "LON"): 45.60,
    ("LON", "AMS"): 1.45,
    ("LON", "FRA"): 4.96,
    ("AMS", "FRA"): 2.11,
}
NETSTORM_LINKS = "12 13 23 25 34 45 46 57 67 68 69 78 89"
B4_LINKS = "0-1 0-2 1-4 2-3 2-5 3-4 3-6 3-7 4-5 5-6 5-7 6-7 6-10 7-9 8-9 8-10 9-10 9-11 10-11"
B4_CODES = ["SIN", "CHW", "TYO", "MAY", "DLS", "CBF", "LEN", "BER", "EEM", "GHI", "DUB", "HAM"]


def straight_km(topology: Topology, a: str, b: str) -> float:
    one, other = topology.site(a), topology.site(b)
    return great_circle_km(one.latitude, one.longitude, other.latitude, other.longitude)


def test_the_bundled_names() -> None:
    assert available() == ("abilene", "b4", "netstorm_nine", "nine_city", "three_city")


@pytest.mark.parametrize("name", available())
def test_a_bundled_file_bears_its_own_name_source_and_licence(name: str) -> None:
    topology = load(name)
    assert topology.name == name
    assert len(topology.source) > 60
    assert "Apache-2.0" in topology.licence


@pytest.mark.parametrize("name", available())
def test_no_bundled_delay_is_shorter_than_light_in_vacuum_allows(name: str) -> None:
    topology = load(name)
    for link in topology.links:
        least_ms = straight_km(topology, link.a, link.b) / 299.792458
        assert link.forward.one_way_delay_ms > least_ms, link


def test_nine_city_is_the_published_model() -> None:
    nine = load("nine_city")
    wan = nine.wan_directions()
    for (a, b), delay_ms in NINE_CITY_DELAYS_MS.items():
        for way in (Direction(a, b), Direction(b, a)):
            assert (wan[way].rate_mbps, wan[way].one_way_delay_ms) == (10_000, delay_ms)
    assert len(wan) == 2 * len(NINE_CITY_DELAYS_MS)
    assert {spec.rate_mbps for spec in nine.access.values()} == {10_000}
    assert nine.mtu_bytes == 9000
    assert [code for code in nine.codes if len(nine.neighbours(code)) == 1] == ["BAR", "SEO"]


def test_three_city_is_the_european_part_of_nine_city() -> None:
    nine, three = load("nine_city"), load("three_city")
    assert set(three.sites) < set(nine.sites)
    assert set(three.links) == {x for x in nine.links if {x.a, x.b} <= set(three.codes)}


def test_abilene_has_11_cities_and_14_links_with_delay_from_distance() -> None:
    abilene = load("abilene")
    assert (len(abilene.sites), len(abilene.links)) == (11, 14)
    wan = abilene.wan_directions()
    assert wan[Direction("NY", "CHI")].one_way_delay_ms == 5.618431  # 1146.16 / 204
    assert wan[Direction("HOU", "LA")].one_way_delay_ms == 10.820490  # 2207.38 / 204
    total_km = 204 * sum(link.forward.one_way_delay_ms for link in abilene.links)
    assert total_km == pytest.approx(14_086.34, abs=0.01)


def test_netstorm_has_the_published_links() -> None:
    links = {link.a[1:] + link.b[1:] for link in load("netstorm_nine").links}
    assert links == set(NETSTORM_LINKS.split())


def test_netstorm_rates_are_the_stated_draw() -> None:
    draw = random.Random(240411352)
    links = load("netstorm_nine").links
    assert [link.forward.rate_mbps for link in links] == [draw.randint(20, 155) for _ in links]
    assert all(link.forward == link.backward for link in links)


def test_b4_has_the_published_links() -> None:
    pairs = [pair.split("-") for pair in B4_LINKS.split()]
    named = {tuple(sorted((B4_CODES[int(a)], B4_CODES[int(b)]))) for a, b in pairs}
    assert {(link.a, link.b) for link in load("b4").links} == named


@pytest.mark.parametrize("name", ["b4", "netstorm_nine"])
def test_delays_without_a_source_are_great_circles_at_204_km_per_ms(name: str) -> None:
    topology = load(name)
    for link in topology.links:
        delay_ms = straight_km(topology, link.a, link.b) / 204
        assert link.forward.one_way_delay_ms == pytest.approx(delay_ms, abs=0.5 / 204 + 1e-6)


@pytest.mark.parametrize(("name", "cuts"), [("nine_city", 2), ("abilene", 0), ("b4", 0)])
def test_the_bundled_shapes_have_the_expected_bridges(name: str, cuts: int) -> None:
    assert sum(1 for _ in nx.bridges(to_networkx(load(name)).to_undirected())) == cuts


def test_great_circle_distances_are_those_of_known_pairs() -> None:
    assert great_circle_km(0, 0, 0, 180) == pytest.approx(20_015.1, abs=0.1)  # half of 40,030.2
    assert great_circle_km(90, 0, -90, 77) == pytest.approx(20_015.1, abs=0.1)
    # London Heathrow to New York JFK is commonly given as 5,540 km.
    assert great_circle_km(51.47, -0.4543, 40.6413, -73.7781) == pytest.approx(5540, rel=0.003)
