"""Whatever the network does, all members get the same, right sums, and it comes to an end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accelerator.members import expected
from tests.accelerator.simulation import Tree, Weather, World, aggregation, innetwork
from workloads.innetwork.protocol import Areas, Element

DTYPES = {Element.INT32: np.int32, Element.INT64: np.int64}


@st.composite
def trees(draw: st.DrawFn, members_max: int = 5) -> Tree:
    accelerators = draw(st.integers(1, 4))
    parents = tuple(draw(st.integers(0, child - 1)) for child in range(1, accelerators))
    members = draw(st.integers(2, members_max))
    homes = [draw(st.integers(0, accelerators - 1)) for _ in range(members)]
    return Tree(parents, tuple(homes))


weathers = st.builds(
    Weather,
    loss=st.sampled_from([0.0, 0.02, 0.1, 0.3]),
    duplicate=st.sampled_from([0.0, 0.1, 0.5]),
    delay_us=st.just(1000),
    jitter_us=st.sampled_from([0, 500, 5000, 30_000]),
)


def contributions(members: int, sequences: int, seed: int) -> dict[int, Sequence[Areas]]:
    random = np.random.default_rng(seed)
    element = Element.INT64 if seed % 2 else Element.INT32

    def one() -> Areas:
        limits = np.iinfo(DTYPES[element])
        sums = random.integers(limits.min, limits.max, 3, DTYPES[element], endpoint=True)
        return Areas(element, random.integers(0, 256, 5, np.uint8).tobytes(), sums.tobytes())

    return {member: [one() for _ in range(sequences)] for member in range(members)}


def assert_all_right(world: World, areas: dict[int, Sequence[Areas]]) -> None:
    for member in world.members.values():
        assert not member.lost
        assert sorted(member.results) == list(range(len(areas[0])))
        for sequence, (leaves, got) in member.results.items():
            assert leaves == len(areas)
            assert got == expected(areas, sequence)


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(1, 4), st.integers(1, 12), weathers, st.integers(0, 2**32))
def test_in_network_sums_are_right_on_all_members(
    tree: Tree, window: int, sequences: int, weather: Weather, seed: int
) -> None:
    areas = contributions(len(tree.homes), sequences, seed)
    world = innetwork(tree, areas, window, weather, seed)
    world.run()
    assert_all_right(world, areas)


@settings(max_examples=40, deadline=None)
@given(trees(4), st.integers(1, 4), st.integers(1, 8), weathers, st.integers(0, 2**32))
def test_sums_to_one_receiver_each_are_right_on_all_members(
    tree: Tree, window: int, sequences: int, weather: Weather, seed: int
) -> None:
    areas = contributions(len(tree.homes), sequences, seed)
    world = aggregation(tree, areas, window, weather, seed)
    world.run()
    for index, member in enumerate(world.members.values()):
        others = {other: mine for other, mine in areas.items() if other != index}
        for sequence, (leaves, got) in member.results.items():
            assert leaves == len(others)
            assert got == expected(others, sequence)


@settings(max_examples=60, deadline=None)
@given(
    trees(),
    st.integers(1, 4),
    st.integers(2, 12),
    weathers,
    st.integers(0, 2**32),
    st.lists(st.integers(0, 60_000), min_size=1, max_size=3),
)
def test_an_accelerator_that_forgets_everything_does_no_harm(
    tree: Tree, window: int, sequences: int, weather: Weather, seed: int, times_us: list[int]
) -> None:
    areas = contributions(len(tree.homes), sequences, seed)
    world = innetwork(tree, areas, window, weather, seed)
    for time_us in times_us:
        victim = Random(time_us ^ seed).choice(sorted(world.accelerators))
        world.at(time_us, partial(world.restart, victim))
    world.run()
    assert_all_right(world, areas)


@pytest.mark.parametrize("seed", range(5))
def test_without_loss_every_packet_is_sent_once(seed: int) -> None:
    tree = Tree(parents=(0, 1), homes=(0, 1, 2, 2))
    areas = contributions(4, 20, seed)
    world = innetwork(tree, areas, 8, Weather(), seed)
    world.run()
    assert_all_right(world, areas)
    for accelerator in world.accelerators.values():
        (count,) = accelerator.counters().trees.values()
        assert (count.sums, count.resends, count.duplicates, count.asks) == (20, 0, 0, 0)


def test_those_who_get_no_result_are_told_that_it_is_complete() -> None:
    tree = Tree(parents=(0,), homes=(0, 1, 1))
    areas = contributions(3, 10, 1)
    world = aggregation(tree, areas, 4, Weather(), 1)
    world.run()
    world.settle(50_000)
    for index, member in enumerate(world.members.values()):
        for receiver in range(3):
            if receiver != index:
                assert member.done[receiver] >= set(range(10))
