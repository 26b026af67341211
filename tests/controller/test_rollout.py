"""A tree's way from wanted to live to gone, step by step."""

from __future__ import annotations

from controller.fabric import HIGHEST_TREE_VERSION
from controller.intents import MulticastTree, PlacedTree, Tree
from controller.rollout import MARGIN_S, MOST_LEAVING, Rollout, journey_s
from tests.controller.networks import triangle

OLD = MulticastTree(1, "239.192.0.1", "AMS", (("AMS", "LON"), ("LON", "NYC")), ("NYC",))
NEW = MulticastTree(1, "239.192.0.1", "AMS", (("AMS", "NYC"),), ("NYC",))


def _delay_s(tree: Tree) -> float:
    return 0.25


def _yes(tree: Tree) -> bool:
    return True


def _no(tree: Tree) -> bool:
    return False


def _live(*trees: Tree) -> Rollout:
    return Rollout().wanting(trees, 0.0, _delay_s)


def test_a_new_tree_is_entered_at_once() -> None:
    assert _live(OLD).placed() == (PlacedTree(OLD),)
    assert _live(OLD).settled


def test_a_moved_tree_is_laid_out_before_it_is_entered() -> None:
    rollout = _live(OLD).wanting([NEW], 1.0, _delay_s)
    assert rollout.placed() == (PlacedTree(OLD), PlacedTree(NEW, 1, entries=False))
    assert rollout.moving == (1,)
    assert rollout.after(_no, 50.0, _delay_s) is rollout, "not before its switches confirmed"


def test_the_old_tree_stays_for_packets_that_are_on_their_way() -> None:
    rollout = _live(OLD).wanting([NEW], 1.0, _delay_s).after(_yes, 2.0, _delay_s)
    assert rollout.placed() == (PlacedTree(NEW, 1), PlacedTree(OLD, 0, entries=False))
    assert rollout.moving == () and not rollout.settled
    goes_s = 2.0 + MARGIN_S + 2 * 0.25
    assert rollout.after(_yes, goes_s - 0.01, _delay_s) is rollout
    rollout = rollout.after(_yes, goes_s, _delay_s)
    assert rollout.placed() == (PlacedTree(NEW, 1),)
    assert rollout.settled


def test_a_tree_that_moves_again_while_it_moves_takes_the_last_way() -> None:
    other = MulticastTree(1, "239.192.0.1", "AMS", (("AMS", "LON"),), ("LON",))
    rollout = _live(OLD).wanting([NEW], 1.0, _delay_s).wanting([other], 1.1, _delay_s)
    placed = rollout.after(_yes, 2.0, _delay_s).placed()
    assert placed[0].tree == other
    assert len({tree.version for tree in placed}) == len(placed)


def test_a_move_that_is_taken_back_leaves_everything_as_it_was() -> None:
    rollout = _live(OLD).wanting([NEW], 1.0, _delay_s).wanting([OLD], 1.1, _delay_s)
    assert rollout.placed() == (PlacedTree(OLD),)


def test_a_removed_tree_is_closed_at_once_and_forgotten_later() -> None:
    rollout = _live(OLD).wanting([], 1.0, _delay_s)
    assert rollout.placed() == (PlacedTree(OLD, 0, entries=False),)
    assert rollout.after(_yes, 10.0, _delay_s) == Rollout()


def test_a_tree_that_comes_back_does_not_share_rules_with_what_is_leaving() -> None:
    rollout = _live(OLD).wanting([], 1.0, _delay_s).wanting([NEW], 1.1, _delay_s)
    assert rollout.placed() == (PlacedTree(NEW, 1), PlacedTree(OLD, 0, entries=False))


def test_the_same_wish_again_changes_nothing() -> None:
    rollout = _live(OLD)
    assert rollout.wanting([OLD], 5.0, _delay_s) == rollout


def test_a_tree_that_moves_for_ever_keeps_few_old_versions_and_never_runs_out_of_new_ones() -> None:
    rollout = _live(OLD)
    for step in range(2 * HIGHEST_TREE_VERSION):
        tree = NEW if step % 2 == 0 else OLD
        rollout = rollout.wanting([tree], step * 0.01, _delay_s)
        rollout = rollout.after(_yes, step * 0.01, _delay_s)
        assert len(rollout.placed()) <= MOST_LEAVING + 2


def test_a_packets_journey_is_bounded_by_all_delays_of_its_tree() -> None:
    assert journey_s(triangle(), OLD) >= 0.003
