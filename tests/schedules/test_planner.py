"""The planner as a whole: values of the nine cities, proofs, trees, limits, comparisons."""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.capabilities import CAPABILITY_NAMES, Accelerator, Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.plan import Plan
from schedules.planner import compare, plan
from schedules.problem import Problem
from schedules.replay import cost_again
from schedules.watch import Progress, Watch
from topologies.errors import RunError, UserError
from topologies.files import load
from topologies.model import DirectionSpec, Link, Site, Topology

BOTH = "multicast+aggregation"


@cache
def nine(capability: str, collective: str | None, objective: str) -> Plan:
    return plan(
        load("nine_city"), capability, objective, collective=collective, count_latency=False
    )


@cache
def three(capability: str = "unicast", **more: Any) -> Plan:
    return plan(load("three_city"), capability, **more)


# --- the values of the nine cities, in units of a message over a link -----------------------------


@pytest.mark.parametrize(
    ("capability", "collective", "value", "traversals", "cliques"),
    [
        ("unicast", "exchange", 9, 24, 3),
        ("multicast", "multicast", 9, 18, 3),
        ("aggregation", "aggregation", 9, 18, 3),
        (BOTH, "innetwork", 72, 16, 1),
        ("unicast", "ring", 40.5, 16 / 9 * 11, 1),
    ],
)
def test_most_pairs_a_unit(
    capability: str, collective: str, value: float, traversals: float, cliques: int
) -> None:
    found = nine(capability, collective, "exchange")
    (only,) = found.rounds
    assert found.optimal
    assert found.value_units == pytest.approx(value)
    assert only.predicted.traversals == pytest.approx(traversals)
    assert len(only.cliques) == cliques


def test_the_planner_takes_the_regional_triples_for_exchange() -> None:
    (only,) = nine("unicast", "exchange", "exchange").rounds
    assert only.cliques == (("AMS", "FRA", "LON"), ("BAR", "LAX", "NYC"), ("SEO", "SIN", "TYO"))


@pytest.mark.parametrize(
    ("capability", "collective", "value"),
    [
        ("multicast", "multicast", 1 / 8),
        (BOTH, "innetwork", 1),
    ],
)
def test_largest_rate_of_every_pair(capability: str, collective: str, value: float) -> None:
    found = nine(capability, collective, "fair")
    assert found.optimal
    assert found.value_units == pytest.approx(value)


@pytest.mark.parametrize(
    ("capability", "collective", "value", "rounds"),
    [
        ("unicast", "exchange", 5, 2),
        # With least-delay trees two rounds of triples take 5; trees chosen freely take 4.
        ("multicast", "multicast", 4, 2),
        (BOTH, "innetwork", 1, 1),
        ("unicast", "ring", 16 / 9, 1),
    ],
)
def test_shortest_cycle_to_the_mean(
    capability: str, collective: str, value: float, rounds: int
) -> None:
    found = nine(capability, collective, "mean")
    assert found.optimal
    assert found.value_units == pytest.approx(value)
    assert len(found.rounds) == rounds


def test_a_network_that_multicasts_and_sums_is_planned_in_network_unless_told_otherwise() -> None:
    found = nine(BOTH, None, "exchange")
    assert [one.collective for one in found.rounds] == ["innetwork"]


def test_the_root_of_the_nine_cities_is_new_york_where_latency_counts() -> None:
    found = plan(load("nine_city"), BOTH, "mean", collective="innetwork")
    (only,) = found.rounds
    assert {tree.root for tree in only.trees} == {"NYC"}
    assert only.predicted.latency_s == pytest.approx(2 * 0.10218)


# --- what stands beside a plan --------------------------------------------------------------------


def test_the_ring_reference_attains_what_a_ring_plan_attains() -> None:
    fixed = nine("unicast", "ring", "exchange")
    assert nine(BOTH, "innetwork", "exchange").ring.value == pytest.approx(fixed.value)


def test_every_bound_of_the_network_stands_beside_the_plan() -> None:
    bounds = {bound.name: bound for bound in three().bounds}
    assert len(bounds) >= 8
    assert all(bound.source for bound in bounds.values())


def test_no_plan_of_everyone_is_faster_than_both_technologies_allow() -> None:
    found = nine(BOTH, "innetwork", "exchange")
    least = [b.seconds for b in found.bounds if b.name.startswith("multicast and aggregation")]
    assert found.rounds[0].predicted.round_s >= min(least) * (1 - 1e-9)


def test_a_plan_says_what_splitting_messages_among_trees_could_reach() -> None:
    predicted = nine("multicast", "multicast", "mean").rounds[0].predicted
    assert predicted.fractional_units is not None
    assert predicted.fractional_units <= predicted.transfer_units * (1 + 1e-9)
    assert three(collective="exchange").rounds[0].predicted.fractional_units is None


# --- trees and predictions can be checked from the plan alone -------------------------------------


def planned_with_trees() -> list[Plan]:
    return [
        nine("multicast", "multicast", "mean"),
        nine("aggregation", "aggregation", "exchange"),
        nine(BOTH, "innetwork", "exchange"),
    ]


def test_costs_computed_again_from_the_plan_are_the_predicted_ones() -> None:
    for found in planned_with_trees():
        for cost, one in zip(cost_again(load("nine_city"), found), found.rounds, strict=True):
            assert cost.transfer_units == pytest.approx(one.predicted.transfer_units)
            assert cost.traversals == pytest.approx(one.predicted.traversals)
            assert cost.loads.sum() == pytest.approx(sum(one.predicted.load.values()))


def test_every_tree_reaches_its_members_over_links_that_exist() -> None:
    links = {frozenset((link.a, link.b)) for link in load("nine_city").links}
    for found in planned_with_trees():
        for tree in (tree for one in found.rounds for tree in one.trees):
            graph: Any = nx.DiGraph(list(tree.hops))
            graph.add_node(tree.root)
            assert nx.is_arborescence(graph)
            assert {tree.root, *tree.members} <= set(graph)
            assert {frozenset(hop) for hop in tree.hops} <= links


def test_the_trees_of_a_root_carry_the_whole_message_between_them() -> None:
    for found in planned_with_trees():
        for one in found.rounds:
            carried: dict[tuple[Any, ...], float] = {}
            for tree in one.trees:
                # In network one root serves a clique; else each member has trees of its own.
                root = None if one.collective == "innetwork" else tree.root
                key = tree.clique, tree.kind, root
                carried[key] = carried.get(key, 0.0) + tree.share
            kinds = 2 if one.collective == "innetwork" else None
            expected = sum(kinds or len(clique) for clique in one.cliques)
            assert len(carried) == expected
            assert all(share == pytest.approx(1) for share in carried.values())


# --- limits ---------------------------------------------------------------------------------------


def test_only_sites_with_an_accelerator_sum() -> None:
    offered = Capabilities.parse("aggregation", ["NYC", "AMS"])
    found = plan(load("nine_city"), offered, collective="aggregation", count_latency=False)
    sums = {site for one in found.rounds for tree in one.trees for site in tree.sums_at}
    assert sums <= {"NYC", "AMS"}


def test_a_slow_accelerator_slows_a_round_that_it_serves() -> None:
    tiny = {code: Accelerator(rate_mbps=10.0) for code in load("three_city").codes}
    slow = Capabilities(multicast=True, aggregation=True, accelerators=tiny)
    limited = plan(load("three_city"), slow, collective="innetwork")
    assert limited.value < three(BOTH, collective="innetwork").value / 10


def test_no_more_trees_are_planned_than_fit() -> None:
    offered = Capabilities(multicast=True, max_groups=3)
    found = plan(load("three_city"), offered, collective="multicast")
    assert all(one.predicted.groups <= 3 for one in found.rounds)
    with pytest.raises(UserError, match="collective multicast and max_groups 1 clash"):
        plan(load("three_city"), replace(offered, max_groups=1), collective="multicast")


def test_cliques_keep_to_their_sizes() -> None:
    found = plan(load("nine_city"), "unicast", constraints=Constraints(min_clique=4, max_clique=5))
    assert {len(clique) for one in found.rounds for clique in one.cliques} <= {4, 5}


def test_no_round_is_longer_than_the_limit() -> None:
    found = plan(load("nine_city"), BOTH, "exchange", constraints=Constraints(max_round_s=0.9))
    assert all(one.predicted.round_s <= 0.9 for one in found.rounds)


def test_transfers_hide_behind_computing() -> None:
    found = three(constraints=Constraints(compute_s=500.0))
    assert [one.predicted.round_s for one in found.rounds] == [500.0]
    assert found.rounds[0].cliques[0] == tuple(found.ring.order)


def test_a_straggler_that_would_hold_up_everyone_stays_idle() -> None:
    late = Constraints(compute_s=10.0, compute_factor={"NYC": 100.0})
    found = plan(load("nine_city"), "unicast", constraints=late)
    assert "NYC" not in {code for one in found.rounds for c in one.cliques for code in c}


@pytest.mark.parametrize(
    ("constraints", "objective", "told"),
    [
        ({"max_clique": 2}, "mean", "max_clique 2 cannot be kept"),
        ({"max_round_s": 0.1}, "exchange", r"max_round_s 0.1 cannot be kept.*shortest round"),
        ({"max_round_s": 1, "compute_s": 2}, "exchange", "max_round_s 1 and compute_s 2 clash"),
        ({"min_clique": 3, "max_round_s": 1.0}, "exchange", "min_clique 3 and max_round_s 1 clash"),
        ({"min_clique": 4, "max_clique": 3}, "fair", "max_clique 3 clashes with min_clique 4"),
        ({"max_clique": 2, "max_round_s": 0.1}, "consensus", "max_round_s 0.1 cannot be kept"),
        ({"compute_s": 1, "compute_factor": {"PAR": 2}}, "fair", "PAR is no site"),
    ],
)
def test_limits_that_clash_are_named(
    constraints: dict[str, Any], objective: str, told: str
) -> None:
    with pytest.raises(UserError, match=told) as caught:
        plan(
            load("three_city"),
            "unicast",
            objective,
            collective="exchange",
            constraints=Constraints(**constraints),
        )
    assert "\n" not in str(caught.value)


def test_a_clash_names_only_what_is_to_blame() -> None:
    with pytest.raises(UserError) as caught:
        plan(
            load("three_city"),
            Capabilities(max_groups=50),
            "mean",
            constraints=Constraints(max_clique=2, max_round_s=1e6),
        )
    assert "max_clique 2 cannot be kept" in str(caught.value)
    assert "max_groups" not in str(caught.value)


def test_islands_that_can_never_agree_are_refused_for_consensus() -> None:
    # NYC computes for longer than a round may take, so it is in none.
    late = Constraints(max_round_s=3, compute_s=1, compute_factor={"NYC": 5}, max_clique=2)
    with pytest.raises(UserError, match="the islands can never all agree"):
        plan(load("nine_city"), "unicast", "consensus", constraints=late)


def test_an_island_alone_has_nobody_to_exchange_with() -> None:
    here = load("three_city")
    code = here.codes[0]
    alone = replace(here, sites=here.sites[:1], links=(), access={code: here.access[code]})
    with pytest.raises(UserError, match="one island"):
        plan(alone, "unicast")


def test_a_disconnected_network_is_named_with_two_sites_apart() -> None:
    apart = replace(load("three_city"), links=load("three_city").links[:1])
    with pytest.raises(UserError, match="disconnected: no route from"):
        plan(apart, "unicast")


def test_no_message_is_refused() -> None:
    with pytest.raises(UserError, match="above zero"):
        plan(load("three_city"), "unicast", message_bytes=0)


# --- rotations ------------------------------------------------------------------------------------


def test_three_islands_meet_in_turns_where_cliques_are_pairs() -> None:
    found = plan(
        load("three_city"),
        "unicast",
        "fair",
        constraints=Constraints(max_clique=2),
        count_latency=False,
        collective="exchange",
    )
    assert found.value_units == pytest.approx(1 / 3)
    assert sorted(found.cycle) == [0, 1, 2]
    assert found.cycle_value == pytest.approx(found.value)


# --- ending early ---------------------------------------------------------------------------------


def test_an_interrupt_gives_the_best_plan_so_far_with_its_gap() -> None:
    told: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 1:
            signal.raise_signal(signal.SIGINT)

    watch = Watch(listener=interrupt)
    with watch.catching_interrupts():
        found = plan(load("nine_city"), "unicast", "mean", collective="exchange", watch=watch)
    assert found.stopped_early
    assert not found.optimal
    assert found.value_units <= 13 * (1 + 0.2)
    assert found.bound <= found.value
    assert found.gap_pct > 0


def test_a_search_cut_short_offers_the_ring_of_everyone_at_least() -> None:
    found = plan(load("nine_city"), BOTH, "fair", watch=Watch(interrupted=True))
    assert found.value >= found.ring.value


def test_a_search_that_ends_before_any_plan_says_so() -> None:
    with pytest.raises(RunError, match="more time"):
        plan(
            load("nine_city"),
            "unicast",
            constraints=Constraints(max_clique=3),
            watch=Watch(interrupted=True),
        )


# --- comparisons ----------------------------------------------------------------------------------


def test_a_comparison_has_every_capability_a_ring_and_free_choice() -> None:
    problem = Problem(
        Network.of(load("three_city")),
        Capabilities.parse(BOTH),
        "exchange",
        None,
        1e9,
        Constraints(),
        True,
    )
    rows = list(compare(problem, Watch()))
    pairs = [(row.capability, row.collective) for row in rows]
    assert pairs[:5] == [
        ("unicast", "exchange"),
        ("multicast", "multicast"),
        ("aggregation", "aggregation"),
        (BOTH, "innetwork"),
        ("unicast", "ring"),
    ]
    assert pairs[5:] == [(name, None) for name in CAPABILITY_NAMES]
    assert all(row.plan is not None for row in rows)


# --- any network ----------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """Small connected networks of uneven rates and delays."""
    size = draw(st.integers(3, 5))
    codes = [f"S{number}" for number in range(size)]
    ends = [(draw(st.integers(0, n - 1)), n) for n in range(1, size)]
    others = [(a, b) for b in range(size) for a in range(b) if (a, b) not in ends]
    ends += draw(st.lists(st.sampled_from(others), unique=True, max_size=3)) if others else []

    def spec() -> DirectionSpec:
        rate = draw(st.sampled_from([1000.0, 2000.0, 10000.0]))
        return DirectionSpec(rate, draw(st.sampled_from([0.0, 1.0, 5.0, 20.0])))

    links = tuple(Link(codes[a], codes[b], spec(), spec()) for a, b in sorted(ends))
    access = {code: spec() for code in codes}
    sites = tuple(Site(code, code, 0.0, float(n)) for n, code in enumerate(codes))
    return Topology("random", sites, links, access, "drawn at random", "none")


objectives = st.sampled_from(["exchange", "fair", "mean", "consensus"])


@given(networks(), objectives, st.sampled_from(CAPABILITY_NAMES))
@settings(max_examples=20, deadline=None)
def test_no_plan_beats_its_bound_and_every_island_has_its_place(
    topology: Topology, objective: str, capability: str
) -> None:
    found = plan(topology, capability, objective, message_bytes=1e8)
    slack = 1 + 1e-6
    if objective == "mean":
        assert found.bound <= found.value * slack
    else:
        assert found.value <= found.bound * slack
        assert 0.8 * found.value <= found.cycle_value <= found.value * slack
    assert found.optimal
    assert sum(one.share for one in found.rounds) == pytest.approx(1)
    for one in found.rounds:
        placed = [code for clique in one.cliques for code in clique]
        assert len(placed) == len(set(placed))
        assert set(placed) <= set(topology.codes)


@st.composite
def limited_problems(draw: st.DrawFn) -> tuple[Topology, Capabilities, dict[str, Any]]:
    """Any limits of capabilities and rounds, many of which no plan can keep together."""
    topology = draw(networks())
    some = st.sets(st.sampled_from(topology.codes))
    limit = draw(
        st.builds(Accelerator, st.sampled_from([50.0, 5000.0]), st.sampled_from([None, 2]))
    )
    accelerators = draw(st.none() | some.map(lambda codes: dict.fromkeys(codes, limit)))
    pairs = [(link.a, link.b) for link in topology.links]
    offered = Capabilities(
        draw(st.booleans()),
        draw(st.booleans()),
        accelerators,
        draw(st.sampled_from([None, None, 2, 4])),
        draw(st.none() | st.frozensets(st.sampled_from(pairs), min_size=1)),
    )
    constraints = Constraints(
        max_clique=draw(st.sampled_from([None, 2, 3])),
        max_round_s=draw(st.sampled_from([None, 0.3, 1.0])),
        compute_s=draw(st.sampled_from([0.0, 0.5])),
        compute_factor={"S0": 3.0},
    )
    collective = draw(st.sampled_from([None, *offered.collectives]))
    return topology, offered, {"constraints": constraints, "collective": collective}


@pytest.mark.filterwarnings("error")
@given(limited_problems(), objectives)
@settings(max_examples=40, deadline=None)
def test_limits_are_kept_or_refused_in_one_line(
    problem: tuple[Topology, Capabilities, dict[str, Any]], objective: str
) -> None:
    topology, offered, asked = problem
    try:
        found = plan(topology, offered, objective, message_bytes=1e7, **asked)
    except UserError as error:
        assert str(error).startswith("infeasible on random: ")
        assert "\n" not in str(error)
        return
    longest, largest = asked["constraints"].max_round_s, asked["constraints"].max_clique
    for one in found.rounds:
        assert longest is None or one.predicted.round_s <= longest * (1 + 1e-6)
        assert largest is None or max(map(len, one.cliques)) <= largest
        assert offered.max_groups is None or one.predicted.groups <= offered.max_groups
        sums = {site for tree in one.trees for site in tree.sums_at}
        assert offered.accelerators is None or sums <= set(offered.accelerators)
        hops = {frozenset(hop) for tree in one.trees for hop in tree.hops}
        assert offered.multicast_links is None or hops <= set(
            map(frozenset, offered.multicast_links)
        )
    assert Plan.from_json(found.to_json()) == found
    assert found.value > 0
