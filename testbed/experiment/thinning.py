"""Fewer trees for a message that a plan splits over many: the best shares of a few of them. Pure.

The planner's linear program (`schedules.splitting`) takes as many trees as it likes; its vertices
may have as many as there are busy directions. Each part of a message costs every worker a thread,
sockets and connections, so that a run takes a few of the plan's trees and shares them anew:

    minimize T / T of the plan + half a hundredth for each tree in use
    such that   the shares of each root's trees add up to one,
                load of direction e x slowness of e <= T   for every e,
                a share is 0, or at least a hundredth,
                a clique's trees make no more parts than a run has

A root with k trees cuts messages at k - 1 places, so that a clique of n roots and no more than
n - 1 + parts trees stays within the parts. The trees are the plan's, so this is a small
mixed-integer program. For one clique of `netstorm_nine` in the network the plan has 21 pairs of
trees; four of them take 15 % longer, and the best single pair 168 %. Nor are fewer trees only
cheaper: four leave room on most links, which 21 fill to the brim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from schedules.cost import CarriedTree, Clique, CliqueWork, CostModel, clique_loads
from schedules.network import FloatArray
from testbed.innetwork.parts import LEAST_SHARE

LIMIT_S = 5.0
GAP = 1e-3
TREE_MUST_SPARE = 5e-3  # of the transfer


@dataclass(frozen=True)
class Choice:
    """A way to carry a root's message: a tree, or one up and one down (`innetwork`).

    Attributes:
        clique: number of the clique in the round.
        members: its sites.
        trees: one or two.
    """

    clique: int
    members: Clique
    trees: tuple[CarriedTree, ...]

    @property
    def root(self) -> tuple[int, int]:
        """What it carries: a root's message of a clique, or (`innetwork`, root -1) a clique's."""
        return self.clique, -1 if len(self.trees) > 1 else self.trees[0].tree.root

    def taken(self, share: float) -> tuple[CarriedTree, ...]:
        """Return its trees with a share."""
        return tuple(replace(tree, share=share) for tree in self.trees)


def few_shares(
    model: CostModel, collective: str, choices: Sequence[Choice], units: float, most_parts: int
) -> FloatArray | None:
    """Return (C,) the shares of some ways with the least transfer, most of them 0.

    Args:
        model: the network and its capabilities.
        collective: of the round.
        choices: every root's ways.
        units: transfer of the plan, with all its ways.
        most_parts: into which a clique's messages may be cut.

    Returns:
        The shares, or None when none were found in time.
    """
    count = len(choices)
    found = milp(
        np.array([0.0] * count + [TREE_MUST_SPARE] * count + [1 / units]),
        integrality=np.array([0] * count + [1] * count + [0]),
        bounds=Bounds(0, np.array([1.0] * 2 * count + [np.inf])),
        constraints=[
            _busy(model, collective, choices),
            _whole(choices),
            *_used(count),
            _few(choices, most_parts),
        ],
        options={"time_limit": LIMIT_S, "mip_rel_gap": GAP},
    )
    return None if found.x is None else np.asarray(found.x[:count], dtype=np.float64)


def _busy(model: CostModel, collective: str, choices: Sequence[Choice]) -> LinearConstraint:
    """No direction is busy for longer than the transfer."""
    loads = np.array(
        [
            clique_loads(model, collective, CliqueWork(one.members, one.taken(1.0)))
            for one in choices
        ]
    )
    rows = (loads * model.slowness).T
    rows = rows[rows.any(axis=1)]
    return LinearConstraint(np.hstack([rows, np.zeros_like(rows), -np.ones((len(rows), 1))]), ub=0)


def _whole(choices: Sequence[Choice]) -> LinearConstraint:
    """Every root's shares add up to one."""
    roots = sorted({one.root for one in choices})
    rows = np.zeros((len(roots), 2 * len(choices) + 1))
    for number, one in enumerate(choices):
        rows[roots.index(one.root), number] = 1
    return LinearConstraint(rows, 1, 1)


def _used(count: int) -> tuple[LinearConstraint, LinearConstraint]:
    """A way that is used has at least the least share, and one that is not has none."""
    eye, last = np.eye(count), np.zeros((count, 1))
    most = LinearConstraint(np.hstack([eye, -eye, last]), ub=0)
    least = LinearConstraint(np.hstack([eye, -LEAST_SHARE * eye, last]), lb=0)
    return most, least


def _few(choices: Sequence[Choice], most_parts: int) -> LinearConstraint:
    """No clique has more ways than a run's parts make of its roots' messages."""
    count, cliques = len(choices), sorted({one.clique for one in choices})
    rows, most = np.zeros((len(cliques), 2 * count + 1)), np.zeros(len(cliques))
    for row, clique in enumerate(cliques):
        own = [number for number, one in enumerate(choices) if one.clique == clique]
        rows[row, [count + number for number in own]] = 1
        most[row] = len({choices[number].root for number in own}) - 1 + most_parts
    return LinearConstraint(rows, ub=most)
