"""One plan, told to controller, accelerators and workers: the three must fit together."""

from functools import cache

import pytest

from controller.fabric import Fabric
from schedules.constraints import Constraints
from schedules.plan import PlannedRound, PlannedTree
from schedules.planner import plan
from testbed.accelerator.config import Address
from testbed.innetwork.layout import (
    CliqueWork,
    Ground,
    Layout,
    Numbering,
    lay_out,
    merged,
    tree_requests,
)
from topologies.errors import UserError
from topologies.files import load
from topologies.routing import least_delay_routes

CAPABILITY = {
    "innetwork": "multicast+aggregation",
    "aggregation": "aggregation",
    "multicast": "multicast",
}


def ground(name: str = "nine_city") -> Ground:
    topology = load(name).scaled(0.01)
    fabric = Fabric.of(topology, topology.codes)
    ranks = {code: rank for rank, code in enumerate(reversed(topology.codes))}
    return Ground(topology, least_delay_routes(topology), fabric, ranks, {})


@cache
def only_round(name: str, collective: str) -> PlannedRound:
    topology = load(name).scaled(0.01)
    everybody = Constraints(min_clique=len(topology.codes))
    able = CAPABILITY[collective]
    return plan(topology, able, collective=collective, constraints=everybody).rounds[0]


def full_clique(collective: str, on: Ground, numbering: Numbering) -> Layout:
    only = only_round(on.topology.name, collective)
    work = CliqueWork(collective, only.cliques[0], only.trees, 100.0, job=7, key=11)
    return lay_out(work, on, numbering)


def test_the_shared_tree_of_the_nine_cities_goes_up_to_new_york_and_down_again() -> None:
    # Farthest is SIN: 45.60 to LON, 1.45 to AMS, 2.11 to FRA, 53.02 to SIN.
    laid = full_clique("innetwork", ground(), Numbering())
    assert laid.group.round_trip_ms == pytest.approx(2 * 102.18, abs=1e-6)
    assert {tree.root for tree in laid.trees} == {"NYC"}
    assert [tree.tree_id for tree in laid.trees] == [1, 2]


def test_every_contribution_is_counted_once_at_the_root() -> None:
    laid = full_clique("innetwork", ground(), Numbering())
    (root,) = [told[0] for told in laid.accelerators.values() if told[0].is_root]
    assert root.leaves == 9
    assert len(root.members) == 9
    below = sum(len(told[0].children) for told in laid.accelerators.values())
    assert below == 9 + len(laid.accelerators) - 1  # all members, all accelerators but the root


def test_a_member_sends_as_the_child_that_its_accelerator_expects() -> None:
    on = ground()
    laid = full_clique("innetwork", on, Numbering())
    (tree,) = laid.group.trees
    for leaf, child in zip(tree.leaves, tree.children, strict=True):
        member = laid.group.members[leaf]
        own = Address(member.place.address, member.place.port)
        parents = [t[0] for t in laid.accelerators.values() if own in t[0].children]
        assert [config.children[child] for config in parents] == [own]


@pytest.mark.parametrize(("collective", "trees"), [("aggregation", 9), ("multicast", 9)])
def test_one_technology_takes_a_tree_for_every_island(collective: str, trees: int) -> None:
    laid = full_clique(collective, ground(), Numbering())
    assert len(laid.group.trees) == len(laid.trees) == trees
    roots = [told.is_root for site in laid.accelerators.values() for told in site]
    assert sum(roots) == (trees if collective == "aggregation" else 0)


def test_an_aggregation_ends_at_one_receiver_and_tells_the_others_that_it_is_done() -> None:
    laid = full_clique("aggregation", ground(), Numbering())
    for tree in laid.group.trees:
        assert tree.receiver not in tree.leaves
        assert len(tree.leaves) == 8
    tops = [told for site in laid.accelerators.values() for told in site if told.is_root]
    assert {len(top.notices) for top in tops} == {8}
    assert {len(top.results) for top in tops} == {1}


def test_a_sum_reaches_its_receiver_by_the_links_of_its_tree() -> None:
    # Addressed to the island itself it would take unicast's, which the plan did not load with it.
    laid = full_clique("aggregation", ground(), Numbering())
    addresses = {tree.address for tree in laid.trees}
    tops = [told for site in laid.accelerators.values() for told in site if told.results]
    assert {address.ip for top in tops for address in top.results} == addresses
    assert {address.port for top in tops for address in top.results} == {
        member.place.port for member in laid.group.members
    }


def test_a_full_packet_is_sent_whole_over_each_link_of_its_way() -> None:
    # Up an access port and a link, down a link and an access port, of 100 Mbit/s: 9,010 bytes each.
    laid = full_clique("innetwork", ground("three_city"), Numbering())
    assert laid.group.frames_ms == pytest.approx(4 * 9010 * 8 / 100e3)


def test_two_cliques_share_no_number() -> None:
    on, numbering = ground(), Numbering()
    first, second = (full_clique("innetwork", on, numbering) for _ in range(2))
    ids = [tree.tree_id for one in (first, second) for tree in one.trees]
    assert len(set(ids)) == len(ids)
    assert first.group.trees[0].entry != second.group.trees[0].entry
    assert first.group.members[0].place != second.group.members[0].place
    assert all(len(told) == 2 for told in merged([first, second]).values())


def test_the_controller_is_asked_for_trees_in_its_own_words() -> None:
    laid = full_clique("innetwork", ground("three_city"), Numbering())
    up, down = tree_requests(laid.trees)
    assert up["kind"] == "aggregation"
    assert up["at_island"] is False
    assert down["group_ip"] == "239.192.0.1"


def test_streams_that_nobody_sums_are_refused() -> None:
    tree = PlannedTree(
        kind="aggregation",
        clique=0,
        root="AMS",
        at_island=True,
        members=("FRA", "LON"),
        hops=(("AMS", "FRA"), ("AMS", "LON")),
        sums_at=("LON",),
        share=1.0,
    )
    work = CliqueWork("aggregation", ("AMS", "FRA", "LON"), (tree,), 100.0, 1, 1)
    with pytest.raises(UserError, match="aggregation towards AMS: 2 streams would arrive"):
        lay_out(work, ground("three_city"), Numbering())
