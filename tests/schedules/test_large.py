"""Plans without enumeration: they keep their bounds, their limits, and agree with exact ones."""

from dataclasses import replace
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.capabilities import COLLECTIVES, Accelerator, Capabilities
from schedules.constraints import Clock, Constraints
from schedules.cost import CliqueWork, CostModel, cost_of_round
from schedules.evaluation import RoundTable
from schedules.large import plan_large
from schedules.large_mean import lines, shapes
from schedules.large_rotation import tournament
from schedules.mean import least_cycle_s
from schedules.network import Network
from schedules.partitions import all_partitions, cliques
from schedules.problem import Problem
from schedules.reference import ring_of_everyone
from schedules.relaxations import Relaxation, Worth
from schedules.ring_floors import least_ring_latency_ns
from schedules.ring_rounds import AloneRings
from schedules.rounds import RoundSet
from schedules.solution import OBJECTIVES, Solution
from schedules.solve import SOLVERS, _merged
from schedules.tours import least_tour, least_tours, ring_latency_ns
from schedules.watch import Watch
from topologies.files import load
from topologies.model import Access, DirectionSpec, Link, Site, Topology
from topologies.routing import least_delay_routes

BOTH = Capabilities.parse("multicast+aggregation")
MESSAGE_BYTES = 1e8
LIMIT_S = 0.7


def random_network(sites: int, seed: int, codes: list[str] | None = None) -> Topology:
    """A tree of near places and as many links again; rates differ by direction."""
    random = np.random.default_rng(seed)
    places = random.uniform(0, 40, (sites, 2))
    gap = np.linalg.norm(places[:, None] - places, axis=2)
    whole: nx.Graph[int] = nx.Graph()
    whole.add_weighted_edges_from((a, b, gap[a, b]) for a in range(sites) for b in range(a))
    ends = {(min(e), max(e)) for e in nx.minimum_spanning_edges(whole, data=False)}
    for a, b in random.integers(sites, size=(sites, 2)).tolist():
        ends |= {(min(a, b), max(a, b))} if a != b else set()
    names = codes or [f"S{n:02d}" for n in range(sites)]

    def spec(a: int, b: int) -> DirectionSpec:
        return DirectionSpec(float(random.choice([1000, 2000])), float(gap[a, b]) + 0.1)

    return Topology(
        name="random",
        sites=tuple(Site(c, c, 0.0, 0.0) for c in names),
        links=tuple(Link(names[a], names[b], spec(a, b), spec(a, b)) for a, b in sorted(ends)),
        access={c: Access(1000) for c in names},
        source="drawn",
        licence="none needed",
    )


def large(
    topology: Topology,
    objective: str,
    collectives: tuple[str, ...] = COLLECTIVES,
    capabilities: Capabilities = BOTH,
    constraints: Constraints = Constraints(),  # noqa: B008 (it is frozen)
    limit_s: float = LIMIT_S,
) -> Solution | None:
    model = CostModel.of(topology, capabilities)
    clock = Clock.of(model, MESSAGE_BYTES, constraints)
    return plan_large(model, clock, collectives, constraints, objective, Watch(limit_s))


def keeps(solution: Solution, constraints: Constraints, capabilities: Capabilities) -> bool:
    """Whether rounds are of disjoint cliques within the limits."""
    for one in solution.rounds:
        sites = [site for work in one.works for site in work.members]
        sizes = [len(work.members) for work in one.works]
        most = constraints.max_clique or len(sites)
        if len(sites) != len(set(sites)) or min(sizes) < constraints.min_clique:
            return False
        if max(sizes) > most or one.seconds > (constraints.max_round_s or np.inf) * (1 + 1e-9):
            return False
        if capabilities.max_groups is not None and one.cost.groups > capabilities.max_groups:
            return False
    return True


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("collective", COLLECTIVES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000), averaged=st.booleans(), latency=st.booleans())
def test_no_partition_is_worth_more_per_second_than_the_relaxation_says(
    collective: str, seed: int, averaged: bool, latency: bool
) -> None:
    topology = random_network(6, seed)
    model = CostModel.of(topology, BOTH)
    clock = Clock.of(model, MESSAGE_BYTES, Constraints(), latency)
    weight = np.random.default_rng(seed).normal(size=(6, 6))
    worth = Worth.of_removal(weight @ weight.T) if averaged else Worth.of_meetings(6)
    bound = Relaxation(model, collective, clock, Constraints()).bound(worth)
    for row in all_partitions(6)[::5]:
        found = cliques(row)
        if not found:
            continue
        named = [[topology.codes[site] for site in clique] for clique in found]
        cost = cost_of_round(topology, named, collective, BOTH)
        seconds = clock.round_s(cost, [])
        assert sum(worth.of(clique) for clique in found) / seconds <= bound * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_on_tours_is_below_the_shortest_tour_of_any_islands(seed: int) -> None:
    delay = Network.of(random_network(6, seed)).delay_ns
    least = least_tours(delay)
    for count in range(2, 7):
        shortest = min(
            sum(int(delay[a, b]) for a, b in zip(order, (*order[1:], order[0]), strict=True))
            for members in combinations(range(6), count)
            for order in permutations(members)
        )
        assert least[count] <= shortest * (1 + 1e-12)


def test_the_bound_of_held_and_karp_meets_the_perimeter_of_a_circle() -> None:
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    length = np.linalg.norm(places[:, None] - places, axis=2)
    assert least_tour(length) == pytest.approx(12 * 2 * np.sin(np.pi / 12), rel=1e-6)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("collective", ["exchange", "innetwork"])
def test_a_plan_of_sixteen_islands_keeps_its_bound_and_is_of_disjoint_cliques(
    objective: str, collective: str
) -> None:
    solution = large(random_network(16, 3), objective, (collective,), limit_s=0.7)
    assert solution is not None
    if objective == "mean":
        assert solution.bound <= solution.value * (1 + 1e-9)
    else:
        assert solution.value <= solution.bound * (1 + 1e-9)
    assert keeps(solution, Constraints(), BOTH)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("collective", ["exchange", "ring", "multicast", "innetwork"])
def test_search_and_enumeration_of_six_islands_agree_within_the_stated_gaps(
    objective: str, collective: str
) -> None:
    topology = random_network(6, 11)
    model = CostModel.of(topology, BOTH)
    clock = Clock.of(model, MESSAGE_BYTES, Constraints())
    exact = SOLVERS[objective](
        RoundSet.of(model, clock, (collective,), Constraints()), Watch(LIMIT_S)
    )
    searched = large(topology, objective, (collective,))
    assert exact is not None and searched is not None
    if objective == "mean":
        assert searched.bound <= exact.value * (1 + 1e-6)
        assert exact.bound <= searched.value * (1 + 1e-6)
    else:
        assert exact.value <= searched.bound * (1 + 1e-6)
        assert searched.value <= exact.bound * (1 + 1e-6)


def test_rounds_hold_to_every_limit() -> None:
    limits = Constraints(min_clique=3, max_clique=5)
    few_groups = replace(BOTH, max_groups=6)
    for collective in ("exchange", "innetwork"):
        solution = large(
            random_network(14, 5), "exchange", (collective,), few_groups, limits, limit_s=0.7
        )
        assert solution is not None
        assert keeps(solution, limits, few_groups)


def test_all_pairs_meet_although_no_clique_may_hold_more_than_four() -> None:
    solution = large(
        random_network(13, 2), "fair", ("exchange",), BOTH, Constraints(max_clique=4), 0.7
    )
    assert solution is not None
    meets = np.zeros((13, 13))
    for one, share in zip(solution.rounds, solution.shares, strict=True):
        for work in one.works:
            meets[np.ix_(work.members, work.members)] += share
    total_s = sum(
        share * one.seconds for one, share in zip(solution.rounds, solution.shares, strict=True)
    )
    assert meets[~np.eye(13, dtype=bool)].min() / total_s == pytest.approx(solution.value, rel=1e-6)


def test_a_cycle_to_the_mean_gives_every_island_the_mean() -> None:
    solution = large(random_network(12, 4), "mean", ("exchange",), limit_s=0.7)
    assert solution is not None
    values = np.eye(12)
    for one in solution.rounds:
        for work in one.works:
            members = list(work.members)
            values[members] = values[members].mean(axis=0)
    assert np.allclose(values, 1 / 12)


def test_new_names_for_the_sites_leave_the_bound_and_the_value_of_proved_plans() -> None:
    codes = [f"S{n:02d}" for n in range(14)]
    shuffled = list(np.random.default_rng(1).permutation(codes))
    for objective in ("fair", "mean"):
        first = large(random_network(14, 9, codes), objective, ("innetwork",))
        second = large(random_network(14, 9, shuffled), objective, ("innetwork",))
        assert first is not None and second is not None
        assert second.value == pytest.approx(first.value, rel=1e-6)
        assert second.bound == pytest.approx(first.bound, rel=1e-6)


def test_few_accelerators_are_counted_with_the_streams_they_leave_unsummed() -> None:
    few = replace(BOTH, accelerators={"S03": Accelerator(500.0, 4)})
    solution = large(random_network(13, 6), "exchange", ("aggregation",), few, limit_s=0.7)
    assert solution is not None
    assert solution.value <= solution.bound


def test_a_watch_that_is_over_still_gets_the_plan_that_costs_no_search() -> None:
    model = CostModel.of(random_network(20, 1), BOTH)
    clock = Clock.of(model, MESSAGE_BYTES, Constraints())
    watch = Watch(60.0, interrupted=True)
    for objective in OBJECTIVES:
        solution = plan_large(model, clock, ("exchange",), Constraints(), objective, watch)
        assert solution is not None
        assert solution.gap_pct <= 100


# --- parts ----------------------------------------------------------------------------------------


def test_a_tournament_brings_every_two_islands_together() -> None:
    met = np.eye(13, dtype=bool)
    for found in tournament(np.arange(13), 2):
        assert sorted(site for clique in found for site in clique) == sorted(
            {site for clique in found for site in clique}
        )
        for clique in found:
            met[np.ix_(clique, clique)] = True
    assert met.all()


def test_lines_of_a_grid_average_to_the_mean() -> None:
    values = np.eye(12)
    for found in lines(np.arange(12).reshape(2, 3, 2)):
        for clique in found:
            values[list(clique)] = values[list(clique)].mean(axis=0)
    assert np.allclose(values, 1 / 12)


def test_shapes_are_all_ordered_products() -> None:
    assert shapes(8, 8) == [(8,), (2, 4), (4, 2), (2, 2, 2)]
    assert shapes(12, 4) == [(3, 4), (4, 3), (2, 2, 3), (2, 3, 2), (3, 2, 2)]
    assert shapes(13, 12) == []


@pytest.mark.parametrize("name", ["nine_city", "b4", "abilene", "netstorm_nine"])
def test_array_routes_are_those_of_the_routing_rule(name: str) -> None:
    topology = load(name)
    network = Network.of(topology)
    routes = least_delay_routes(topology)
    for (at, to), onward in routes.next_hops.items():
        place = network.codes.index(at), network.codes.index(to)
        assert network.codes[network.next_hop[place]] == onward


def test_tabled_costs_are_those_of_the_cost_model() -> None:
    nine = load("nine_city")
    table = RoundTable.of(nine, "exchange", BOTH)
    found = [("AMS", "FRA", "LON"), ("BAR", "LAX", "NYC"), ("SEO", "SIN", "TYO")]
    tabled = table.cost(table.masks(found))
    whole = cost_of_round(nine, found, "exchange", BOTH)
    assert tabled.transfer_units == pytest.approx(whole.transfer_units)
    assert tabled.latency_ns == whole.latency_ns
    assert tabled.traversals == pytest.approx(whole.traversals)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_latency_of_a_ring_is_below_that_of_every_order_and_close(seed: int) -> None:
    network = Network.of(random_network(7, seed))
    least = least_ring_latency_ns(network.delay_ns)
    orders = [np.array((0, *rest)) for rest in permutations(range(1, 7))]
    shortest = min(ring_latency_ns(network, order) for order in orders)
    assert 0.95 * shortest <= least <= shortest


# --- two ways to solve ten to twelve islands ------------------------------------------------------


def test_the_better_plan_is_taken_and_the_closer_of_both_bounds() -> None:
    slow = Solution("mean", (), (), 6.0, 3.0), "enumeration"
    quick = Solution("mean", (), (), 5.0, 2.0), "search"
    merged, method = _merged(slow, quick)
    assert (merged.value, merged.bound, method) == (5.0, 3.0, "search")
    little, much = (
        replace(one, objective="fair", value=v, bound=9.0)
        for one, v in ((slow[0], 1.0), (quick[0], 4.0))
    )
    merged, method = _merged((replace(little, bound=7.0), "enumeration"), (much, "search"))
    assert (merged.value, merged.bound, method) == (4.0, 7.0, "search")


def test_a_watch_limits_a_first_search_to_its_share() -> None:
    watch = Watch(limit_s=60)
    with watch.limited(0.5):
        assert watch.limit_s == 30
    assert watch.limit_s == 60


# --- the ring of everyone -------------------------------------------------------------------------


def test_a_ring_that_a_search_found_is_not_annealed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(
        Network.of(random_network(70, 1)),
        Capabilities.parse("unicast"),
        "mean",
        "ring",
        MESSAGE_BYTES,
        Constraints(),
        True,
    )
    known = ring_of_everyone(problem)
    monkeypatch.setattr("schedules.reference.short_ring", lambda *_: pytest.fail("annealed twice"))
    assert ring_of_everyone(problem, (known,)) is known


# --- rings of ten to twelve islands ---------------------------------------------------------------


def test_a_ring_alone_takes_what_the_best_of_all_its_orders_takes() -> None:
    model = CostModel(Network.of(random_network(10, 3)), Capabilities.parse("unicast"))
    clock = Clock.of(model, MESSAGE_BYTES, Constraints())
    alone = AloneRings.of(model.network, clock)
    for clique in ((0, 7), (1, 4, 9), (2, 3, 5, 8), (0, 2, 4, 6, 8)):
        rings = [
            model.round_cost("ring", (CliqueWork((clique[0], *rest)),))
            for rest in permutations(clique[1:])
        ]
        mask = sum(1 << site for site in clique)
        assert alone.seconds[mask] == pytest.approx(min(clock.round_s(r, clique) for r in rings))
        assert alone.latency_ns[mask] == min(ring.latency_ns for ring in rings)
        loads = np.array([ring.loads * model.slowness for ring in rings]).min(axis=0)
        assert alone.units[mask] == pytest.approx(loads[: model.network.wan_count])


@pytest.mark.parametrize("seed", [1, 2])
def test_no_rings_of_a_round_undercut_its_floor(seed: int) -> None:
    model = CostModel(Network.of(random_network(10, seed)), Capabilities.parse("unicast"))
    clock = Clock.of(model, MESSAGE_BYTES, Constraints())
    rounds = RoundSet.of(model, clock, ("ring",), Constraints(max_clique=5))
    rows = np.random.default_rng(seed).choice(len(rounds.masks), 30, replace=False)
    rounds.evaluate(rows)
    floors = rounds.floor_s[rows].copy()
    for row, floor in zip(rows.tolist(), floors.tolist(), strict=True):
        rounds.refine(row)
        assert floor <= rounds.best_s[row] * (1 + 1e-9)


def test_a_cycle_takes_a_message_for_each_round_and_the_longest_path_once() -> None:
    model = CostModel(Network.of(load("nine_city")), Capabilities.parse("unicast"))
    clock = Clock.of(model, 1e9, Constraints())
    rounds = RoundSet.of(model, clock, ("exchange",), Constraints(max_clique=3))
    assert least_cycle_s(rounds, 4) == pytest.approx(4 * 0.8 + 0.1575, abs=1e-4)
