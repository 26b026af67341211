from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from topologies.files import load
from topologies.model import Access, Direction, DirectionSpec, Link, Site, Topology

THERE = DirectionSpec(100, 5)
BACK = DirectionSpec(50, 7)
SITES = (Site("B", "Berne", 46.95, 7.45), Site("A", "Aarau", 47.39, 8.04))
ACCESS = {"A": Access(1000), "B": Access(500, 0.1)}


def network(**changes: object) -> Topology:
    whole = Topology("two", SITES, (Link("B", "A", THERE, BACK),), ACCESS, "a test", "CC0-1.0")
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_sites_and_links_are_sorted_by_code() -> None:
    assert network().codes == ("A", "B")
    assert network().links == (Link("A", "B", BACK, THERE),)


def test_a_link_keeps_its_directions_whichever_end_is_named_first() -> None:
    swapped = network(links=(Link("A", "B", BACK, THERE),))
    assert swapped == network()
    assert swapped.wan_directions()[Direction("B", "A")] == THERE


def test_directions_hold_both_ways_of_every_link_and_access_port() -> None:
    assert [str(way) for way in network().directions()] == [
        "A>A.island",
        "A>B",
        "A.island>A",
        "B>A",
        "B>B.island",
        "B.island>B",
    ]


def test_nine_city_has_22_wan_directions_and_18_access_directions() -> None:
    nine = load("nine_city")
    assert len(nine.wan_directions()) == 22
    assert len(nine.access_directions()) == 18


def test_a_direction_is_read_back_from_its_text() -> None:
    for way in network().directions():
        assert Direction.parse(str(way)) == way


@pytest.mark.parametrize("text", ["", "NYC", "NYC>", ">LON", "A>B>C"])
def test_a_direction_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a direction"):
        Direction.parse(text)


def test_access_directions_know_that_they_are_access() -> None:
    assert [way for way in network().directions() if way.is_access] == list(
        network().access_directions()
    )


def test_neighbours_are_sorted() -> None:
    assert load("nine_city").neighbours("LON") == ("AMS", "FRA", "NYC")


def test_scaling_multiplies_rates_and_leaves_times_and_loss() -> None:
    spec = DirectionSpec(10_000, 45.6, jitter_ms=1, loss_pct=0.1, queue_ms=20)
    scaled = network(links=(Link("A", "B", spec, BACK),)).scaled(0.01)
    assert scaled.links[0].forward == replace(spec, rate_mbps=100)
    assert scaled.access["A"].rate_mbps == 10


@pytest.mark.parametrize("rate_scale", [0, -1, float("nan")])
def test_a_scale_that_is_not_positive_is_refused(rate_scale: float) -> None:
    with pytest.raises(ValueError, match="not positive"):
        network().scaled(rate_scale)


@pytest.mark.parametrize(
    "field_and_value",
    [
        {"rate_mbps": 0},
        {"rate_mbps": -1},
        {"rate_mbps": float("inf")},
        {"rate_mbps": float("nan")},
        {"one_way_delay_ms": -1},
        {"one_way_delay_ms": float("nan")},
        {"jitter_ms": 46},
        {"jitter_ms": -1},
        {"loss_pct": 101},
        {"loss_pct": -1},
        {"queue_ms": 0},
        {"duplicate_pct": 101},
        {"corrupt_pct": -1},
        {"loss_burst_packets": 0.5},
        {"loss_burst_packets": float("inf")},
        {"loss_pct": 90, "loss_burst_packets": 8.9},
        {"loss_pct": 100, "loss_burst_packets": 1000},
    ],
)
def test_a_direction_that_no_link_can_have_is_refused(field_and_value: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no link direction can be"):
        replace(DirectionSpec(100, 45.6), **field_and_value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sites": (*SITES, SITES[0])}, "site B is there twice"),
        ({"links": (Link("A", "B", THERE, BACK), Link("B", "A", THERE, BACK))}, "A-B is there tw"),
        ({"links": (Link("A", "A", THERE, BACK),)}, "does not join two sites"),
        ({"links": (Link("A", "C", THERE, BACK),)}, "does not join two sites"),
        ({"access": {"A": THERE}}, "exactly the sites of two: B"),
        ({"access": {**ACCESS, "C": THERE}}, "exactly the sites of two: C"),
    ],
)
def test_a_network_that_does_not_fit_together_is_refused(
    changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        network(**changes)


def test_a_topology_can_be_hashed_and_sent_to_another_process() -> None:
    nine = load("nine_city")
    nine.directions()
    assert pickle.loads(pickle.dumps(nine)) == nine
    assert hash(pickle.loads(pickle.dumps(nine))) == hash(nine)
