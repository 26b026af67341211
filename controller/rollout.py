"""Trees that move without losing or doubling a packet: the new way is made before the old is left.

    live ──wanted differs──> coming: the new version's rules are laid out, nothing enters them
                                │ every switch of the new tree has confirmed
                                v
    live <───── entered: the switches where packets come in write the new version
    old one: leaving, its rules stay until what entered it before must have arrived

Each packet follows one version from end to end (see `controller.compile`), so it does not matter in
which order switches change, nor how long a change takes. A tree that is new has nothing to lose and
comes at once; one that nobody wants any more is closed to new packets, then leaves likewise.

Pure: a `Rollout` is a value, and time is told to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from controller.fabric import HIGHEST_TREE_VERSION
from controller.intents import PlacedTree
from controller.trees import Tree
from topologies.model import Direction, Topology

MARGIN_S = 1.0
MOST_LEAVING = 16


@dataclass(frozen=True)
class Move:
    """Where one tree is on its way.

    Attributes:
        live: what packets enter now; None once nobody wants the tree.
        coming: what they will enter when all switches hold it.
        leaving: older versions, each with the time at which its rules go.
    """

    live: PlacedTree | None = None
    coming: PlacedTree | None = None
    leaving: tuple[tuple[PlacedTree, float], ...] = ()

    def placed(self) -> tuple[PlacedTree, ...]:
        """Everything of this tree that switches should hold."""
        entered = [] if self.live is None else [self.live]
        coming = [] if self.coming is None else [self.coming]
        others = [*coming, *(old for old, _ in self.leaving)]
        return (*entered, *(replace(other, entries=False) for other in others))

    @property
    def settled(self) -> bool:
        """Whether nothing of the move is left to do."""
        return self.coming is None and not self.leaving

    def wanting(self, tree: Tree | None, until_s: float) -> Move:
        """The move that leads to this tree, or to none; `until_s` is how long what leaves stays."""
        if tree is None:
            return self._left(None, until_s)
        if self.live is None:
            return replace(self, live=PlacedTree(tree, self._free_version()))
        if self.live.tree == tree:
            return replace(self, coming=None)
        if self.coming is not None and self.coming.tree == tree:
            return self
        return replace(self, coming=PlacedTree(tree, self._free_version()))

    def after(self, confirmed: Callable[[Tree], bool], now_s: float, until_s: float) -> Move:
        """The move some time later: enters what is confirmed, drops what has left."""
        kept = tuple((old, end_s) for old, end_s in self.leaving if end_s > now_s)
        move = self if kept == self.leaving else replace(self, leaving=kept)
        may_enter = len(kept) < MOST_LEAVING
        if may_enter and move.coming is not None and confirmed(move.coming.tree):
            move = move._left(move.coming, until_s)
        return move

    def _left(self, entered: PlacedTree | None, until_s: float) -> Move:
        old = () if self.live is None else ((self.live, until_s),)
        return Move(entered, None, (*self.leaving, *old)[-MOST_LEAVING:])

    def _free_version(self) -> int:
        """The next version that no rules in use have."""
        used = {placed.version for placed in self.placed()}
        newest = -1 if self.live is None else self.live.version
        return next(
            version
            for step in range(1, HIGHEST_TREE_VERSION + 2)
            if (version := (newest + step) % (HIGHEST_TREE_VERSION + 1)) not in used
        )


@dataclass(frozen=True)
class Rollout:
    """Every tree of the network and where it is on its way; `delay_s` bounds a packet's journey."""

    moves: Mapping[int, Move] = field(default_factory=dict)

    @classmethod
    def holding(cls, trees: Iterable[Tree], versions: Mapping[int, int]) -> Rollout:
        """A rollout at rest; a tree without a version is new and gets the first."""
        placed = [PlacedTree(tree, versions.get(tree.tree_id, 0)) for tree in trees]
        return cls({live.tree.tree_id: Move(live) for live in placed})

    @property
    def versions(self) -> Mapping[int, int]:
        """Version that packets enter now, by number of the tree."""
        moves = self.moves.items()
        return {number: move.live.version for number, move in moves if move.live is not None}

    def wanting(
        self, trees: Iterable[Tree], now_s: float, delay_s: Callable[[Tree], float]
    ) -> Rollout:
        """The rollout that leads to exactly these trees."""
        wanted = {tree.tree_id: tree for tree in trees}
        moves = {
            number: move.wanting(wanted.get(number), _until(move, now_s, delay_s))
            for number, move in self.moves.items()
        }
        new = {number: tree for number, tree in wanted.items() if number not in moves}
        return Rollout(moves | {n: Move().wanting(tree, now_s) for n, tree in new.items()})

    def after(
        self,
        confirmed: Callable[[Tree], bool],
        now_s: float,
        delay_s: Callable[[Tree], float],
    ) -> Rollout:
        """The rollout some time later; the same object if nothing happened."""
        moves = {
            number: move.after(confirmed, now_s, _until(move, now_s, delay_s))
            for number, move in self.moves.items()
        }
        there = {number: move for number, move in moves.items() if move != Move()}
        return self if there == self.moves else Rollout(there)

    def placed(self) -> tuple[PlacedTree, ...]:
        """Everything that switches should hold."""
        return tuple(placed for move in self.moves.values() for placed in move.placed())

    @property
    def moving(self) -> tuple[int, ...]:
        """Numbers of trees whose new version is not entered yet."""
        return tuple(number for number, move in self.moves.items() if move.coming is not None)

    @property
    def settled(self) -> bool:
        """Whether no tree is on its way."""
        return all(move.settled for move in self.moves.values())


def _until(move: Move, now_s: float, delay_s: Callable[[Tree], float]) -> float:
    """When packets that enter the live version now have arrived, queues on the way included."""
    return now_s if move.live is None else now_s + MARGIN_S + 2 * delay_s(move.live.tree)


def journey_s(topology: Topology, tree: Tree) -> float:
    """A bound on the propagation delay of any packet on a tree: all of its links in a row."""
    specs = topology.directions()
    hops = [Direction(*hop) for hop in tree.hops]
    access = [Direction.up(site) for site in tree.sites()]
    ways = [*hops, *(hop.reverse for hop in hops), *access]
    return sum(specs[way].one_way_delay_ms for way in ways if way in specs) / 1000
