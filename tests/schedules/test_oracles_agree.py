"""Rounds and plans of small random networks against the same computed by other means."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedules.capabilities import Accelerator, Capabilities
from schedules.consensus import removal, spectral_gap
from schedules.partitions import MaskArray, all_partitions, cliques
from schedules.problem import Problem
from schedules.ring_rounds import RingRounds
from schedules.rounds import RoundSet
from schedules.steiner import steiner_tree
from tests.schedules import oracles
from tests.schedules.small_networks import MEGABYTE, networks, problem, solved
from topologies.model import Topology

few = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
fewer = settings(few, max_examples=8)


def rounds_of(wanted: Problem) -> RoundSet:
    return RoundSet.of(wanted.model, wanted.clock, wanted.collectives, wanted.constraints)


def names(topology: Topology, masks: MaskArray) -> oracles.Blocks:
    return tuple(tuple(topology.codes[n] for n in clique) for clique in cliques(masks))


def exchange_times(topology: Topology, latency: bool) -> dict[oracles.Blocks, float]:
    """Return the time of every partition but the idle one, from routes alone."""
    unicast = oracles.Unicast(topology)
    found = {}
    for blocks in oracles.partitions(topology.codes):
        busy = oracles.several(blocks)
        if busy:
            time = oracles.seconds(topology, unicast.exchange(busy), MEGABYTE)
            ns = max(unicast.ns[a, b] for block in busy for a, b in permutations(block, 2))
            found[blocks] = time + ns * 1e-9 * latency
    return found


# --- rounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sites", [1, 2, 4, 6, 7])
def test_partitions_are_those_of_a_recursion(sites: int) -> None:
    codes = "ABCDEFG"[:sites]
    ours = {
        frozenset(tuple(codes[n] for n in clique) for clique in cliques(row))
        for row in all_partitions(sites)
    }
    assert ours == {frozenset(oracles.several(blocks)) for blocks in oracles.partitions(codes)}


@few
@given(networks(), st.booleans())
def test_an_exchange_takes_what_its_routes_take(topology: Topology, latency: bool) -> None:
    rounds = rounds_of(problem(topology, "unicast", "exchange", "exchange", latency))
    rounds.evaluate(np.arange(len(rounds.masks)))
    times = exchange_times(topology, latency)
    ours = {names(topology, row): s for row, s in zip(rounds.masks, rounds.best_s, strict=True)}
    assert ours == pytest.approx({oracles.several(b): s for b, s in times.items()})


@few
@given(networks(), st.booleans())
def test_rings_of_a_round_are_the_best_of_all_orders(topology: Topology, latency: bool) -> None:
    wanted = problem(topology, "unicast", "exchange", "ring", latency)
    masks = all_partitions(wanted.network.size)
    masks = masks[masks[:, 0] > 0]
    unicast = oracles.Unicast(topology)
    found = RingRounds.of(wanted.network, wanted.clock, masks)
    for row, blocks in enumerate(names(topology, each) for each in masks):
        orders = [[(block[0], *rest) for rest in permutations(block[1:])] for block in blocks]
        best = min(
            oracles.seconds(topology, unicast.ring(chosen), MEGABYTE)
            + max(unicast.ring_ns(order) for order in chosen) * 1e-9 * latency
            for chosen in product(*orders)
        )
        ours = found.transfer_units[row] * wanted.clock.unit_s
        assert ours + found.latency_ns[row] * 1e-9 * latency == pytest.approx(best)


@few
@given(networks(), st.data())
def test_a_steiner_tree_has_as_few_links_as_any(topology: Topology, data: st.DataObject) -> None:
    codes = topology.codes
    terminals = data.draw(st.lists(st.sampled_from(codes), min_size=2, unique=True))
    weights = np.full((len(codes), len(codes)), np.inf)
    for link in topology.links:
        a, b = codes.index(link.a), codes.index(link.b)
        weights[a, b] = weights[b, a] = 1.0
    numbers = [codes.index(code) for code in terminals]
    tree = steiner_tree(weights, numbers[0], numbers)
    assert set(numbers) <= tree.sites
    assert len(tree.hops) == oracles.least_links(topology, terminals)


def assert_trees_are_the_best(
    topology: Topology, collective: str, data: st.DataObject, latency: bool, some_sum: bool
) -> None:
    summing = set(topology.codes)
    if some_sum:
        summing = set(data.draw(st.lists(st.sampled_from(topology.codes), min_size=1, unique=True)))
    known = Capabilities(
        multicast=True,
        aggregation=True,
        accelerators={code: Accelerator() for code in summing} if some_sum else None,
    )
    wanted = problem(topology, known, "exchange", collective, latency)
    rounds = rounds_of(wanted)
    row = data.draw(st.integers(0, len(rounds.masks) - 1))
    rounds.refine(row)
    blocks = names(topology, rounds.masks[row])
    with np.errstate(divide="ignore"):
        best = oracles.fastest_trees(
            topology, collective, blocks, MEGABYTE, latency, summing.__contains__
        )
    assert rounds.best_s[row] == pytest.approx(best, rel=1e-6)
    assert rounds.floor_s[row] == pytest.approx(best, rel=1e-6)
    assert rounds.chosen(row).seconds == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("latency", [False, True])
@pytest.mark.parametrize("collective", ["multicast", "aggregation"])
@few
@given(topology=networks(), data=st.data())
def test_trees_of_a_round_are_split_as_well_as_can_be(
    collective: str, latency: bool, topology: Topology, data: st.DataObject
) -> None:
    assert_trees_are_the_best(topology, collective, data, latency, some_sum=False)


@pytest.mark.parametrize("latency", [False, True])
@fewer
@given(topology=networks(4, 4), data=st.data())
def test_trees_up_and_down_are_split_as_well_as_can_be(
    latency: bool, topology: Topology, data: st.DataObject
) -> None:
    assert_trees_are_the_best(topology, "innetwork", data, latency, some_sum=False)


@few
@given(topology=networks(), data=st.data())
def test_streams_that_some_sites_cannot_sum_are_counted(
    topology: Topology, data: st.DataObject
) -> None:
    assert_trees_are_the_best(topology, "aggregation", data, latency=False, some_sum=True)


# --- objectives -----------------------------------------------------------------------------------


@few
@given(networks(), st.booleans())
def test_the_most_exchange_is_that_of_a_plain_search(topology: Topology, latency: bool) -> None:
    found = solved(problem(topology, "unicast", "exchange", "exchange", latency))
    best = max(
        sum(len(block) * (len(block) - 1) for block in blocks) / time
        for blocks, time in exchange_times(topology, latency).items()
    )
    assert found.optimal
    assert found.value == pytest.approx(best)


@few
@given(networks(), st.booleans())
def test_the_fairest_rate_is_that_of_the_dual_over_all_rounds(
    topology: Topology, latency: bool
) -> None:
    found = solved(problem(topology, "unicast", "fair", "exchange", latency))
    assert found.optimal
    assert found.value == pytest.approx(
        oracles.fairest_rate(exchange_times(topology, latency)), rel=1e-5
    )


@few
@given(networks(), st.booleans())
def test_no_sequence_of_three_rounds_reaches_the_mean_sooner(
    topology: Topology, latency: bool
) -> None:
    found = solved(problem(topology, "unicast", "mean", "exchange", latency))
    times = exchange_times(topology, latency)
    assert found.optimal
    assert found.value == pytest.approx(oracles.shortest_mean(times, topology.codes, 3))


@few
@given(networks(4, 4), st.integers(0, 1 << 32))
def test_no_mixture_of_rounds_contracts_faster(topology: Topology, seed: int) -> None:
    found = solved(problem(topology, "unicast", "consensus", "exchange", latency=True))
    times = exchange_times(topology, latency=True)
    size = len(topology.codes)
    removals = np.array(
        [
            removal([tuple(topology.codes.index(c) for c in block) for block in blocks], size)
            for blocks in times
        ]
    )
    mixtures = np.random.default_rng(seed).dirichlet(np.full(len(times), 0.3), 300)
    seconds = np.array(list(times.values()))
    values = [spectral_gap(removals, m) / float(m @ seconds) for m in mixtures]
    assert found.optimal
    assert max(values) <= found.value * (1 + 1e-6)
