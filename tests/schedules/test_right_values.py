"""Plans of the nine cities against plain enumeration; values in messages over one direction.

All rates are alike here and latency is ignored, so every value follows from counting alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise

import networkx as nx
import pytest

from schedules.capabilities import OWN_COLLECTIVE, Capabilities
from schedules.cost import CliqueWork, cost_of_round
from schedules.solution import Solution
from tests.schedules import oracles
from tests.schedules.oracles import Blocks, Way
from tests.schedules.small_networks import in_units, problem, solved, uniform
from topologies.files import load
from topologies.model import Topology

NINE = load("nine_city")
BOTH = Capabilities.parse("multicast+aggregation")
CAPABILITY_OF = {collective: name for name, collective in OWN_COLLECTIVE.items()} | {
    "ring": "unicast"
}
REGIONS = (("AMS", "FRA", "LON"), ("BAR", "LAX", "NYC"), ("SEO", "SIN", "TYO"))
EVERYONE = (NINE.codes,)


@cache
def best(collective: str, objective: str) -> tuple[float, Solution]:
    wanted = problem(NINE, CAPABILITY_OF[collective], objective, collective)
    found = solved(wanted)
    assert found.optimal
    return in_units(wanted, found), found


def blocks_of(topology: Topology, solution: Solution) -> list[Blocks]:
    return [
        tuple(tuple(sorted(topology.codes[n] for n in work.members)) for work in one.works)
        for one in solution.rounds
    ]


@cache
def unicast() -> oracles.Unicast:
    return oracles.Unicast(NINE)


@cache
def exchange_loads() -> dict[Blocks, Counter[Way]]:
    """Return the loads of all 21,147 partitions, from networkx routes alone."""
    routes = unicast()
    alone = {
        block: routes.exchange([block])
        for count in range(1, 10)
        for block in combinations(NINE.codes, count)
    }
    found = {}
    for blocks in oracles.partitions(NINE.codes):
        loads: Counter[Way] = Counter()
        for block in blocks:
            loads.update(alone[block])
        found[blocks] = loads
    return found


def wan_crossings(loads: Counter[Way]) -> int:
    return sum(n for way, n in loads.items() if not any(end.endswith(".island") for end in way))


# --- exchange -------------------------------------------------------------------------------------


def test_the_regions_exchange_most_over_the_fewest_links() -> None:
    rated = {
        oracles.several(blocks): (
            sum(len(block) * (len(block) - 1) for block in blocks) / max(loads.values(), default=1),
            wan_crossings(loads),
        )
        for blocks, loads in exchange_loads().items()
    }
    top = [blocks for blocks, (value, _) in rated.items() if value == 9.0]
    assert len(rated) == 21147
    assert max(value for value, _ in rated.values()) == 9.0
    assert len(top) == 6
    assert min(top, key=lambda blocks: rated[blocks][1]) == REGIONS
    assert rated[REGIONS][1] == 24
    assert rated[EVERYONE] == (pytest.approx(72 / 13), 178)


@pytest.mark.parametrize(
    ("collective", "value", "blocks"),
    [
        ("exchange", 9.0, REGIONS),
        ("innetwork", 72.0, EVERYONE),
        ("ring", 40.5, EVERYONE),
    ],
)
def test_most_pairs_a_unit(collective: str, value: float, blocks: Blocks) -> None:
    found, solution = best(collective, "exchange")
    assert found == pytest.approx(value)
    assert blocks_of(NINE, solution) == [blocks]


@pytest.mark.parametrize("collective", ["multicast", "aggregation"])
def test_most_pairs_a_unit_with_one_technology_tie_with_everyone(collective: str) -> None:
    # An island with n others hears (or sends) n messages: at best one pair a unit for each of nine.
    whole = cost_of_round(NINE, EVERYONE, collective, BOTH)
    assert best(collective, "exchange")[0] == pytest.approx(9.0)
    assert whole.pairs / whole.transfer_units == pytest.approx(9.0)


# --- fair -----------------------------------------------------------------------------------------


def test_the_fairest_exchange_is_that_of_the_dual_over_all_rounds() -> None:
    times = {
        blocks: float(max(loads.values()))
        for blocks, loads in exchange_loads().items()
        if oracles.several(blocks)
    }
    assert oracles.fairest_rate(times) == pytest.approx(1 / 13, rel=1e-6)
    assert best("exchange", "fair")[0] == pytest.approx(1 / 13)


@pytest.mark.parametrize(
    ("collective", "rate"), [("multicast", 1 / 8), ("aggregation", 1 / 8), ("innetwork", 1.0)]
)
def test_largest_rate_of_every_pair(collective: str, rate: float) -> None:
    assert best(collective, "fair")[0] == pytest.approx(rate)


# --- mean -----------------------------------------------------------------------------------------
#
# The mean of nine islands has weights 1/9. Averages of cliques have weights 1/n, and a product of
# rounds has sums of products of these, so nine in the denominator takes a clique of nine or two
# rounds with a clique of three or six. By `exchange`, `multicast` and `aggregation` such a round
# takes two units at least (two messages through an access port), the clique of nine eight. So
# nothing is shorter than four units, whatever the weights are on the way, and four takes two rounds
# of triples, each of two units, in which every triple of one meets every triple of the other.


def triples(codes: tuple[str, ...]) -> list[Blocks]:
    parts = oracles.partitions(codes)
    return [blocks for blocks in parts if all(len(block) == 3 for block in blocks)]


def meet(one: Blocks, other: Blocks) -> bool:
    return all(len(set(a) & set(b)) == 1 for a in one for b in other)


def shortest_path_trees(blocks: Blocks) -> Counter[Way]:
    """Return the loads of multicast along each sender's routes."""
    routes = unicast().routes
    return Counter(
        hop
        for block in blocks
        for root in block
        for hop in {hop for end in block if end != root for hop in routes[root, end]}
    )


def shortest_pair(units: dict[Blocks, int]) -> int:
    return min(
        units[one] + units[other] for one, other in combinations(units, 2) if meet(one, other)
    )


def test_two_rounds_of_triples_by_unicast_take_five_units() -> None:
    units = {blocks: max(exchange_loads()[blocks].values()) for blocks in triples(NINE.codes)}
    assert len(units) == 280
    assert shortest_pair(units) == 5
    assert best("exchange", "mean")[0] == pytest.approx(5)


def test_two_rounds_of_triples_along_shortest_paths_take_five_units_by_multicast_too() -> None:
    units = {b: max(shortest_path_trees(b).values()) for b in triples(NINE.codes)}
    assert shortest_pair(units) == 5


@pytest.mark.parametrize("collective", ["multicast", "aggregation"])
def test_two_rounds_of_triples_on_trees_of_their_own_take_four_units(collective: str) -> None:
    value, solution = best(collective, "mean")
    one, other = blocks_of(NINE, solution)
    assert value == pytest.approx(4)
    assert meet(one, other)
    for planned in solution.rounds:
        assert planned_loads(collective, planned.works).most_common(1)[0][1] == pytest.approx(2)


def planned_loads(collective: str, works: Sequence[CliqueWork]) -> Counter[Way]:
    """Count a plan's loads again: copies away from roots, or one sum towards them."""
    loads: Counter[Way] = Counter()
    for work in works:
        for carried in work.trees:
            tree = nx.Graph([tuple(NINE.codes[n] for n in hop) for hop in carried.tree.hops])
            root = NINE.codes[carried.tree.root]
            others = [NINE.codes[n] for n in work.members if NINE.codes[n] != root]
            assert nx.is_tree(tree)
            hops = {hop for end in others for hop in pairwise(nx.shortest_path(tree, root, end))}
            ends = {(end, oracles.island(end)) for end in others} | {(oracles.island(root), root)}
            for a, b in hops | ends:
                loads[(a, b) if collective == "multicast" else (b, a)] += carried.share
        for code in (NINE.codes[n] for n in work.members):
            shares = sum(c.share for c in work.trees if NINE.codes[c.tree.root] == code)
            assert shares == pytest.approx(1)
    return loads


def test_one_round_of_everyone_gives_the_mean_in_the_network_and_by_ring() -> None:
    assert best("innetwork", "mean")[0] == pytest.approx(1)
    assert best("ring", "mean")[0] == pytest.approx(16 / 9)
    assert blocks_of(NINE, best("innetwork", "mean")[1]) == [EVERYONE]
    assert blocks_of(NINE, best("ring", "mean")[1]) == [EVERYONE]


def test_two_rounds_of_triples_in_the_network_take_at_most_three_units() -> None:
    units = {
        blocks: round(cost_of_round(NINE, blocks, "innetwork", BOTH).transfer_units)
        for blocks in triples(NINE.codes)
    }
    assert 1 < shortest_pair(units) <= 3


# --- other networks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "traversals", "units"),
    [("multicast", 72, 8), ("aggregation", 72, 8), ("innetwork", 16, 1)],
)
def test_netstorm_at_one_rate(collective: str, traversals: int, units: int) -> None:
    network = uniform(load("netstorm_nine"))
    cost = cost_of_round(network, [network.codes], collective, BOTH)
    assert (cost.transfer_units, cost.traversals) == (pytest.approx(units), traversals)


def test_netstorm_by_unicast_crosses_each_pairs_distance() -> None:
    network = uniform(load("netstorm_nine"))
    graph = nx.Graph([(link.a, link.b) for link in network.links])
    distances = sum(sum(row.values()) for _, row in nx.all_pairs_shortest_path_length(graph))
    cost = cost_of_round(network, [network.codes], "exchange", BOTH)
    assert cost.traversals == distances == 146
