"""A message that a plan splits over several trees, cut into parts of one tree a root each. Pure.

The planner gives each root (for `innetwork` the clique) shares of its message on several trees
(`schedules.splitting`), root by root. A clique that works with the network has one tree a root, so
the roots' shares are laid over one another: each root's message is cut where one of its trees ends,
and every cut is made in all messages. Between two cuts every root has one tree:

    NYC   |aaaaaaaaaaaaaa|bbbbbbbbbbbb|        parts   1: a, c   2: a, d   3: b, d
    LON   |cccccccc|dddddddddddddddddd|

That is the coarsest cutting that all roots' trees have in common. Each part is a group of its own
and is paced at its share of the clique's rate, so that parts work at the same time and end
together, and every link carries at every moment what the plan puts on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from schedules.capabilities import INNETWORK
from schedules.plan import PlannedTree

LEAST_SHARE = 0.01  # in less than that the headers of a part outweigh what it spares
MOST_PARTS = 4  # each takes every worker a thread, sockets and a mesh


@dataclass(frozen=True)
class Part:
    """A part of every message of a clique.

    Attributes:
        share: of the message.
        trees: those of the plan that carry it, one for each root; for `innetwork` one up and the
            one down that follows it. Their shares are 1: of the part they carry everything.
    """

    share: float
    trees: tuple[PlannedTree, ...]


@dataclass(frozen=True)
class Way:
    """What carries a share of a root's message: a tree, or one up and one down."""

    share: float
    trees: tuple[PlannedTree, ...]


def is_split(trees: Sequence[PlannedTree]) -> bool:
    """Whether some message takes several of these trees."""
    return any(tree.share < 1 for tree in trees)


def parts_of(kind: str, trees: Sequence[PlannedTree]) -> tuple[Part, ...]:
    """Return the parts of a clique's messages, in the order of the message.

    Shares of less than `LEAST_SHARE` are left to a neighbour.

    Args:
        kind: of the clique's collective.
        trees: the plan's trees of that clique.
    """
    if not trees:
        return ()
    ways = ways_of_roots(kind, trees)
    ends = [_ends(of_root) for of_root in ways]
    cuts = _far_enough_apart(sorted({end for of_root in ends for end in of_root}))
    return tuple(
        Part(end - start, tuple(_whole(ways, ends, (start + end) / 2)))
        for start, end in pairwise((0.0, *cuts, 1.0))
    )


def carried_trees(kind: str, trees: Sequence[PlannedTree]) -> tuple[PlannedTree, ...]:
    """Return a clique's trees with the shares that its parts really give them, none without any."""
    shares: dict[tuple[PlannedTree, ...], float] = {}
    for part in parts_of(kind, trees):
        for way in _ways_of_part(kind, part):
            shares[way] = shares.get(way, 0.0) + part.share
    return tuple(
        replace(tree, share=min(share, 1.0)) for way, share in shares.items() for tree in way
    )


def _ways_of_part(kind: str, part: Part) -> Iterator[tuple[PlannedTree, ...]]:
    if kind == INNETWORK:
        yield part.trees
    else:
        yield from ((tree,) for tree in part.trees)


def ways_of_roots(kind: str, trees: Sequence[PlannedTree]) -> list[list[Way]]:
    """Return the ways of each root's message, the largest first: like shares are cut alike."""
    if kind == INNETWORK:
        up = [tree for tree in trees if tree.kind == "aggregation"]
        down = [tree for tree in trees if tree.kind == "multicast"]
        roots = {"": [Way(a.share, (a, b)) for a, b in zip(up, down, strict=True)]}
    else:
        roots = {}
        for tree in trees:
            roots.setdefault(tree.root, []).append(Way(tree.share, (tree,)))
    return [sorted(ways, key=lambda way: -way.share) for ways in roots.values()]


def _ends(ways: Sequence[Way]) -> list[float]:
    """Where each way's share ends, as a part of the message; the last one's end is 1."""
    sums = list(accumulate(way.share for way in ways))
    return [round(end / sums[-1], 9) for end in sums[:-1]] + [1.0]


def _far_enough_apart(cuts: Sequence[float]) -> Iterator[float]:
    last = 0.0
    for cut in cuts:
        if cut - last >= LEAST_SHARE and 1 - cut >= LEAST_SHARE:
            yield cut
            last = cut


def _whole(
    ways: Sequence[Sequence[Way]], ends: Sequence[Sequence[float]], at: float
) -> Iterator[PlannedTree]:
    """The trees that carry what lies at a place in the messages."""
    for of_root, until in zip(ways, ends, strict=True):
        way = next(way for way, end in zip(of_root, until, strict=True) if at < end)
        for tree in way.trees:
            yield replace(tree, share=1.0)
