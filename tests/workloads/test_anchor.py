"""What rotating cliques do to anchors, worked through for nine islands on a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workloads.training.anchor import Anchor
from workloads.training.optimizer import DilocoNesterov, OuterOptimizer, PlainMean

ISLANDS = 9
LENGTH = 50
WHOLE = slice(0, LENGTH)
Cliques = Sequence[tuple[int, ...]]

ROWS: Cliques = [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
COLUMNS: Cliques = [(0, 3, 6), (1, 4, 7), (2, 5, 8)]
EVERYONE: Cliques = [tuple(range(ISLANDS))]


class Islands:
    """Anchors of nine islands that begin alike, and the parameters that each holds."""

    def __init__(self, outer: type[OuterOptimizer]) -> None:
        start = torch.linspace(-1, 1, LENGTH)
        self.anchors = [Anchor(start, outer()) for _ in range(ISLANDS)]
        self.values = [start.clone() for _ in range(ISLANDS)]

    def meet(self, cliques: Cliques) -> None:
        """Average in each clique; who is in none is idle."""
        meets_all = cliques == EVERYONE
        for clique in cliques:
            said = torch.stack([self.values[i] - self.anchors[i].reference for i in clique])
            mean = said.double().mean(dim=0).float()
            for island in clique:
                self.values[island] = self.anchors[island].settle(WHOLE, mean).clone()
        for anchor in self.anchors:
            anchor.end_round(meets_all)

    def move(self, changes: np.ndarray) -> None:
        for island in range(ISLANDS):
            self.values[island] = self.values[island] + torch.from_numpy(changes[island])

    def spread(self) -> float:
        rows = torch.stack(self.values)
        return float((rows - rows.mean(dim=0)).square().sum())


def changes(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ISLANDS, LENGTH)).astype(np.float32)


def test_rows_and_then_columns_give_all_islands_the_exact_mean() -> None:
    islands = Islands(PlainMean)
    islands.move(changes())
    expected = torch.stack(islands.values).double().mean(dim=0).float()
    islands.meet(ROWS)
    islands.meet(COLUMNS)
    for values in islands.values:
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-6)


def test_members_of_a_clique_hold_the_same_bits_after_a_plain_mean() -> None:
    islands = Islands(PlainMean)
    for seed in range(3):
        for cliques in (ROWS, COLUMNS):
            islands.move(changes(seed))
            islands.meet(cliques)
            for clique in cliques:
                assert all(
                    torch.equal(islands.values[i], islands.values[clique[0]]) for i in clique
                )


def test_the_reference_stays_common_to_all_islands_whatever_cliques_meet() -> None:
    for outer in (PlainMean, DilocoNesterov):
        islands = Islands(outer)
        for seed, cliques in enumerate([EVERYONE, ROWS, [ROWS[1]], EVERYONE, COLUMNS, EVERYONE]):
            islands.move(changes(seed))
            islands.meet(cliques)
            first = islands.anchors[0].reference
            assert all(torch.equal(one.reference, first) for one in islands.anchors)


def references(outer: type[OuterOptimizer], *meetings: Cliques) -> list[bool]:
    """Return, after each meeting, whether the reference is the newest anchor."""
    islands = Islands(outer)
    found = []
    for seed, cliques in enumerate(meetings):
        islands.move(changes(seed))
        islands.meet(cliques)
        found.append(islands.anchors[0].reference is islands.anchors[0].values)
    return found


def test_the_reference_is_the_newest_anchor_while_all_meet() -> None:
    assert references(PlainMean, EVERYONE, EVERYONE, ROWS, EVERYONE) == [True, True, False, True]


def test_momentum_that_differs_keeps_anchors_apart_even_when_all_meet() -> None:
    found = references(DilocoNesterov, EVERYONE, ROWS, EVERYONE, EVERYONE)
    assert found == [True, False, False, False]


def test_an_idle_island_keeps_its_anchor() -> None:
    islands = Islands(PlainMean)
    islands.move(changes())
    before = islands.anchors[8].values.clone()
    islands.meet([ROWS[0], ROWS[1]])
    assert torch.equal(islands.anchors[8].values, before)


def test_disagreement_dies_out_under_diloco_when_cliques_rotate() -> None:
    islands = Islands(DilocoNesterov)
    islands.move(changes())
    spreads = [islands.spread()]
    for _ in range(20):
        islands.meet(ROWS)
        islands.meet(COLUMNS)
        spreads.append(islands.spread())
    assert spreads[-1] < 1e-6 * spreads[0]


def test_what_all_want_alike_moves_all_as_if_they_met() -> None:
    together, rotating = Islands(DilocoNesterov), Islands(DilocoNesterov)
    for seed, cliques in enumerate([ROWS, COLUMNS, ROWS, COLUMNS]):
        same = np.tile(changes(seed)[:1], (ISLANDS, 1))
        for islands, meeting in ((together, EVERYONE), (rotating, cliques)):
            islands.move(same)
            islands.meet(meeting)
    torch.testing.assert_close(rotating.values[4], together.values[4], rtol=0, atol=1e-5)


def test_parts_settled_one_by_one_are_the_whole() -> None:
    one: list[Tensor] = []
    for parts in ([WHOLE], [slice(0, 20), slice(20, LENGTH)]):
        anchor = Anchor(torch.linspace(-1, 1, LENGTH), DilocoNesterov())
        for seed in range(3):
            mean = torch.from_numpy(changes(seed)[0])
            for part in parts:
                anchor.settle(part, mean[part])
            anchor.end_round(meets_all=True)
        one.append(anchor.values)
    assert torch.equal(*one)
