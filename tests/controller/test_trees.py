"""Trees as values: what is none, and which streams an aggregation tree is made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.intents import AggregationTree, MulticastTree
from controller.trees import Stream
from tests.controller.networks import aggregation_trees, connected_topologies
from topologies.errors import UserError
from topologies.model import Topology

CHAIN = (("NYC", "LON"), ("LON", "AMS"))


def _chain(**fields: object) -> AggregationTree:
    """AMS and LON meet at LON, that sum and NYC's at NYC."""
    good: dict[str, object] = {
        "tree_id": 7,
        "root": "NYC",
        "hops": CHAIN,
        "members": ("AMS", "LON", "NYC"),
        "sums_at": ("LON", "NYC"),
        "at_island": False,
    }
    return AggregationTree(**{**good, **fields})  # type: ignore[arg-type]


def test_streams_meet_where_accelerators_sum() -> None:
    assert _chain().streams == (
        Stream("AMS.island", ("AMS", "LON"), "LON.accelerator"),
        Stream("LON.island", ("LON",), "LON.accelerator"),
        Stream("LON.accelerator", ("LON", "NYC"), "NYC.accelerator"),
        Stream("NYC.island", ("NYC",), "NYC.accelerator"),
    )


def test_an_accelerator_knows_its_children_in_order_and_its_parent() -> None:
    tree = _chain()
    assert tree.children("LON.accelerator") == ("AMS.island", "LON.island")
    assert tree.children("NYC.accelerator") == ("LON.accelerator", "NYC.island")
    assert tree.parent("LON.accelerator") == "NYC.accelerator"
    assert tree.parent("NYC.accelerator") is None


def test_a_site_that_does_not_sum_lets_streams_pass() -> None:
    tree = _chain(sums_at=("NYC",))
    assert tree.children("NYC.accelerator") == ("AMS.island", "LON.island", "NYC.island")
    assert tree.streams[0].path == ("AMS", "LON", "NYC")


def test_the_sum_ends_at_the_root_island_where_it_is_the_receiver() -> None:
    tree = _chain(members=("AMS", "LON"), at_island=True)
    assert tree.children("NYC.island") == ("NYC.accelerator",)
    assert tree.parent("NYC.accelerator") == "NYC.island"
    assert _chain(members=("AMS", "LON"), sums_at=(), at_island=True).children("NYC.island") == (
        "AMS.island",
        "LON.island",
    )


def test_what_exceeds_the_fan_in_passes_to_the_next_accelerator() -> None:
    tree = _chain(fan_in=(("LON", 1),))
    assert tree.children("LON.accelerator") == ("AMS.island",)
    assert tree.children("NYC.accelerator") == ("LON.accelerator", "LON.island", "NYC.island")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"members": ()}, "tree 7: it has no members"),
        ({"at_island": True}, "island of its root NYC receives the sum, so it cannot be a member"),
        ({"sums_at": ("LON",)}, "nothing sums at its root NYC"),
        ({"members": ("SEO",)}, "SEO not reached from NYC"),
        ({"sums_at": ("AMS", "NYC"), "members": ("LON",)}, "nothing arrives at AMS"),
        ({"fan_in": (("AMS", 2),)}, "fan_in of AMS, where nothing sums"),
        ({"fan_in": (("LON", 0),)}, "fan_in 0 of LON is below one"),
        ({"fan_in": (("NYC", 1),)}, "1 streams are left over at the root NYC"),
        ({"tree_id": 60001}, "not within 1 to 60000"),
        ({"hops": (*CHAIN, ("SEO", "TYO"), ("TYO", "SEO"))}, "SEO, TYO not reached"),
    ],
)
def test_what_cannot_be_summed_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        _chain(**fields)


def test_a_multicast_from_an_accelerator_may_reach_the_island_beside_it_but_not_itself() -> None:
    MulticastTree(1, "239.1.1.1", "NYC", (), ("NYC",), at_island=False)
    with pytest.raises(UserError, match="its root NYC cannot be a receiver"):
        MulticastTree(1, "239.1.1.1", "NYC", (), (), at_island=False, accelerators=("NYC",))


@settings(max_examples=60, deadline=None)
@given(connected_topologies(), st.data())
def test_streams_are_as_many_as_the_planner_counts(net: Topology, data: st.DataObject) -> None:
    """The planner counts streams a hop; here each stream is followed. Both must agree."""
    planner = pytest.importorskip("schedules.trees")
    tree = data.draw(aggregation_trees(net, fan_in=True))
    number = {code: index for index, code in enumerate(net.codes)}
    edges = [(number[parent], number[child]) for parent, child in tree.hops]
    limits = dict(tree.fan_in)
    fan_in = [0] * len(net.codes)
    for site in tree.sums_at:
        fan_in[number[site]] = limits.get(site, len(net.codes))
    members = [number[site] for site in tree.members]
    counted = planner.upward_streams(planner.Tree.rooted(edges, number[tree.root]), members, fan_in)
    for parent, child in tree.hops:
        through = [s for s in tree.streams if (child, parent) in pairwise(s.path)]
        assert len(through) == counted.upward[number[child]]
    summed = {site: len(tree.children(f"{site}.accelerator")) for site in tree.sums_at}
    assert {number[site]: n for site, n in summed.items() if n > 1} == counted.summed
