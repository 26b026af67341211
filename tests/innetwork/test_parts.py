"""Messages split over trees: parts in which every root has one tree, with the plan's shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.plan import PlannedTree
from testbed.innetwork.parts import LEAST_SHARE, carried_trees, is_split, parts_of


def tree(root: str, number: int, share: float, kind: str = "multicast") -> PlannedTree:
    """One of a root's trees, told from its others by a hop."""
    hops = ((root, f"via {number}"),)
    return PlannedTree(kind, 0, root, True, ("X",), hops, (), share)  # type: ignore[arg-type]


def shares_of(weights: list[int]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def whole(one: PlannedTree) -> PlannedTree:
    return replace(one, share=1.0)


# Weights of 2 to 10: with five trees at most, no share and no gap to a multiple is below 2/50.
ROOTS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5).map(
    lambda roots: {f"R{n}": shares_of(weights) for n, weights in enumerate(roots)}
)


def test_two_roots_cut_where_either_changes_trees() -> None:
    trees = [
        tree("NYC", 0, 0.6), tree("NYC", 1, 0.4), tree("LON", 0, 0.3), tree("LON", 1, 0.7)
    ]  # fmt: skip
    # NYC: its 0.6 then its 0.4; LON the other way about, the larger first: cuts at 0.6 and 0.7.
    parts = parts_of("multicast", trees)
    assert [part.share for part in parts] == pytest.approx([0.6, 0.1, 0.3])
    a, b, c, d = map(whole, trees)
    assert [part.trees for part in parts] == [(a, d), (b, d), (b, c)]


@settings(max_examples=200, deadline=None)
@given(roots=ROOTS)
def test_every_part_has_one_tree_a_root_and_every_tree_its_share(
    roots: dict[str, list[float]],
) -> None:
    trees = [tree(root, n, share) for root, ways in roots.items() for n, share in enumerate(ways)]
    parts = parts_of("multicast", trees)
    carried: Counter[PlannedTree] = Counter()
    for part in parts:
        assert sorted(one.root for one in part.trees) == sorted(roots)
        assert all(one.share == 1 for one in part.trees)
        for one in part.trees:
            carried[one] += part.share  # type: ignore[assignment]
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert len(parts) <= 1 + sum(len(ways) - 1 for ways in roots.values())
    for one in trees:
        assert carried[whole(one)] == pytest.approx(one.share, abs=LEAST_SHARE * len(trees))


@settings(max_examples=100, deadline=None)
@given(roots=ROOTS)
def test_shares_that_are_carried_are_those_of_parts_and_stay_when_cut_again(
    roots: dict[str, list[float]],
) -> None:
    trees = [tree(root, n, share) for root, ways in roots.items() for n, share in enumerate(ways)]
    once = carried_trees("multicast", trees)
    for root in roots:
        assert sum(one.share for one in once if one.root == root) == pytest.approx(1)
    again = {whole(one): one.share for one in carried_trees("multicast", once)}
    assert again == pytest.approx({whole(one): one.share for one in once})
    assert [part.share for part in parts_of("multicast", once)] == pytest.approx(
        [part.share for part in parts_of("multicast", trees)]
    )


def test_shares_of_next_to_nothing_are_left_to_the_neighbour() -> None:
    trees = [tree("NYC", 0, 0.5), tree("NYC", 1, 0.496), tree("NYC", 2, 0.004)]
    assert [part.share for part in parts_of("multicast", trees)] == pytest.approx([0.5, 0.5])
    kept = carried_trees("multicast", trees)
    assert [(one.hops, one.share) for one in kept] == [
        (one.hops, pytest.approx(0.5)) for one in trees[:2]
    ]


def test_a_part_of_a_sum_in_the_network_goes_up_one_tree_and_down_the_one_that_follows() -> None:
    up = [tree("A", n, share, "aggregation") for n, share in enumerate((0.25, 0.75))]
    down = [tree("A", 9, 0.25), tree("A", 8, 0.75)]
    pairs = [one for pair in zip(up, down, strict=True) for one in pair]
    parts = parts_of("innetwork", pairs)
    assert [part.share for part in parts] == pytest.approx([0.75, 0.25])
    assert parts[0].trees == (whole(up[1]), whole(down[1]))
    assert carried_trees("innetwork", pairs) == (up[1], down[1], up[0], down[0])


def test_whole_trees_are_one_part() -> None:
    trees = [tree("NYC", 0, 1.0), tree("LON", 0, 1.0)]
    (part,) = parts_of("multicast", trees)
    assert part.share == 1
    assert part.trees == tuple(trees)
    assert carried_trees("multicast", trees) == tuple(trees)
    assert not is_split(trees)
    assert parts_of("innetwork", ()) == ()
